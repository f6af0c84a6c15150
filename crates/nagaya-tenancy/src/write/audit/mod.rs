//! What was done, by whom, when and from where: written in the same set as the change.
//!
//! Where the design has an audit entity, a tenant's changes, and what operators do on its behalf, become items of the tenant's
//! own. In addition, everything that an operator does goes into the operator log.

mod archive;
pub(crate) mod chain;
mod changes;
mod expiry;
pub(crate) mod log;
mod lost_key;
mod prune;

use std::sync::Arc;

use nagaya_design::{AuditPart, Field};
use nagaya_store::{Item, Write};
use serde_json::{Map, Value as Json};

use crate::{Error, compiled::CompiledEntity, session::Session, values};

pub(super) use self::log::{entry_about_log, operator_entry};
pub use self::{
    archive::{ArchiveStep, AuditArchiver},
    log::LogEntry,
};
pub(crate) use self::{
    expiry::Expiries,
    prune::{PruningPosition, is_expired, operator_log_item_key},
};

/// What is written about actions.
#[derive(Debug, Default)]
pub(super) struct AuditEntries {
    /// The writes of items of the tenants' own audit.
    pub(super) writes: Vec<Write>,
    /// Entries of the operator log. They are linked to its chain when they are written.
    pub(super) log: Vec<LogEntry>,
}

impl AuditEntries {
    pub(super) fn extend(&mut self, others: AuditEntries) {
        self.writes.extend(others.writes);
        self.log.extend(others.log);
    }
}

/// An action that is recorded.
#[derive(Debug)]
pub(super) struct AuditedAction<'a> {
    pub(super) verb: &'static str,
    pub(super) compiled: &'a Arc<CompiledEntity>,
    /// The id of the item, or the name of an access pattern.
    pub(super) target: String,
    /// The tenant that the action concerns.
    pub(super) tenant: Option<&'a str>,
    pub(super) old: Option<&'a Item>,
    pub(super) new: Option<&'a Item>,
}

impl AuditedAction<'_> {
    fn name(&self) -> String {
        format!("{}.{}", self.compiled.name(), self.verb)
    }

    fn changes(&self, limit: usize) -> Json {
        changes::changed_fields(&self.compiled.entity, self.old, self.new, limit)
    }
}

/// The tenant of an item, unless it is the system's own.
pub(super) fn owner<'i>(session: &Session, compiled: &CompiledEntity, item: &'i Item) -> Option<&'i str> {
    let system = session.state.design.tenant.system.as_deref();
    compiled.owner(item).filter(|owner| system != Some(owner))
}

/// An entry of a tenant's audit.
pub(super) struct TenantEntry<'a> {
    pub(super) compiled: &'a CompiledEntity,
    pub(super) tenant: &'a str,
    pub(super) fields: Map<String, Json>,
}

/// The entry about an action; `None` if the tenant's audit has none.
pub(super) fn tenant_entry<'a>(
    session: &'a Session,
    action: &AuditedAction<'a>,
) -> Result<Option<TenantEntry<'a>>, Error> {
    let Session { state, principal, reason, .. } = session;
    let (Some(audit), Some(tenant), true) = (&state.design.audit, action.tenant, action.compiled.audited) else {
        return Ok(None);
    };
    let compiled = state.compiled(&state.design.entities[audit.entity].name)?;
    let mut fields = Map::new();
    for part in AuditPart::ALL {
        let Some(field) = audit.field(part).and_then(|name| compiled.entity.field(name)) else { continue };
        let value = match part {
            AuditPart::Action => fit(field, &action.name()),
            AuditPart::Actor => fit(field, &principal.user),
            AuditPart::Target => fit(field, &action.target),
            AuditPart::At => field.timestamp_value(state.settings.clock.millis()),
            AuditPart::Changes => Some(action.changes(field.max_size)),
            AuditPart::Request => principal.request.as_ref().and_then(|request| fit(field, request)),
            AuditPart::Address => principal.address.as_ref().and_then(|address| fit(field, address)),
            AuditPart::Reason => reason.as_ref().and_then(|reason| fit(field, reason)),
        };
        fields.extend(value.map(|value| (field.name.clone(), value)));
    }
    Ok(Some(TenantEntry { compiled, tenant, fields }))
}

/// A text as a field accepts it: cut if it is too long; `None` if the field does not accept it at all.
fn fit(field: &Field, text: &str) -> Option<Json> {
    let value = Json::from(changes::truncate_text(text, field.max_size));
    values::is_valid(field, &value).then_some(value)
}

/// The id of an item in one text, personal parts masked.
pub(crate) fn target(compiled: &CompiledEntity, id: &[impl AsRef<str>]) -> String {
    let entity = &compiled.entity;
    let part = |(field, text): (&String, &_)| match entity.is_personal(field) {
        true => changes::MASKED.to_owned(),
        false => AsRef::<str>::as_ref(text).to_owned(),
    };
    let parts: Vec<_> = compiled.id_fields.iter().zip(id).map(part).collect();
    if parts.is_empty() { entity.name.clone() } else { parts.join("/") }
}
