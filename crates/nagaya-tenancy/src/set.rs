//! Changes of one tenant's items that happen together or not at all.

use std::sync::Arc;

use nagaya_store::{Write, WriteSet};
use serde_json::{Map, Value as Json};

use crate::{
    Error, Expected, Record, Retry,
    audit::Act,
    draft,
    guard::Intent,
    note::{Keeper, Note, Noted},
    once::{Once, Place},
    plan::{Change, Meaning, Planned, distinct},
    room::Room,
};

/// Changes that happen together or not at all, all on one side of the wall.
///
/// A store takes 100 writes at once; each change is one, and so are its audit entry, each unique value that it takes or gives
/// back, and each item that it begins to refer to.
///
/// What other entities can refer to is deleted by itself, not beside other changes: a deletion that has to look for what
/// refers to it, and may have to take more along than fits one write, is no part of something that happens at once.
#[derive(Debug)]
#[must_use = "nothing happens before `commit`"]
pub struct Set {
    room: Room,
    changes: Vec<Change>,
    /// The first thing that cannot be.
    refused: Option<Error>,
    once: Option<Once>,
}

impl Set {
    pub(crate) fn new(room: Room) -> Self {
        Set { room, changes: Vec::new(), refused: None, once: None }
    }

    /// Makes an item of these fields.
    pub fn create(mut self, entity: &str, fields: Map<String, Json>) -> Self {
        let drafted = self.room.blueprint(entity, Intent::Create).map(Arc::clone).and_then(|blueprint| {
            let item = draft::create(&blueprint, &self.room.scope, &self.room.house.settings, fields)?;
            Ok(Change::Create { blueprint, item })
        });
        self.add(drafted);
        self
    }

    /// Changes an item by a merge patch of its fields, if it is as expected.
    pub fn update(
        mut self,
        entity: &str,
        id: &[&str],
        patch: Map<String, Json>,
        expected: impl Into<Expected>,
    ) -> Self {
        let id = id.iter().map(|&part| part.to_owned()).collect();
        let blueprint = self.room.blueprint(entity, Intent::Change).map(Arc::clone);
        self.add(blueprint.map(|blueprint| Change::Update { blueprint, id, patch, expected: expected.into() }));
        self
    }

    /// Removes an item, if it is as expected.
    pub fn delete(mut self, entity: &str, id: &[&str], expected: impl Into<Expected>) -> Self {
        let id = id.iter().map(|&part| part.to_owned()).collect();
        let blueprint = self.room.blueprint(entity, Intent::Change).map(Arc::clone);
        self.add(blueprint.map(|blueprint| Change::Delete { blueprint, id, expected: expected.into() }));
        self
    }

    /// Keeps a note beside the items of an entity, or lets it go, if it is still the one that was read (`None`: there was
    /// none); otherwise the set fails as [overtaken](crate::ErrorKind::Overtaken).
    pub fn note(
        mut self,
        entity: &str,
        keeper: Keeper,
        name: &str,
        fields: Option<Map<String, Json>>,
        read: Option<&Note>,
    ) -> Self {
        let blueprint = self.room.is_reasoned().and_then(|()| self.room.house.blueprint(entity).map(Arc::clone));
        let noted = Noted { keeper, name: name.to_owned(), fields, read: read.map_or(0, Note::revision) };
        self.add(blueprint.map(|blueprint| Change::Note { blueprint, noted }));
        self
    }

    /// Makes the set happen once under a key of the caller's choice: asked for again with the same key and the same
    /// request, it gives the results of the first time and writes nothing. The key is the user's own, and is forgotten after
    /// a while ([`Settings::remember`](crate::Settings)).
    pub fn once(mut self, key: &str, request: &[u8]) -> Self {
        self.once = Some(Once::new(key, request));
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
        let Set { room, changes, refused, once } = self;
        if let Some(refused) = refused {
            return Err(refused);
        }
        if let [Change::Delete { blueprint, id, expected }] = changes.as_slice()
            && blueprint.referred
        {
            room.remove(blueprint, id, expected).await?;
            return Ok(vec![None]);
        }
        if let Some(entity) = changes.iter().find_map(referred) {
            return Err(Error::problem(entity, "can be referred to: delete it by itself, not in a set"));
        }
        let once =
            once.as_ref().zip(changes.first()).map(|(once, first)| (once, room.place_of(once, first.blueprint())));
        let mut retry = Retry::new(room.house.settings.attempts);
        loop {
            retry.attempt().await?;
            if let Some((once, place)) = &once
                && let Some(results) = room.recall(once, place).await?
            {
                return Ok(results);
            }
            match (room.attempt(&changes, once.as_ref()).await, &once) {
                (Ok(Some(results)), _) => return Ok(results),
                (Ok(None), _) => {}
                // What is in the way may be what the same request has just made.
                (Err(error), Some((once, place))) => return room.recall(once, place).await?.ok_or(error),
                (Err(error), None) => return Err(error),
            }
        }
    }
}

/// The entity of a deletion that has to look for what refers to it.
fn referred(change: &Change) -> Option<&str> {
    match change {
        Change::Delete { blueprint, .. } if blueprint.referred => Some(blueprint.name()),
        _ => None,
    }
}

impl Room {
    /// Plans changes and writes them; `None` if they are to be planned again.
    async fn attempt(
        &self,
        changes: &[Change],
        once: Option<&(&Once, Place<'_>)>,
    ) -> Result<Option<Vec<Option<Record>>>, Error> {
        let mut planned = Planned::default();
        for change in changes {
            self.plan(change, &mut planned).await?;
        }
        if let Some((once, place)) = once {
            let kept = self.remember(once, place, &planned);
            planned.writes.push((kept, Meaning::Own));
        }
        self.write(planned).await
    }

    /// Writes what is planned, with what is written down about it; `None` if it is to be planned again.
    pub(crate) async fn write(&self, planned: Planned) -> Result<Option<Vec<Option<Record>>>, Error> {
        let Planned { mut writes, results, acts } = planned;
        self.write_down(&acts, &mut writes).await?;
        let (writes, meanings): (Vec<_>, Vec<_>) = distinct(writes).into_iter().unzip();
        if !writes.is_empty()
            && let Err(error) = self.house.store.write(writes.into_iter().collect::<WriteSet>()).await
        {
            let Some(failed) = error.failed_conditions() else { return Err(error.into()) };
            for failed in failed {
                self.interpret(failed, meanings.get(failed.action))?;
            }
            return Ok(None);
        }
        let record = |(blueprint, item)| Record::new(blueprint, item);
        Ok(Some(results.into_iter().map(|result| result.map(record)).collect()))
    }

    /// Adds the audit entries of what is planned to its writes.
    pub(crate) async fn write_down(&self, acts: &[Act], writes: &mut Vec<(Write, Meaning)>) -> Result<(), Error> {
        let entries = self.entries(acts)?;
        if self.house.store.capabilities().cross_partition {
            writes.extend(entries.into_iter().map(|entry| (entry, Meaning::Own)));
            return Ok(());
        }
        // A store whose sets know one partition only takes the entry before the change: rather one too many than one
        // too few.
        for entry in entries {
            self.house.store.write(entry.into()).await?;
        }
        Ok(())
    }
}
