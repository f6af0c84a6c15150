//! Deletes the long notes of deleted todos.
//!
//! A deletion does so itself, and a process that dies in between leaves them, as does a backup that runs. So the events are
//! followed: a change says which todo was deleted, and deleting twice does no harm. A page of changes is acknowledged when
//! everything that it asks for is deleted, so that another process goes on there.

use std::time::Duration;

use nagaya_server::StopSignal;
use nagaya_tenancy::{Error, Nagaya, Principal, Record, Subscription, SubscriptionOptions};

use super::{EVENT_ENTITY, EVENT_PAGE_SIZE, LongNoteStorage};

/// The pause after a deletion that failed; doubled after each further one.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(crate) struct NoteCleanup<'n> {
    notes: &'n LongNoteStorage,
    subscription: Subscription,
    stop: StopSignal,
}

/// It is time to stop, before everything was deleted.
struct Interrupted;

impl<'n> NoteCleanup<'n> {
    pub(crate) fn new(nagaya: &Nagaya, notes: &'n LongNoteStorage, stop: StopSignal) -> Self {
        let operator = nagaya.operator("deletes the notes of deleted todos", &Principal::new("", "note-cleanup"));
        let options = SubscriptionOptions {
            batch: EVENT_PAGE_SIZE,
            pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            backoff: Duration::from_millis(100),
        };
        let subscription = operator.subscribe("note_cleanup", &[EVENT_ENTITY], options);
        let position = "note-cleanup-position".to_owned();
        NoteCleanup { notes, subscription: subscription.with_checkpoint(operator, EVENT_ENTITY, position), stop }
    }

    /// Runs until told to stop.
    pub(crate) async fn run(&self) {
        let mut stop = self.stop.clone();
        self.subscription.run(stop.wait(), || self.step()).await;
    }

    /// Reads a page of changes, and deletes the notes of the todos that were deleted; how many changes were read.
    pub(super) async fn step(&self) -> Result<usize, Error> {
        let page = self.subscription.next_page().await?;
        let mut read = page.read;
        let mut relevant = false;
        if page.gap {
            match self.scan().await? {
                Ok(count) => read = count.max(1),
                Err(Interrupted) => return Ok(0),
            }
        }
        for change in &page.changes {
            if let Some(event) = &change.new {
                match self.delete_notes(&change.tenant, event).await {
                    Ok(deleted) => relevant |= deleted,
                    // The page is not acknowledged: the next process deletes what is left.
                    Err(Interrupted) => return Ok(0),
                }
            }
        }
        self.subscription.acknowledge(page, relevant).await?;
        Ok(read)
    }

    /// Reads all events; how many there are.
    async fn scan(&self) -> Result<Result<usize, Interrupted>, Error> {
        let source = self.subscription.source().await?;
        let (mut count, mut after) = (0, None);
        loop {
            let page = source.scan((0, 1), after, Some(EVENT_PAGE_SIZE)).await?;
            count += page.records.len();
            for (family, event) in &page.records {
                if let Err(interrupted) = self.delete_notes(family, event).await {
                    return Ok(Err(interrupted));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(Ok(count)),
            }
        }
    }

    /// Deletes the notes of a todo if this event deleted it, however long that takes; whether the event did.
    async fn delete_notes(&self, family: &str, event: &Record) -> Result<bool, Interrupted> {
        let (Some("TodoDeleted"), Some(todo)) = (event.text("eventType"), event.text("aggregateId")) else {
            return Ok(false);
        };
        let mut pause = PAUSE;
        while let Err(error) = self.notes.delete_all(family, todo).await {
            if pause == PAUSE {
                let cause = error.to_string();
                tracing::warn!(cause, todo, "the notes of a deleted todo cannot be deleted now; this is tried again");
            }
            let mut stop = self.stop.clone();
            if tokio::time::timeout(pause, stop.wait()).await.is_ok() {
                return Err(Interrupted);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        if pause > PAUSE {
            tracing::info!(todo, "the notes of a deleted todo could be deleted now");
        }
        Ok(true)
    }
}
