//! Deletes the long notes of deleted todos.
//!
//! A deletion does so itself, and a process that dies in between leaves them. So the events are followed: a change says which
//! todo was deleted, and deleting twice does no harm.

use std::time::Duration;

use nagaya_server::StopSignal;
use nagaya_tenancy::{Error, Nagaya, Principal, Record, Subscription, SubscriptionOptions};

use crate::LongNoteStorage;

/// Changes, or items, of a page.
const PAGE_SIZE: usize = 500;
const EVENT_ENTITY: &str = "event";

pub(crate) struct NoteCleanup<'n> {
    notes: &'n LongNoteStorage,
    subscription: Subscription,
}

impl<'n> NoteCleanup<'n> {
    pub(crate) fn new(nagaya: &Nagaya, notes: &'n LongNoteStorage) -> Self {
        let operator = nagaya.operator("deletes the notes of deleted todos", &Principal::new("", "note-cleanup"));
        let options = SubscriptionOptions {
            batch: PAGE_SIZE,
            pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            backoff: Duration::from_millis(100),
        };
        let subscription = operator.subscribe("note_cleanup", &[EVENT_ENTITY], options);
        let position = "note-cleanup-position".to_owned();
        NoteCleanup { notes, subscription: subscription.with_checkpoint(operator, EVENT_ENTITY, position) }
    }

    /// Runs until told to stop.
    pub(crate) async fn run(&self, mut stop: StopSignal) {
        self.subscription.run(stop.wait(), || self.step()).await;
    }

    /// Reads a page of changes, and deletes the notes of the todos that were deleted; how many changes were read.
    async fn step(&self) -> Result<usize, Error> {
        self.notes.delete_rest().await;
        let page = self.subscription.next_page().await?;
        let mut read = page.read;
        if page.gap {
            read = self.scan().await?.max(1);
        }
        let mut relevant = false;
        for change in &page.changes {
            if let Some(event) = &change.new {
                relevant |= self.delete_notes(&change.tenant, event).await;
            }
        }
        self.subscription.acknowledge(page, relevant).await?;
        Ok(read)
    }

    /// Reads all events; how many there are.
    async fn scan(&self) -> Result<usize, Error> {
        let source = self.subscription.source().await?;
        let (mut count, mut after) = (0, None);
        loop {
            let page = source.scan((0, 1), after, Some(PAGE_SIZE)).await?;
            count += page.records.len();
            for (family, event) in &page.records {
                self.delete_notes(family, event).await;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(count),
            }
        }
    }

    /// Deletes the notes of a todo if this event deleted it; whether it did.
    async fn delete_notes(&self, family: &str, event: &Record) -> bool {
        let (Some("TodoDeleted"), Some(todo)) = (event.text("eventType"), event.text("aggregateId")) else {
            return false;
        };
        self.notes.delete_all(family, todo).await;
        true
    }
}
