//! Changes of one tenant's items that happen together or not at all.

use std::sync::Arc;

use nagaya_store::{Condition, Failed, Item, Key, Update, Value, Write, WriteSet};
use serde_json::{Map, Value as Json};

use crate::{
    Error, ErrorKind, Record,
    blueprint::{Blueprint, DELETING},
    draft,
    guard::Intent,
    room::Room,
    unique, values,
};

/// Changes that happen together or not at all, all on one side of the wall.
#[derive(Debug)]
#[must_use = "nothing happens before `commit`"]
pub struct Set {
    room: Room,
    changes: Vec<Change>,
    /// The first thing that cannot be.
    refused: Option<Error>,
}

#[derive(Debug)]
enum Change {
    Create { blueprint: Arc<Blueprint>, item: Item },
    Update { blueprint: Arc<Blueprint>, id: Vec<String>, patch: Map<String, Json>, expected: Option<i64> },
    Delete { blueprint: Arc<Blueprint>, id: Vec<String>, expected: Option<i64> },
}

/// What it means when the condition of a write does not hold.
enum Meaning {
    /// The id is taken.
    Created(Arc<Blueprint>),
    /// The item has changed, or gone.
    Changed { blueprint: Arc<Blueprint>, expected: Option<i64> },
    /// A value is taken; or, when an old one is given back, the item has changed.
    Unique(Vec<String>),
    /// What a field refers to is not there.
    Reference(String),
}

/// The writes of a set, and the items as they will be.
#[derive(Default)]
struct Planned {
    writes: Vec<(Write, Meaning)>,
    results: Vec<Option<(Arc<Blueprint>, Item)>>,
}

impl Set {
    pub(crate) fn new(room: Room) -> Self {
        Set { room, changes: Vec::new(), refused: None }
    }

    /// Makes an item of these fields.
    pub fn create(mut self, entity: &str, fields: Map<String, Json>) -> Self {
        let drafted = self.room.blueprint(entity, Intent::Write).map(Arc::clone).and_then(|blueprint| {
            let item = draft::create(&blueprint, &self.room.scope, &self.room.house.settings, fields)?;
            Ok(Change::Create { blueprint, item })
        });
        self.add(drafted);
        self
    }

    /// Changes an item by a merge patch of its fields, if it has the expected version.
    pub fn update(mut self, entity: &str, id: &[&str], patch: Map<String, Json>, expected: Option<i64>) -> Self {
        let id = id.iter().map(|&part| part.to_owned()).collect();
        let blueprint = self.room.blueprint(entity, Intent::Write).map(Arc::clone);
        self.add(blueprint.map(|blueprint| Change::Update { blueprint, id, patch, expected }));
        self
    }

    /// Removes an item, if it has the expected version.
    pub fn delete(mut self, entity: &str, id: &[&str], expected: Option<i64>) -> Self {
        let id = id.iter().map(|&part| part.to_owned()).collect();
        let blueprint = self.room.blueprint(entity, Intent::Write).map(Arc::clone);
        self.add(blueprint.map(|blueprint| Change::Delete { blueprint, id, expected }));
        self
    }

    fn add(&mut self, change: Result<Change, Error>) {
        match change {
            Ok(change) => self.changes.push(change),
            Err(error) => self.refused = self.refused.take().or(Some(error)),
        }
    }

    /// Makes all changes or none; the items as they are afterwards, `None` for those that are gone.
    pub async fn commit(self) -> Result<Vec<Option<Record>>, Error> {
        let Set { room, changes, refused } = self;
        if let Some(refused) = refused {
            return Err(refused);
        }
        for _ in 0..room.house.settings.attempts.max(1) {
            let mut planned = Planned::default();
            for change in &changes {
                room.plan(change, &mut planned).await?;
            }
            let Planned { writes, results } = planned;
            let (writes, meanings): (Vec<_>, Vec<_>) = distinct(writes).into_iter().unzip();
            let written = match writes.is_empty() {
                true => Ok(()),
                false => room.house.store.write(writes.into_iter().collect::<WriteSet>()).await.map(drop),
            };
            let Err(error) = written else {
                let record = |(blueprint, item)| Record::new(blueprint, item);
                return Ok(results.into_iter().map(|result| result.map(record)).collect());
            };
            let Some(failed) = error.failed_conditions() else { return Err(error.into()) };
            for failed in failed {
                room.interpret(failed, meanings.get(failed.action))?;
            }
        }
        Err(ErrorKind::Contended.into())
    }
}

/// One check for each item that is referred to, and none for items that the set writes anyway.
fn distinct(writes: Vec<(Write, Meaning)>) -> Vec<(Write, Meaning)> {
    let place = |write: &Write, blueprint_key: &dyn Fn(&Item) -> Option<Key>| match &write.action {
        nagaya_store::Action::Put { item } => blueprint_key(item),
        nagaya_store::Action::Update { key, .. }
        | nagaya_store::Action::Delete { key }
        | nagaya_store::Action::Check { key } => Some(key.clone()),
    };
    let mut places: Vec<(String, Key)> = Vec::new();
    let mut kept = Vec::with_capacity(writes.len());
    let (checks, others): (Vec<_>, Vec<_>) =
        writes.into_iter().partition(|(_, meaning)| matches!(meaning, Meaning::Reference(_)));
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

impl Room {
    /// Adds what a change comes to, with the item as it is now.
    async fn plan(&self, change: &Change, planned: &mut Planned) -> Result<(), Error> {
        match change {
            Change::Create { blueprint, item } => {
                let free = Condition::absent(blueprint.key.partition.as_str());
                let write = Write::put(&blueprint.table, item.clone()).when(free);
                planned.writes.push((write, Meaning::Created(Arc::clone(blueprint))));
                self.promises(blueprint, None, Some(item), planned)?;
                planned.results.push(Some((Arc::clone(blueprint), item.clone())));
            }
            Change::Update { blueprint, id, patch, expected } => {
                let (key, old) = self.current(blueprint, id, *expected).await?;
                let new = draft::merge(blueprint, &self.scope, &self.house.settings, &old, patch)?;
                self.replace(blueprint, &key, &old, &new, *expected, planned)?;
                planned.results.push(Some((Arc::clone(blueprint), new)));
            }
            Change::Delete { blueprint, id, expected } => {
                let (key, old) = self.current(blueprint, id, *expected).await?;
                if blueprint.entity.soft_delete.is_some() {
                    let user = &self.principal.user;
                    let new = draft::mark_deleted(blueprint, &self.house.settings, user, &old)?;
                    self.replace(blueprint, &key, &old, &new, *expected, planned)?;
                } else {
                    let condition = self.unchanged(blueprint, &key, &old, &blueprint.sources);
                    let meaning = Meaning::Changed { blueprint: Arc::clone(blueprint), expected: *expected };
                    planned.writes.push((Write::delete(&blueprint.table, key).when(condition), meaning));
                    self.promises(blueprint, Some(&old), None, planned)?;
                }
                planned.results.push(None);
            }
        }
        Ok(())
    }

    /// The item as it is, if it has the expected version.
    async fn current(
        &self,
        blueprint: &Arc<Blueprint>,
        id: &[String],
        expected: Option<i64>,
    ) -> Result<(Key, Item), Error> {
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        let missing = || Error::not_found(blueprint.name());
        let (key, item) = self.find(blueprint, &id).await?.ok_or_else(missing)?;
        // What all may read only its owner may change; to the others it is not there to be changed.
        if !self.scope.may_change(blueprint, &item) {
            return Err(missing());
        }
        if expected.is_some_and(|expected| blueprint.version_of(&item) != Some(expected)) {
            let current = Record::new(Arc::clone(blueprint), item);
            return Err(ErrorKind::VersionConflict { current }.into());
        }
        // A key of an older form stays where it is.
        let key = blueprint.stored_key(&item).unwrap_or(key);
        Ok((key, item))
    }

    /// Writes what is different between two states of an item.
    fn replace(
        &self,
        blueprint: &Arc<Blueprint>,
        key: &Key,
        old: &Item,
        new: &Item,
        expected: Option<i64>,
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
        let condition = self.unchanged(blueprint, key, old, &touched);
        let meaning = Meaning::Changed { blueprint: Arc::clone(blueprint), expected };
        planned.writes.push((Write::update(&blueprint.table, key.clone(), update).when(condition), meaning));
        self.promises(blueprint, Some(old), Some(new), planned)
    }

    /// The item is still the one that was read: its version if it has one, else the attributes that matter.
    fn unchanged<'a>(
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
            planned.writes.push((write, Meaning::Unique(constraint.fields.clone())));
        }
        for field in blueprint.entity.fields.iter().filter(|field| field.reference.is_some()) {
            let value = |item: Option<&Item>| {
                item.and_then(|item| item.get(&field.name)).and_then(Value::as_str).map(str::to_owned)
            };
            let (before, Some(after)) = (value(old), value(new)) else { continue };
            let Some(reference) = field.reference.as_ref().filter(|_| before.as_ref() != Some(&after)) else {
                continue;
            };
            let target = self.house.blueprint(&reference.entity)?;
            let id: &[&str] = if target.entity.id_fields().is_empty() { &[] } else { &[&after] };
            let nothing = || Error::problem(&field.name, format!("refers to no {}", reference.entity));
            let key = self.key(target, id).ok_or_else(nothing)?;
            let there = self.scope.pin(target, &key).and(Condition::absent(DELETING));
            let alive = target.deleted.clone().map(|deleted| Condition::Not(Box::new(deleted)));
            let there = alive.into_iter().fold(there, Condition::and);
            planned.writes.push((Write::check(&target.table, key, there), Meaning::Reference(field.name.clone())));
        }
        Ok(())
    }

    /// What a condition that did not hold means to the caller; nothing if the change is to be tried again.
    fn interpret(&self, failed: &Failed, meaning: Option<&Meaning>) -> Result<(), Error> {
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
                if expected.is_some_and(|expected| blueprint.version_of(found) != Some(expected)) {
                    let current = Record::new(Arc::clone(blueprint), found.clone());
                    return Err(ErrorKind::VersionConflict { current }.into());
                }
                Ok(())
            }
            // A marker that is given back and is not one's own any more: the item has changed meanwhile.
            Some(Meaning::Unique(_)) if failed.found.is_none() => Ok(()),
            Some(Meaning::Unique(fields)) => Err(ErrorKind::Taken { fields: fields.clone() }.into()),
            Some(Meaning::Reference(field)) => Err(Error::problem(field, "refers to nothing that is there")),
            None => Ok(()),
        }
    }
}
