//! Deletion of items that others can refer to.
//!
//! 1. Mark: the item gets a mark, and a record of the deletion is written with it. From then on the item is not found, cannot be
//!    changed, and nothing new can refer to it.
//! 2. Check: the items that refer to it are looked up, and those that refer to what would be deleted with it, level by level.
//!    Items on the way that can be referred to are marked too. If one forbids the deletion, all marks are removed.
//! 3. Remove: the referring items are deleted page by page, the farthest first. The item itself and the record are deleted last.
//!
//! The record says which of the steps comes next, and changes once. Any process that finds the record can continue from it, also
//! while the first one still runs: every write has the condition that the mark or the record is unchanged. So no item is ever left that
//! refers to a deleted one.
//!
//! A restricting reference blocks the deletion, even if another reference would cascade to the same item. Soft-deleted items refer to
//! nothing: they forbid no deletion, and none deletes them.

mod cascade;
mod mark;
mod record;
mod recover;

use std::sync::Arc;

use nagaya_design::Verb;
use nagaya_store::{Condition, Item, Key, Update, Write, WriteSet};

use self::{
    mark::MarkOutcome,
    record::{DeletionRecord, Phase},
};
use crate::{
    Error, ErrorKind, Expected, Record, Retry,
    compiled::{CompiledEntity, DELETING},
    session::Session,
    values,
};

/// A deletion under way: the item, and on whose behalf.
struct Deletion<'s> {
    session: &'s Session,
    compiled: &'s Arc<CompiledEntity>,
    key: Key,
    token: String,
    /// Whether another deletion, blocked by this one, is finishing it.
    assisting: bool,
}

/// How a deletion ended.
enum Outcome {
    /// This call deleted the item.
    Removed,
    /// The marks are removed and the item is back. The entity of items that forbid the deletion; none if another deletion does, or if
    /// another process found out.
    Restored(Option<String>),
    /// Another process ended the deletion.
    Ended,
}

impl Session {
    /// Deletes an item that others can refer to, and the items that are deleted with it.
    pub(super) async fn remove(
        &self,
        compiled: &Arc<CompiledEntity>,
        id: &[String],
        expected: &Expected,
    ) -> Result<(), Error> {
        let id: Vec<&str> = id.iter().map(String::as_str).collect();
        let missing = || Error::not_found(compiled.name());
        let mut begun = false;
        let mut retry = Retry::new(self.state.settings.attempts);
        loop {
            retry.attempt().await?;
            let found = self.find_stored(compiled, &id).await?;
            let Some((key, item)) = found.filter(|(_, item)| !compiled.is_soft_deleted(item)) else {
                // If this call began the deletion, another process has finished it.
                return if begun { Ok(()) } else { Err(missing()) };
            };
            if !self.scope.may_change(compiled, &item) || self.is_hidden(compiled, &item, Verb::Delete) {
                return Err(missing());
            }
            let is_expected = expected.holds(compiled, &item);
            if let Some(token) = mark_of(&item) {
                if !is_expected {
                    return Err(missing());
                }
                match self.resume(compiled, key, token, false).await? {
                    Outcome::Removed => return Ok(()),
                    Outcome::Restored(_) | Outcome::Ended => continue,
                }
            }
            if !is_expected {
                let current = Record::new(Arc::clone(compiled), item);
                return Err(ErrorKind::VersionConflict { current }.into());
            }
            // Most forbidden deletions end here, before anything is marked.
            if let Some(by) = self.precheck(compiled, &item).await? {
                return Err(ErrorKind::Referenced { by }.into());
            }
            let Some(deletion) = self.mark_root_deleting(compiled, key, &item).await? else { continue };
            begun = true;
            match deletion.run().await? {
                Outcome::Removed => return Ok(()),
                Outcome::Restored(Some(by)) => return Err(ErrorKind::Referenced { by }.into()),
                Outcome::Restored(None) | Outcome::Ended => {}
            }
        }
    }

    /// Marks an item and writes the record of its deletion; `None` if the item has changed meanwhile.
    async fn mark_root_deleting<'s>(
        &'s self,
        compiled: &'s Arc<CompiledEntity>,
        key: Key,
        item: &Item,
    ) -> Result<Option<Deletion<'s>>, Error> {
        let settings = &self.state.settings;
        let token = settings.ids.ulid(settings.clock.millis());
        let mark = Write::update(&compiled.table, key.clone(), Update::new().set(DELETING, token.as_str()))
            .when(self.unchanged(compiled, &key, item, &compiled.sources));
        let record = DeletionRecord::new(self, compiled, &key, &token).insert(compiled);
        let began = match self.state.cross_partition() {
            true => self.commit_if(WriteSet::new().and(mark).and(record)).await?,
            // The record first: a mark without one would stay.
            false => self.commit_if(record).await? && self.commit_if(mark).await?,
        };
        Ok(began.then_some(Deletion { session: self, compiled, key, token, assisting: false }))
    }

    /// Continues the deletion that has marked an item.
    async fn resume(
        &self,
        compiled: &Arc<CompiledEntity>,
        key: Key,
        token: String,
        assisting: bool,
    ) -> Result<Outcome, Error> {
        if let Some(outcome) = self.resume_by_token(compiled, &token, assisting).await? {
            return Ok(outcome);
        }
        // A mark without a record comes from a store that could not write both at once.
        let marked = Condition::equal(DELETING, token.as_str());
        let unmark = Write::update(&compiled.table, key, Update::new().remove(DELETING)).when(marked);
        self.commit_if(unmark).await?;
        Ok(Outcome::Ended)
    }

    /// Continues a deletion from its record; `None` if there is none.
    async fn resume_by_token(
        &self,
        compiled: &Arc<CompiledEntity>,
        token: &str,
        assisting: bool,
    ) -> Result<Option<Outcome>, Error> {
        let Some(record) = DeletionRecord::get(&self.state, compiled, token).await? else { return Ok(None) };
        let session = record.session(&self.state);
        let compiled = self.state.compiled(&record.entity)?;
        let DeletionRecord { key, token, .. } = record;
        let deletion = Deletion { session: &session, compiled, key, token, assisting };
        deletion.run().await.map(Some)
    }
}

impl Deletion<'_> {
    /// Carries out the phases of the record up to the end.
    async fn run(&self) -> Result<Outcome, Error> {
        let mut blocker = None;
        loop {
            let Some(record) = DeletionRecord::get(&self.session.state, self.compiled, &self.token).await? else {
                return Ok(Outcome::Ended);
            };
            match record.phase {
                Phase::Marking => match self.mark_all().await? {
                    MarkOutcome::Unmarked => {
                        self.discard(&record).await?;
                        return Ok(Outcome::Ended);
                    }
                    MarkOutcome::Clear => drop(self.advance(Phase::Removing).await?),
                    MarkOutcome::Superseded => {}
                    MarkOutcome::Blocked(by) => {
                        blocker = by;
                        self.advance(Phase::Restoring).await?;
                    }
                },
                Phase::Removing => {
                    return Ok(if self.remove_all().await? { Outcome::Removed } else { Outcome::Ended });
                }
                Phase::Restoring => {
                    self.unmark_all().await?;
                    return Ok(Outcome::Restored(blocker));
                }
            }
        }
    }

    /// Writes the next phase into the record, if no other process has.
    async fn advance(&self, phase: Phase) -> Result<bool, Error> {
        let update = Update::new().set(record::PHASE, phase.name());
        let write = Write::update(&self.compiled.table, record::key(&self.token), update);
        self.session.commit_if(write.when(Phase::Marking.condition())).await
    }

    /// Deletes the record of a deletion that has marked nothing.
    async fn discard(&self, record: &DeletionRecord) -> Result<(), Error> {
        let state = &self.session.state;
        let age = state.settings.clock.millis().saturating_sub(record.at);
        // Where record and mark are two writes, the mark may still follow.
        if state.cross_partition() || age > record::ABANDONED {
            self.session.commit_if(self.delete_record(Phase::Marking)).await?;
        }
        Ok(())
    }

    /// Deletes the record, if it is in this phase.
    fn delete_record(&self, phase: Phase) -> Write {
        Write::delete(&self.compiled.table, record::key(&self.token)).when(phase.condition())
    }

    /// The item, if it has the mark of this deletion.
    async fn marked_item(&self) -> Result<Option<Item>, Error> {
        let found = self.session.state.store.get(&self.compiled.table, &self.key).await?;
        Ok(found.filter(|item| mark_of(item).as_ref() == Some(&self.token)))
    }

    /// An item has the mark of this deletion.
    fn is_marked(&self) -> Condition {
        Condition::equal(DELETING, self.token.as_str())
    }
}

/// The token of the deletion that has marked an item.
fn mark_of(item: &Item) -> Option<String> {
    item.get(DELETING).and_then(values::to_text)
}
