//! Changes that came as records of a stream and cannot be read.
//!
//! A record that cannot be read today cannot be read tomorrow: sent again and again, it would hold up the changes after it until
//! the stream drops all of them. So it is noted beside the items. What it was about is in the store, and is read from there
//! when all stored items are processed.

use serde_json::Map;

use super::Subscription;
use crate::{Error, RecordOwner, SideRecord};

/// The beginning of the names of the notes.
const PREFIX: &str = "unreadable-change-";
/// Notes that are read at once.
const PAGE_SIZE: usize = 100;

/// A record of a stream that cannot be read.
#[derive(Debug, Clone)]
pub struct UnreadableChange {
    /// The id of the record in the stream.
    pub id: String,
    /// Why it cannot be read.
    pub error: String,
    /// When it was noted, in milliseconds since 1970.
    pub at: i64,
    note: SideRecord,
}

impl Subscription {
    /// Notes a change that cannot be read. `error` has no value of the item.
    pub async fn note_unreadable(&self, id: &str, error: &str) -> Result<(), Error> {
        let Some(entity) = self.entities.first() else { return Ok(()) };
        let name = format!("{PREFIX}{id}");
        let mut fields = Map::new();
        fields.insert("error".to_owned(), error.into());
        fields.insert("at".to_owned(), self.clock.millis().into());
        let set = self.operator.change_set();
        match set.side_record(entity, RecordOwner::System, &name, Some(fields), None).commit().await {
            // The record was sent again.
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// The changes that could not be read.
    pub async fn unreadable(&self) -> Result<Vec<UnreadableChange>, Error> {
        let Some(entity) = self.entities.first() else { return Ok(Vec::new()) };
        let (mut all, mut after): (Vec<UnreadableChange>, Option<String>) = (Vec::new(), None);
        loop {
            let notes = self.operator.side_records(entity, PREFIX, after.as_deref(), PAGE_SIZE).await?;
            let count = notes.len();
            after = notes.last().map(|last| last.name.clone());
            all.extend(notes.into_iter().map(|note| UnreadableChange {
                id: note.name.strip_prefix(PREFIX).unwrap_or(&note.name).to_owned(),
                error: note.text("error").unwrap_or_default().to_owned(),
                at: note.number("at").and_then(|at| i64::try_from(at).ok()).unwrap_or_default(),
                note,
            }));
            if count < PAGE_SIZE {
                return Ok(all);
            }
        }
    }

    /// Deletes the note about a change: what it was about has been processed since.
    pub async fn forget_unreadable(&self, change: &UnreadableChange) -> Result<(), Error> {
        let Some(entity) = self.entities.first() else { return Ok(()) };
        let (set, note) = (self.operator.change_set(), &change.note);
        match set.side_record(entity, RecordOwner::System, &note.name, None, Some(note)).commit().await {
            // Another process has deleted it.
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }
}
