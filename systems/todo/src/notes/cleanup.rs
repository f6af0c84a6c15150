//! Deletes the long notes of deleted todos.
//!
//! A deletion does so itself, and a process that dies in between leaves them, as does a backup that runs. So the events are
//! followed: a change says which todo was deleted, and deleting twice does no harm.

use std::time::Duration;

use nagaya_tenancy::{
    ChangeConsumer, ConsumerError, ConsumerFuture, FailedChange, ItemChange, Nagaya, Principal, Processed, Record,
    Subscription, SubscriptionOptions,
};

use super::{EVENT_ENTITY, EVENT_PAGE_SIZE, LongNoteStorage};

#[derive(Debug)]
pub(crate) struct NoteCleanup {
    notes: LongNoteStorage,
    subscription: Subscription,
}

impl NoteCleanup {
    pub(crate) fn new(nagaya: &Nagaya, notes: &LongNoteStorage) -> Self {
        let operator = nagaya.operator("deletes the notes of deleted todos", &Principal::new("", "note-cleanup"));
        let options = SubscriptionOptions {
            batch: EVENT_PAGE_SIZE,
            pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            backoff: Duration::from_millis(100),
        };
        let subscription = operator.subscribe("note_cleanup", &[EVENT_ENTITY], options);
        let position = "note-cleanup-position".to_owned();
        NoteCleanup {
            notes: notes.clone(),
            subscription: subscription.with_checkpoint(operator, EVENT_ENTITY, position),
        }
    }

    /// Deletes the notes of a todo if this event deleted it; whether the event did.
    async fn delete_notes(&self, family: &str, event: &Record) -> Result<bool, ConsumerError> {
        let (Some("TodoDeleted"), Some(todo)) = (event.text("eventType"), event.text("aggregateId")) else {
            return Ok(false);
        };
        match self.notes.delete_all(family, todo).await {
            Ok(()) => Ok(true),
            Err(error) => Err(format!("the notes of the deleted todo {todo} cannot be deleted: {error}").into()),
        }
    }
}

impl ChangeConsumer for NoteCleanup {
    fn subscription(&self) -> &Subscription {
        &self.subscription
    }

    fn process(&self, changes: Vec<ItemChange>) -> ConsumerFuture<'_, Processed> {
        Box::pin(async move {
            let mut processed = Processed::default();
            for (position, change) in changes.iter().enumerate() {
                let Some(event) = &change.new else { continue };
                match self.delete_notes(&change.tenant, event).await {
                    Ok(deleted) => processed.relevant += usize::from(deleted),
                    Err(error) => processed.failed.push(FailedChange { position, error }),
                }
            }
            processed
        })
    }

    /// Reads all events, and deletes the notes of the todos that were deleted.
    fn process_all(&self) -> ConsumerFuture<'_, Result<Processed, ConsumerError>> {
        Box::pin(async move {
            let source = self.subscription.source().await?;
            let (mut processed, mut after) = (Processed::default(), None);
            loop {
                let page = source.scan((0, 1), after, Some(EVENT_PAGE_SIZE)).await?;
                processed.relevant += page.records.len();
                for (family, event) in &page.records {
                    self.delete_notes(family, event).await?;
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => return Ok(processed),
                }
            }
        })
    }
}
