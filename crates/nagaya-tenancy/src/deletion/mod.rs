//! Deleting what others may refer to.
//!
//! 1. The item is marked, and with it a note is made that its deletion is under way. From then on it is not found, cannot be
//!    changed, and nothing new can refer to it.
//! 2. What refers to it is looked for, and so on for everything that would go with it and can be referred to itself, which is
//!    marked in the same way. If something forbids the deletion, all marks are taken back.
//! 3. What refers to it goes, page by page, the farthest first. At last the item goes together with the note.
//!
//! Which of 2 and 3 comes next is in the note, and changes once. Whoever finds a note, be it after a crash or beside the one
//! who wrote it, can go on from it: every write holds only while the mark or the note is what it was. So nothing is ever left
//! that refers to what is gone.
//!
//! What forbids a deletion does so even if it would go along for another reason.
//! What is deleted but kept (soft delete) refers to nothing any more: it forbids no deletion, and no deletion takes it along.

mod cascade;
mod mark;
mod pending;
mod recover;

use std::sync::Arc;

use nagaya_store::{Condition, Item, Key, Update, Write, WriteSet};

use self::{
    mark::Looked,
    pending::{Pending, Phase},
};
use crate::{
    Error, ErrorKind, Expected, Record,
    blueprint::{Blueprint, DELETING},
    room::Room,
    values,
};

/// An item whose deletion is under way, and on whose behalf.
struct Deletion<'r> {
    room: &'r Room,
    blueprint: &'r Arc<Blueprint>,
    key: Key,
    token: String,
    /// Whether it is gone on with because it is in the way of another one.
    helping: bool,
}

/// What has come of a deletion.
enum Outcome {
    /// The item is gone, by the hand of this call.
    Removed,
    /// The item is back: this refers to it, or another deletion was in the way.
    Returned(Option<Hindrance>),
    /// Somebody else has ended it.
    Ended,
}

/// Why a deletion was given up.
enum Hindrance {
    /// Items of this entity refer to it.
    Referred(String),
    /// Something that would go with it has the mark of another deletion.
    Marked { entity: Arc<Blueprint>, token: String },
}

impl Room {
    /// Removes an item that others may refer to, together with what goes with it.
    pub(crate) async fn remove(
        &self,
        blueprint: &Arc<Blueprint>,
        id: &[String],
        expected: &Expected,
    ) -> Result<(), Error> {
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        let missing = || Error::not_found(blueprint.name());
        let mut begun = false;
        for _ in 0..self.house.settings.attempts.max(1) {
            let found = self.stored(blueprint, &id).await?;
            let Some((key, item)) = found.filter(|(_, item)| !blueprint.is_soft_deleted(item)) else {
                // Somebody who came across this deletion has finished it.
                return if begun { Ok(()) } else { Err(missing()) };
            };
            if !self.scope.may_change(blueprint, &item) {
                return Err(missing());
            }
            let differs = !expected.holds(blueprint, &item);
            if let Some(token) = mark_of(&item) {
                if differs {
                    return Err(missing());
                }
                match self.resume(blueprint, key, token, false).await? {
                    Outcome::Removed => return Ok(()),
                    Outcome::Returned(_) | Outcome::Ended => continue,
                }
            }
            if differs {
                let current = Record::new(Arc::clone(blueprint), item);
                return Err(ErrorKind::VersionConflict { current }.into());
            }
            // Most deletions that are forbidden end here, before anything is marked.
            if let Some(by) = self.forbidden(blueprint, &item).await? {
                return Err(ErrorKind::Referenced { by }.into());
            }
            let Some(deletion) = self.begin(blueprint, key, &item).await? else { continue };
            begun = true;
            match deletion.run().await? {
                Outcome::Removed => return Ok(()),
                Outcome::Returned(Some(Hindrance::Referred(by))) => return Err(ErrorKind::Referenced { by }.into()),
                Outcome::Returned(Some(Hindrance::Marked { entity, token })) => {
                    self.resume_by_token(&entity, &token, false).await?;
                }
                Outcome::Returned(None) | Outcome::Ended => {}
            }
        }
        Err(ErrorKind::Contended.into())
    }

    /// Marks an item and notes that it is about to go; `None` if it has changed meanwhile.
    async fn begin<'r>(
        &'r self,
        blueprint: &'r Arc<Blueprint>,
        key: Key,
        item: &Item,
    ) -> Result<Option<Deletion<'r>>, Error> {
        let settings = &self.house.settings;
        let token = settings.ids.ulid(settings.clock.millis());
        let mark = Write::update(&blueprint.table, key.clone(), Update::new().set(DELETING, token.as_str()))
            .when(self.unchanged(blueprint, &key, item, &blueprint.sources));
        let pending = Pending::new(self, blueprint, &key, &token);
        let note = pending.put(blueprint, settings.clock.millis());
        let deletion = Deletion { room: self, blueprint, key, token, helping: false };
        let began = match self.house.store.capabilities().cross_partition {
            true => self.all(WriteSet::new().and(mark).and(note)).await?,
            // The note first: a mark without one would stay.
            false => self.all(note.into()).await? && self.all(mark.into()).await?,
        };
        Ok(began.then_some(deletion))
    }

    /// Goes on with the deletion that has marked an item.
    async fn resume(
        &self,
        blueprint: &Arc<Blueprint>,
        key: Key,
        token: String,
        helping: bool,
    ) -> Result<Outcome, Error> {
        if let Some(outcome) = self.resume_by_token(blueprint, &token, helping).await? {
            return Ok(outcome);
        }
        // A mark that nobody has noted, if it is still there, is from a store that could not write both at once.
        let marked = Condition::equal(DELETING, token.as_str());
        let unmark = Write::update(&blueprint.table, key, Update::new().remove(DELETING)).when(marked);
        self.all(unmark.into()).await?;
        Ok(Outcome::Ended)
    }

    /// Goes on with a noted deletion; `None` if there is none.
    async fn resume_by_token(
        &self,
        blueprint: &Arc<Blueprint>,
        token: &str,
        helping: bool,
    ) -> Result<Option<Outcome>, Error> {
        let Some(pending) = Pending::get(&self.house, blueprint, token).await? else { return Ok(None) };
        let room = pending.room(&self.house);
        let root = self.house.blueprint(&pending.entity)?;
        let (key, token) = (pending.key.clone(), pending.token.clone());
        let deletion = Deletion { room: &room, blueprint: root, key, token, helping };
        deletion.run().await.map(Some)
    }

    /// Does a write set; whether its conditions held.
    async fn all(&self, set: WriteSet) -> Result<bool, Error> {
        match self.house.store.write(set).await {
            Ok(_) => Ok(true),
            Err(error) if error.failed_conditions().is_some() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Deletion<'_> {
    /// Does what the note says, up to the end.
    async fn run(&self) -> Result<Outcome, Error> {
        let mut hindrance = None;
        loop {
            let Some(pending) = Pending::get(&self.room.house, self.blueprint, &self.token).await? else {
                return Ok(Outcome::Ended);
            };
            match pending.phase {
                Phase::Marking => match self.mark_all().await? {
                    Looked::Unmarked => {
                        self.forget(&pending).await?;
                        return Ok(Outcome::Ended);
                    }
                    Looked::Free => drop(self.advance(Phase::Removing).await?),
                    Looked::Outrun => {}
                    Looked::Hindered(by) => {
                        hindrance = Some(by);
                        self.advance(Phase::Returning).await?;
                    }
                },
                Phase::Removing => {
                    return Ok(if self.remove_all().await? { Outcome::Removed } else { Outcome::Ended });
                }
                Phase::Returning => {
                    self.take_back().await?;
                    return Ok(Outcome::Returned(hindrance));
                }
            }
        }
    }

    /// Notes what comes next, if nobody else has.
    async fn advance(&self, phase: Phase) -> Result<bool, Error> {
        let condition = Phase::Marking.is_noted();
        let update = Update::new().set(pending::PHASE, phase.name());
        let key = pending::key(&self.token);
        self.room.all(Write::update(&self.blueprint.table, key, update).when(condition).into()).await
    }

    /// Removes the note of a deletion that has marked nothing.
    async fn forget(&self, pending: &Pending) -> Result<(), Error> {
        let house = &self.room.house;
        let age = house.settings.clock.millis().saturating_sub(pending.at);
        // Where note and mark are two writes, the mark may still be on its way.
        if house.store.capabilities().cross_partition || age > pending::ABANDONED {
            let key = pending::key(&self.token);
            let write = Write::delete(&self.blueprint.table, key).when(Phase::Marking.is_noted());
            self.room.all(write.into()).await?;
        }
        Ok(())
    }

    /// The item itself, if it has the mark of this deletion.
    async fn marked(&self) -> Result<Option<Item>, Error> {
        let found = self.room.house.store.get(&self.blueprint.table, &self.key).await?;
        Ok(found.filter(|item| mark_of(item).as_ref() == Some(&self.token)))
    }

    fn is_marked(&self) -> Condition {
        Condition::equal(DELETING, self.token.as_str())
    }
}

/// The deletion that has marked an item.
fn mark_of(item: &Item) -> Option<String> {
    item.get(DELETING).and_then(values::to_text)
}
