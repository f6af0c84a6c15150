//! From changes to writes: what each comes to with the items as they are, and what it means when a condition fails.

use std::{collections::BTreeSet, fmt, sync::Arc};

use nagaya_store::{Action, Condition, Failed, Item, Key, Update, Write};
use serde_json::{Map, Value as Json};

use crate::{
    Error, ErrorKind, Expected, Record,
    audit::Act,
    blueprint::{Blueprint, DELETING},
    draft,
    note::Noted,
    room::Room,
    unique, values,
};

pub(crate) enum Change {
    Create { blueprint: Arc<Blueprint>, item: Item },
    Update { blueprint: Arc<Blueprint>, id: Vec<String>, patch: Map<String, Json>, expected: Expected },
    Delete { blueprint: Arc<Blueprint>, id: Vec<String>, expected: Expected },
    Note { blueprint: Arc<Blueprint>, noted: Noted },
}

impl Change {
    pub(crate) fn blueprint(&self) -> &Blueprint {
        match self {
            Change::Create { blueprint, .. }
            | Change::Update { blueprint, .. }
            | Change::Delete { blueprint, .. }
            | Change::Note { blueprint, .. } => blueprint,
        }
    }
}

impl fmt::Debug for Change {
    /// Without fields: they may be personal or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self {
            Change::Create { .. } => "create",
            Change::Update { .. } => "update",
            Change::Delete { .. } => "delete",
            Change::Note { .. } => "note",
        };
        write!(f, "{verb} {}", self.blueprint().name())
    }
}

/// What it means when the condition of a write does not hold.
pub(crate) enum Meaning {
    /// The id is taken.
    Created(Arc<Blueprint>),
    /// The item has changed, or gone.
    Changed { blueprint: Arc<Blueprint>, expected: Expected },
    /// A value is taken.
    Unique(Vec<String>),
    /// What a field refers to is not there.
    Reference { field: String, entity: String },
    /// A note has changed.
    Noted(String),
    /// Something of the layer's own has changed, or an id of its making is taken: to be tried again.
    Own,
}

/// The writes of a set, the items as they will be, and what is to be written down about it.
#[derive(Default)]
pub(crate) struct Planned {
    pub(crate) writes: Vec<(Write, Meaning)>,
    pub(crate) results: Vec<Option<(Arc<Blueprint>, Item)>>,
    pub(crate) acts: Vec<Act>,
}

/// One check for each item that is referred to, and none for items that the set writes anyway.
pub(crate) fn distinct(writes: Vec<(Write, Meaning)>) -> Vec<(Write, Meaning)> {
    let place = |write: &Write, blueprint_key: &dyn Fn(&Item) -> Option<Key>| match &write.action {
        Action::Put { item } => blueprint_key(item),
        Action::Update { key, .. } | Action::Delete { key } | Action::Check { key } => Some(key.clone()),
    };
    let mut places: Vec<(String, Key)> = Vec::new();
    let mut kept = Vec::with_capacity(writes.len());
    let (checks, others): (Vec<_>, Vec<_>) =
        writes.into_iter().partition(|(_, meaning)| matches!(meaning, Meaning::Reference { .. }));
    for (write, meaning) in others {
        let key_of = |item: &Item| match &meaning {
            Meaning::Created(blueprint) | Meaning::Changed { blueprint, .. } => blueprint.stored_key(item),
            _ => None,
        };
        places.extend(place(&write, &key_of).map(|key| (write.table.clone(), key)));
        kept.push((write, meaning));
    }
    for (write, meaning) in checks {
        let Some(key) = place(&write, &|_| None) else { continue };
        let at = (write.table.clone(), key);
        if !places.contains(&at) {
            places.push(at);
            kept.push((write, meaning));
        }
    }
    kept
}

/// Where an item has to be what was read, all of it matters.
fn expect_all(expected: &Expected, old: &Item, touched: &mut BTreeSet<String>) {
    if let Expected::Same(_) = expected {
        touched.extend(old.iter().map(|(name, _)| name.to_owned()));
    }
}

impl Room {
    /// Adds what a change comes to, with the item as it is now.
    pub(crate) async fn plan(&self, change: &Change, planned: &mut Planned) -> Result<(), Error> {
        match change {
            Change::Create { blueprint, item } => {
                let free = Condition::absent(blueprint.key.partition.as_str());
                let write = Write::put(&blueprint.table, item.clone()).when(free);
                planned.writes.push((write, Meaning::Created(Arc::clone(blueprint))));
                self.promises(blueprint, None, Some(item), planned)?;
                self.note_change(blueprint, None, Some(item), planned);
                planned.results.push(Some((Arc::clone(blueprint), item.clone())));
            }
            Change::Update { blueprint, id, patch, expected } => {
                let (key, old) = self.current(blueprint, id, expected).await?;
                let new = draft::merge(blueprint, &self.scope, &self.house.settings, &old, patch)?;
                self.replace(blueprint, &key, &old, &new, expected, planned)?;
                self.note_change(blueprint, Some(&old), Some(&new), planned);
                planned.results.push(Some((Arc::clone(blueprint), new)));
            }
            Change::Delete { blueprint, id, expected } => {
                let (key, old) = self.current(blueprint, id, expected).await?;
                self.plan_removal(blueprint, key, &old, expected, planned)?;
            }
            Change::Note { blueprint, noted } => {
                planned.writes.push((self.note_write(blueprint, noted), Meaning::Noted(noted.name.clone())));
            }
        }
        Ok(())
    }

    /// Adds what removing an item comes to: it goes, or is kept as deleted.
    pub(crate) fn plan_removal(
        &self,
        blueprint: &Arc<Blueprint>,
        key: Key,
        old: &Item,
        expected: &Expected,
        planned: &mut Planned,
    ) -> Result<(), Error> {
        let kept = match blueprint.entity.soft_delete.is_some() {
            false => None,
            true => {
                let mut unmarked = old.clone();
                unmarked.remove(DELETING);
                Some(draft::mark_deleted(blueprint, &self.house.settings, &self.principal.user, &unmarked)?)
            }
        };
        match &kept {
            Some(new) => self.replace(blueprint, &key, old, new, expected, planned)?,
            None => {
                let mut touched = blueprint.sources.clone();
                expect_all(expected, old, &mut touched);
                let condition = self.unchanged(blueprint, &key, old, &touched);
                let meaning = Meaning::Changed { blueprint: Arc::clone(blueprint), expected: expected.clone() };
                planned.writes.push((Write::delete(&blueprint.table, key).when(condition), meaning));
                self.promises(blueprint, Some(old), None, planned)?;
            }
        }
        self.note_removal(blueprint, old, kept.as_ref(), planned);
        planned.results.push(None);
        Ok(())
    }

    /// The item as it is, if it has the expected version.
    async fn current(
        &self,
        blueprint: &Arc<Blueprint>,
        id: &[String],
        expected: &Expected,
    ) -> Result<(Key, Item), Error> {
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        let missing = || Error::not_found(blueprint.name());
        let (key, item) = match self.as_read(blueprint, &id, expected) {
            Some(read) => read,
            None => self.find(blueprint, &id).await?.ok_or_else(missing)?,
        };
        // What all may read only its owner may change; to the others it is not there to be changed.
        if !self.scope.may_change(blueprint, &item) {
            return Err(missing());
        }
        if !expected.holds(blueprint, &item) {
            let current = Record::new(Arc::clone(blueprint), item);
            return Err(ErrorKind::VersionConflict { current }.into());
        }
        // A key of an older form stays where it is.
        let key = blueprint.stored_key(&item).unwrap_or(key);
        Ok((key, item))
    }

    /// The item that the caller has read and expects, if it is one of this handle's under this id: the write is on the
    /// condition that it is still the same, so there is no need to read it again.
    fn as_read(&self, blueprint: &Blueprint, id: &[&str], expected: &Expected) -> Option<(Key, Item)> {
        let Expected::Same(record) = expected else { return None };
        let (key, item) = (self.key(blueprint, id)?, record.item());
        let same = record.entity() == blueprint.name() && blueprint.stored_key(item).as_ref() == Some(&key);
        let there = same && self.scope.admits(blueprint, item) && !blueprint.is_deleted(item);
        there.then(|| (key, item.clone()))
    }

    /// Writes what is different between two states of an item.
    fn replace(
        &self,
        blueprint: &Arc<Blueprint>,
        key: &Key,
        old: &Item,
        new: &Item,
        expected: &Expected,
        planned: &mut Planned,
    ) -> Result<(), Error> {
        let mut update = Update::new();
        let mut touched = blueprint.sources.clone();
        for (name, value) in new.iter().filter(|(name, value)| old.get(name) != Some(value)) {
            update = update.set(name, value.clone());
            touched.insert(name.to_owned());
        }
        for (name, _) in old.iter().filter(|(name, _)| new.get(name).is_none()) {
            update = update.remove(name);
            touched.insert(name.to_owned());
        }
        if update.changes().is_empty() {
            return Ok(());
        }
        expect_all(expected, old, &mut touched);
        let condition = self.unchanged(blueprint, key, old, &touched);
        let meaning = Meaning::Changed { blueprint: Arc::clone(blueprint), expected: expected.clone() };
        planned.writes.push((Write::update(&blueprint.table, key.clone(), update).when(condition), meaning));
        self.promises(blueprint, Some(old), Some(new), planned)
    }

    /// The item is still the one that was read: its version if it has one, else the attributes that matter; and if it was
    /// not about to go then, it is not now.
    pub(crate) fn unchanged<'a>(
        &self,
        blueprint: &Blueprint,
        key: &Key,
        old: &Item,
        attributes: impl IntoIterator<Item = &'a String>,
    ) -> Condition {
        let same = |name: &str| match old.get(name) {
            Some(value) => Condition::equal(name, value.clone()),
            None => Condition::absent(name),
        };
        let pinned = self.scope.pin(blueprint, key);
        let pinned = if blueprint.referred { pinned.and(same(DELETING)) } else { pinned };
        match &blueprint.entity.version {
            Some(version) => pinned.and(same(version)),
            None => attributes.into_iter().fold(pinned, |all, name| all.and(same(name))),
        }
    }

    /// Uniqueness and references of an item that changes.
    fn promises(
        &self,
        blueprint: &Arc<Blueprint>,
        old: Option<&Item>,
        new: Option<&Item>,
        planned: &mut Planned,
    ) -> Result<(), Error> {
        let owner = new.or(old);
        let tenant = blueprint.entity.tenant.as_deref().and_then(|field| values::lookup(owner?, field)?.as_str());
        for (write, constraint) in unique::markers(blueprint, tenant, old, new) {
            // A marker that is given back and is not the item's own any more: the item has changed meanwhile.
            let given_back = matches!(write.action, Action::Delete { .. });
            let meaning = if given_back { Meaning::Own } else { Meaning::Unique(constraint.fields.clone()) };
            planned.writes.push((write, meaning));
        }
        for field in blueprint.entity.fields.iter().filter(|field| field.reference.is_some()) {
            let value = |item: Option<&Item>| item.and_then(|item| item.get(&field.name)).and_then(values::to_text);
            let (before, Some(after)) = (value(old), value(new)) else { continue };
            let Some(reference) = field.reference.as_ref().filter(|_| before.as_ref() != Some(&after)) else {
                continue;
            };
            let target = self.house.blueprint(&reference.entity)?;
            let id: &[&str] = if target.entity.id_fields().is_empty() { &[] } else { &[&after] };
            let nothing = || Error::no_reference(&field.name, &reference.entity);
            let key = self.key(target, id).ok_or_else(nothing)?;
            let there = self.scope.pin(target, &key).and(Condition::absent(DELETING));
            let alive = target.deleted.clone().map(|deleted| Condition::Not(Box::new(deleted)));
            let there = alive.into_iter().fold(there, Condition::and);
            let meaning = Meaning::Reference { field: field.name.clone(), entity: reference.entity.clone() };
            planned.writes.push((Write::check(&target.table, key, there), meaning));
        }
        Ok(())
    }

    /// What a condition that did not hold means to the caller; nothing if the change is to be tried again.
    pub(crate) fn interpret(&self, failed: &Failed, meaning: Option<&Meaning>) -> Result<(), Error> {
        match meaning {
            Some(Meaning::Created(blueprint)) => {
                let fields = blueprint.entity.id_fields().into_iter().map(str::to_owned).collect();
                Err(ErrorKind::Taken { fields }.into())
            }
            Some(Meaning::Changed { blueprint, expected }) => {
                let found = failed.found.as_ref().filter(|item| self.scope.may_change(blueprint, item));
                let Some(found) = found.filter(|item| !blueprint.is_deleted(item)) else {
                    return Err(Error::not_found(blueprint.name()));
                };
                if !expected.holds(blueprint, found) {
                    let current = Record::new(Arc::clone(blueprint), found.clone());
                    return Err(ErrorKind::VersionConflict { current }.into());
                }
                Ok(())
            }
            // A marker that was to stay is gone: the item has changed meanwhile.
            Some(Meaning::Unique(_)) if failed.found.is_none() => Ok(()),
            Some(Meaning::Unique(fields)) => Err(ErrorKind::Taken { fields: fields.clone() }.into()),
            Some(Meaning::Reference { field, entity }) => Err(Error::no_reference(field, entity)),
            Some(Meaning::Noted(note)) => Err(ErrorKind::Overtaken { note: note.clone() }.into()),
            Some(Meaning::Own) | None => Ok(()),
        }
    }
}
