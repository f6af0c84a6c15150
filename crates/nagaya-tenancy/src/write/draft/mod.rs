//! The first stage of a write: each change becomes an item before and after, with the audit entries about it.

mod checks;
mod fields;

use std::{fmt, sync::Arc};

use nagaya_design::{FieldError, Verb};
use nagaya_store::{Item, Key};
use serde_json::{Map, Value as Json};

pub(super) use self::fields::{NewFields, archived_item};
use super::audit::{self, AuditEntries, AuditedAction, TenantEntry};
use crate::{
    Error, ErrorKind, Expected, Record,
    compiled::{CompiledEntity, DELETING},
    scope::Scope,
    session::Session,
    side_record::SideRecordChange,
};

/// A change that a caller asks for.
pub(super) struct Change {
    pub(super) compiled: Arc<CompiledEntity>,
    pub(super) kind: ChangeKind,
}

/// What a change does.
pub(super) enum ChangeKind {
    Create(NewFields),
    Update { id: Vec<String>, patch: Map<String, Json>, expected: Expected },
    Delete { id: Vec<String>, expected: Expected },
    SideRecord(SideRecordChange),
}

impl fmt::Debug for Change {
    /// Without fields: they may be personal or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.kind {
            ChangeKind::Create(_) => "create",
            ChangeKind::Update { .. } => "update",
            ChangeKind::Delete { .. } => "delete",
            ChangeKind::SideRecord(_) => "side record",
        };
        write!(f, "{verb} {}", self.compiled.name())
    }
}

/// An item before and after a change.
pub(super) struct Draft {
    pub(super) compiled: Arc<CompiledEntity>,
    pub(super) key: Key,
    /// `None`: the item is new.
    pub(super) old: Option<Item>,
    /// `None`: the item is removed.
    pub(super) new: Option<Item>,
    pub(super) expected: Expected,
    /// Whether callers do not see the item any more, even if it is kept as soft-deleted.
    pub(super) is_removal: bool,
    /// Audit entries about the change.
    pub(super) entries: AuditEntries,
}

impl Draft {
    /// The draft of a change with the item as it is now; `None` for a side record, which is no item.
    pub(super) async fn from_change(session: &Session, change: &Change) -> Result<Option<Self>, Error> {
        let (Session { state, scope, .. }, compiled) = (session, &change.compiled);
        let draft = match &change.kind {
            ChangeKind::SideRecord(_) => return Ok(None),
            ChangeKind::Create(fields) => {
                let new = fields.item(state, compiled, scope)?;
                session.check_owner_of_new(compiled, &new)?;
                let key = compiled.stored_key(&new).ok_or_else(|| Error::not_found(compiled.name()))?;
                Draft::audited(session, compiled, key, (None, Some(new)), &Expected::Any, "create")
            }
            ChangeKind::Update { id, patch, expected } => {
                let (key, old) = session.current(compiled, id, expected, Verb::Update).await?;
                let new = fields::merge(compiled, session, &old, patch)?;
                Draft::audited(session, compiled, key, (Some(old), Some(new)), expected, "update")
            }
            ChangeKind::Delete { id, expected } => {
                let (key, old) = session.current(compiled, id, expected, Verb::Delete).await?;
                Draft::removal(session, compiled, key, old, expected)
            }
        };
        draft.map(Some)
    }

    /// The removal of an item that was read already: it is deleted, or kept as soft-deleted.
    pub(super) fn removal(
        session: &Session,
        compiled: &Arc<CompiledEntity>,
        key: Key,
        old: Item,
        expected: &Expected,
    ) -> Result<Self, Error> {
        let kept = match compiled.entity.soft_delete.is_some() {
            false => None,
            true => {
                let mut unmarked = old.clone();
                unmarked.remove(DELETING);
                Some(fields::soft_delete(&session.state, compiled, &session.principal.user, &unmarked)?)
            }
        };
        Draft::audited(session, compiled, key, (Some(old), kept), expected, "delete")
    }

    fn audited(
        session: &Session,
        compiled: &Arc<CompiledEntity>,
        key: Key,
        (old, new): (Option<Item>, Option<Item>),
        expected: &Expected,
        verb: &'static str,
    ) -> Result<Self, Error> {
        let is_removal = verb == "delete";
        let mut entries = AuditEntries::default();
        if (session.reason.is_some() || compiled.audited) && (is_removal || old != new) {
            let item = new.as_ref().or(old.as_ref());
            let tenant = session.scope.tenant().or_else(|| audit::owner(session, compiled, item?));
            let target = item.map_or_else(String::new, |item| audit::target(compiled, &compiled.id_of(item)));
            let (old, new) = (old.as_ref(), new.as_ref());
            entries = audit_entries(session, &AuditedAction { verb, compiled, target, tenant, old, new })?;
        }
        let (compiled, expected) = (Arc::clone(compiled), expected.clone());
        Ok(Draft { compiled, key, old, new, expected, is_removal, entries })
    }
}

/// What records an action: an item of the tenant's audit, and an entry of the operator log.
pub(super) fn audit_entries(session: &Session, action: &AuditedAction<'_>) -> Result<AuditEntries, Error> {
    let mut entries = AuditEntries::default();
    if let Some(TenantEntry { compiled, tenant, fields }) = audit::tenant_entry(session, action)? {
        let fields = NewFields::new(session, compiled, fields);
        let item = fields.item(&session.state, compiled, &Scope::Tenant(tenant.into()))?;
        entries.writes.push(compiled.insert(item));
    }
    entries.log.extend(audit::operator_entry(session, action));
    Ok(entries)
}

impl Session {
    /// Refuses a new item of another user, if this session may create own items only.
    fn check_owner_of_new(&self, compiled: &CompiledEntity, new: &Item) -> Result<(), Error> {
        match &compiled.entity.owner {
            Some(owner) if self.is_hidden(compiled, new, Verb::Create) => {
                let message = "has to be the user of the token".to_owned();
                Err(ErrorKind::Invalid(vec![FieldError { path: owner.clone(), message }]).into())
            }
            _ => Ok(()),
        }
    }

    /// The item as it is, if it is the expected one.
    async fn current(
        &self,
        compiled: &Arc<CompiledEntity>,
        id: &[String],
        expected: &Expected,
        verb: Verb,
    ) -> Result<(Key, Item), Error> {
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        let missing = || Error::not_found(compiled.name());
        let (key, item) = match self.as_read(compiled, &id, expected) {
            Some(read) => read,
            None => self.find(compiled, &id).await?.ok_or_else(missing)?,
        };
        // A public item is read by all and changed by its owner only; for others there is no item to change. The same holds for
        // another user's item, if the roles permit changing own ones only.
        if !self.scope.may_change(compiled, &item) || self.is_hidden(compiled, &item, verb) {
            return Err(missing());
        }
        if !expected.holds(compiled, &item) {
            let current = Record::new(Arc::clone(compiled), item);
            return Err(ErrorKind::VersionConflict { current }.into());
        }
        // An item under a key of an older form keeps that key.
        let key = compiled.stored_key(&item).unwrap_or(key);
        Ok((key, item))
    }

    /// The record that the caller has read and expects, if it is one of this session's under this id. The write has the
    /// condition that it is still the same, so there is no need to read it again.
    fn as_read(&self, compiled: &CompiledEntity, id: &[&str], expected: &Expected) -> Option<(Key, Item)> {
        let Expected::Unchanged(record) = expected else { return None };
        let (key, item) = (compiled.key_of(self.scope.tenant(), id)?, record.item());
        let same = record.entity() == compiled.name() && compiled.stored_key(item).as_ref() == Some(&key);
        let exists = same && self.scope.admits(compiled, item) && !compiled.is_deleted(item);
        exists.then(|| (key, item.clone()))
    }
}
