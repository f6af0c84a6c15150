//! Notes: a short one is in its event, a long one is an object that the event names.

mod cleanup;
mod place;
mod sweep;
#[cfg(test)]
mod tests;

use std::{error::Error as StdError, io, iter, path::PathBuf, sync::Arc, time::Duration};

use axum::http::StatusCode;
use nagaya_server::Problem;
use nagaya_store::files::FileCipher;
use object_store::{ObjectStore, memory::InMemory, path::Path};

use self::place::{Place, PlaceError};
pub(crate) use self::{cleanup::NoteCleanup, sweep::NoteSweep};
use crate::todo::Note;

/// The most characters of a note in an event.
pub(crate) const MAX_INLINE_CHARS: usize = 1_000;
/// The most characters of a note.
pub(crate) const MAX_CHARS: usize = 100_000;

/// The folder of all long notes.
const ROOT: &str = "notes";
/// The entity of the events.
const EVENT_ENTITY: &str = "event";
/// Events, or changes of them, that are read at once.
const EVENT_PAGE_SIZE: usize = 500;
/// How long an object is kept that no event names, by default. It is far more than a request takes, also one whose answer is
/// lost, and more than the clocks of two servers differ.
const KEEP_UNNAMED_FOR: Duration = Duration::from_hours(24);

/// The object storage of long notes.
#[derive(Debug, Clone)]
pub struct LongNoteStorage {
    place: Place,
    cipher: Option<Arc<dyn FileCipher>>,
    keep_unnamed_for: Duration,
}

/// A note for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewNote {
    pub(crate) note: Note,
    /// The object that was stored for it.
    stored: Option<Path>,
}

impl From<Note> for NewNote {
    fn from(note: Note) -> Self {
        NewNote { note, stored: None }
    }
}

impl LongNoteStorage {
    /// Stores notes in this object storage.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        LongNoteStorage::at(Place::Objects(objects))
    }

    /// Stores notes in a directory, as files that only their owner can read.
    pub fn in_directory(directory: PathBuf) -> Self {
        LongNoteStorage::at(Place::Directory(directory))
    }

    /// Stores notes in memory, for tests and for commands that only need the design.
    pub fn in_memory() -> Self {
        LongNoteStorage::new(Arc::new(InMemory::new()))
    }

    fn at(place: Place) -> Self {
        LongNoteStorage { place, cipher: None, keep_unnamed_for: KEEP_UNNAMED_FOR }
    }

    /// Encrypts the notes.
    #[must_use]
    pub fn encrypted_by(self, cipher: Arc<dyn FileCipher>) -> Self {
        LongNoteStorage { cipher: Some(cipher), ..self }
    }

    /// Keeps an object that no event names for this long, 24 hours by default. It has to be longer than any request takes.
    #[must_use]
    pub fn keep_unnamed_for(self, keep_unnamed_for: Duration) -> Self {
        LongNoteStorage { keep_unnamed_for, ..self }
    }

    /// A note as its event has it. A long one is stored before its event, so that an event never names a missing object. Where it
    /// is certain that no event will name it, the caller [deletes](Self::delete_stored) it; what is left is for the
    /// [sweep](NoteSweep).
    ///
    /// `request` is a new ULID: the object belongs to one request, so that deleting it takes nothing from another one. A note with
    /// the text of the `current` one is the same object.
    pub(crate) async fn store(
        &self,
        family: &str,
        todo: &str,
        request: &str,
        text: String,
        current: Option<&Note>,
    ) -> Result<NewNote, Problem> {
        if text.chars().count() <= MAX_INLINE_CHARS {
            return Ok(Note::Text(text).into());
        }
        // The last part of the path is a hash of the content: damage is detected.
        let hash = blake3::hash(text.as_bytes()).to_hex();
        if let Some(current @ Note::Object { object, .. }) = current
            && object.rsplit('/').next() == Some(hash.as_str())
        {
            return Ok(current.clone().into());
        }
        let path = folder(family, todo).join(request).join(hash.as_str());
        let (size, mut content) = (text.len() as u64, text.into_bytes());
        if let Some(cipher) = &self.cipher {
            content = cipher.seal(path.as_ref(), content).map_err(|error| storage_problem(&error))?;
        }
        self.place.put(&path, content).await.map_err(|error| storage_problem(&*error))?;
        Ok(NewNote { note: Note::Object { object: path.to_string(), size }, stored: Some(path) })
    }

    /// Deletes the object that was stored for a note. No event may name it, now or later.
    pub(crate) async fn delete_stored(&self, note: &NewNote) {
        let Some(path) = &note.stored else { return };
        if let Err(error) = self.place.delete(path).await {
            tracing::debug!(cause = error.to_string(), "a note that no event names cannot be deleted at once");
        }
    }

    /// Deletes the long notes of a todo, the current one and all before it.
    pub(crate) async fn delete_all(&self, family: &str, todo: &str) -> Result<(), PlaceError> {
        self.place.delete(&folder(family, todo)).await
    }

    /// The text of a long note.
    pub(crate) async fn load(&self, object: &str) -> Result<String, Problem> {
        let path = Path::parse(object).map_err(|error| storage_problem(&error))?;
        // It was stored before its event, so it has been removed since.
        let stored = self.place.get(&path).await.map_err(|error| storage_problem(&*error))?;
        let mut bytes = stored.ok_or_else(|| damaged_note_problem(object, "is missing"))?;
        if let Some(cipher) = &self.cipher {
            bytes =
                cipher.open(path.as_ref(), bytes).map_err(|error| damaged_note_problem(object, &error.to_string()))?;
        }
        if path.filename() != Some(blake3::hash(&bytes).to_hex().as_str()) {
            return Err(damaged_note_problem(object, "is not what was written"));
        }
        String::from_utf8(bytes).map_err(|_| damaged_note_problem(object, "is not text"))
    }
}

/// Where the long notes of a todo are.
fn folder(family: &str, todo: &str) -> Path {
    let family = blake3::hash(family.as_bytes()).to_hex();
    Path::from_iter([ROOT, &family[..32], todo])
}

/// The problem of a note that is damaged: a retry does not help.
fn damaged_note_problem(object: &str, what: &str) -> Problem {
    Problem::internal().with_cause(format!("the object `{object}` {what}: restore it from a backup"))
}

fn storage_problem(error: &(dyn StdError + 'static)) -> Problem {
    let detail = "The object storage of notes does not answer.";
    let problem = match is_full(error) {
        true => Problem::insufficient_storage(),
        false => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "notes_unavailable", detail).retry_after(5),
    };
    problem.with_cause(error.to_string())
}

/// Whether the disk below the object storage is full.
fn is_full(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = iter::successors(Some(error), |&error| error.source());
    causes.any(|cause| cause.downcast_ref().map(io::Error::kind) == Some(io::ErrorKind::StorageFull))
}
