//! From drafts to writes: each with the condition that it needs, and with what it means when that condition fails.

use std::{collections::BTreeSet, sync::Arc};

use nagaya_design::Verb;
use nagaya_store::{Condition, Item, Key, Update, Write};

use super::{audit::AuditEntries, draft::Draft, unique};
use crate::{
    Error, Expected,
    compiled::{CompiledEntity, DELETING},
    session::Session,
    values,
};

/// What a failed condition of a write means.
pub(super) enum OnFailure {
    /// The id of a new item is taken.
    IdTaken(Arc<CompiledEntity>),
    /// The item has changed or is gone.
    Changed { compiled: Arc<CompiledEntity>, expected: Expected },
    /// A value that has to be unique is taken.
    ValueTaken(Vec<String>),
    /// A field refers to an item that does not exist.
    NoReference { field: String, entity: String },
    /// The side record of this name has changed.
    SideRecordChanged(String),
    /// An item of the layer's own has changed, or a generated id is taken: plan again.
    Replan,
}

/// The writes of a set and the items after them.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) writes: Vec<(Write, OnFailure)>,
    pub(super) results: Vec<Option<(Arc<CompiledEntity>, Item)>>,
    /// Audit entries.
    pub(super) entries: AuditEntries,
}

impl Plan {
    /// Adds the writes of a draft; that of the item itself comes first.
    pub(super) fn add(&mut self, session: &Session, draft: Draft) -> Result<(), Error> {
        let Draft { compiled, key, old, new, expected, is_removal, entries } = draft;
        let on_failure = match &old {
            None => OnFailure::IdTaken(Arc::clone(&compiled)),
            Some(_) => OnFailure::Changed { compiled: Arc::clone(&compiled), expected: expected.clone() },
        };
        let (old, new) = (old.as_ref(), new);
        if let Some(write) = session.item_write(&compiled, key, old, new.as_ref(), &expected) {
            self.writes.push((write, on_failure));
            self.writes.extend(unique::markers(&compiled, old, new.as_ref()));
            self.add_references(session, &compiled, old, new.as_ref())?;
        }
        self.entries.extend(entries);
        self.results.push(new.filter(|_| !is_removal).map(|new| (compiled, new)));
        Ok(())
    }

    /// Checks that the items exist that a draft begins to refer to.
    fn add_references(
        &mut self,
        session: &Session,
        compiled: &CompiledEntity,
        old: Option<&Item>,
        new: Option<&Item>,
    ) -> Result<(), Error> {
        for field in &compiled.entity.fields {
            let Some(reference) = &field.reference else { continue };
            let value = |item: Option<&Item>| item.and_then(|item| item.get(&field.name)).and_then(values::to_text);
            let Some(id) = value(new).filter(|id| value(old).as_ref() != Some(id)) else { continue };
            let target = session.state.compiled(&reference.entity)?;
            let id: &[&str] = if target.id_fields.is_empty() { &[] } else { &[&id] };
            let key = target.key_of(session.scope.tenant(), id);
            let key = key.ok_or_else(|| Error::no_reference(&field.name, &reference.entity))?;
            let exists = session.scope.ownership_condition(target, &key).and(Condition::absent(DELETING));
            let not_deleted = target.soft_deleted.clone().map(|deleted| Condition::Not(Box::new(deleted)));
            // What the caller may not read does not exist: the answer is the same.
            let readable = session.user_condition(target, Verb::Read);
            let exists = not_deleted.into_iter().chain(readable).fold(exists, Condition::and);
            let on_failure = OnFailure::NoReference { field: field.name.clone(), entity: reference.entity.clone() };
            self.writes.push((Write::condition_check(&target.table, key, exists), on_failure));
        }
        Ok(())
    }
}

impl Session {
    /// The write that makes one state of an item the other; `None` if they are the same.
    fn item_write(
        &self,
        compiled: &CompiledEntity,
        key: Key,
        old: Option<&Item>,
        new: Option<&Item>,
        expected: &Expected,
    ) -> Option<Write> {
        let Some(old) = old else { return new.map(|new| compiled.insert(new.clone())) };
        let mut update = Update::new();
        let mut touched = compiled.sources.clone();
        if let Some(new) = new {
            for (name, value) in new.iter().filter(|(name, value)| old.get(name) != Some(value)) {
                update = update.set(name, value.clone());
                touched.insert(name.to_owned());
            }
            for (name, _) in old.iter().filter(|(name, _)| new.get(name).is_none()) {
                update = update.remove(name);
                touched.insert(name.to_owned());
            }
            if update.changes().is_empty() {
                return None;
            }
        }
        if let Expected::Unchanged(_) = expected {
            touched.extend(old.iter().map(|(name, _)| name.to_owned()));
        }
        let unchanged = self.unchanged(compiled, &key, old, &touched);
        let write = match new {
            Some(_) => Write::update(&compiled.table, key, update),
            None => Write::delete(&compiled.table, key),
        };
        Some(write.when(unchanged))
    }

    /// The item is still the one that was read, and on the caller's side of the wall: its version is the same, or these
    /// attributes where it has no version. An item that had no deletion mark still has none.
    pub(super) fn unchanged(
        &self,
        compiled: &CompiledEntity,
        key: &Key,
        old: &Item,
        attributes: &BTreeSet<String>,
    ) -> Condition {
        let same = |name: &str| match old.get(name) {
            Some(value) => Condition::equal(name, value.clone()),
            None => Condition::absent(name),
        };
        let owned = self.scope.ownership_condition(compiled, key);
        let owned = if compiled.referenceable { owned.and(same(DELETING)) } else { owned };
        // Another user may have created an item under the same key meanwhile.
        let owner = compiled.entity.owner.as_deref().map(same);
        let owned = owner.into_iter().fold(owned, Condition::and);
        match &compiled.entity.version {
            Some(version) => owned.and(same(version)),
            None => attributes.iter().fold(owned, |all, name| all.and(same(name))),
        }
    }
}
