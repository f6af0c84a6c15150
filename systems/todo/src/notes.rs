//! Notes: a short one is in its event, a long one is an object that the event names.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use axum::http::StatusCode;
use nagaya_server::Problem;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutPayload, local::LocalFileSystem, memory::InMemory, path::Path,
};

use crate::todo::Note;

/// The most characters of a note in an event.
pub(crate) const MAX_INLINE_CHARS: usize = 1_000;
/// The most characters of a note.
pub(crate) const MAX_CHARS: usize = 100_000;

/// The object storage of long notes.
#[derive(Debug, Clone)]
pub struct LongNoteStorage {
    objects: Arc<OnceLock<Arc<dyn ObjectStore>>>,
    /// A directory that is created for the first long note.
    directory: Option<PathBuf>,
}

impl LongNoteStorage {
    /// Stores notes in this object storage.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        LongNoteStorage { objects: Arc::new(OnceLock::from(objects)), directory: None }
    }

    /// Stores notes in a directory.
    pub fn in_directory(directory: PathBuf) -> Self {
        LongNoteStorage { objects: Arc::default(), directory: Some(directory) }
    }

    /// Stores notes in memory, for tests and for commands that only need the design.
    pub fn in_memory() -> Self {
        LongNoteStorage::new(Arc::new(InMemory::new()))
    }

    fn objects(&self) -> Result<&Arc<dyn ObjectStore>, Problem> {
        if let Some(objects) = self.objects.get() {
            return Ok(objects);
        }
        let directory = self.directory.as_deref().ok_or_else(Problem::internal)?;
        let created = std::fs::create_dir_all(directory)
            .map_err(|source| object_store::Error::Generic { store: "directory", source: source.into() });
        // A note is synced before its event is stored.
        let opened =
            created.and_then(|()| LocalFileSystem::new_with_prefix(directory)).map(|store| store.with_fsync(true));
        let opened = opened.map_err(|error| storage_problem(&error))?;
        Ok(self.objects.get_or_init(|| Arc::new(opened)))
    }

    /// A note as its event has it. A long one is stored before its event, so that an event never names a missing object. If
    /// the command fails, the object stays unused.
    pub(crate) async fn store(&self, family: &str, todo: &str, text: String) -> Result<Note, Problem> {
        if text.chars().count() <= MAX_INLINE_CHARS {
            return Ok(Note::Text(text));
        }
        // The name is a hash of the content: a repeated request writes the same object.
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let family = blake3::hash(family.as_bytes()).to_hex();
        let path = Path::from_iter(["notes", &family[..32], todo, hash.as_str()]);
        let size = text.len() as u64;
        self.objects()?.put(&path, PutPayload::from(text)).await.map_err(|error| storage_problem(&error))?;
        Ok(Note::Object { object: path.to_string(), size })
    }

    /// The text of a long note.
    pub(crate) async fn load(&self, object: &str) -> Result<String, Problem> {
        let path = Path::parse(object).map_err(|error| storage_problem(&error.into()))?;
        let found = match self.objects()?.get(&path).await {
            // It was stored before its event, so it has been removed since.
            Err(object_store::Error::NotFound { .. }) => return Err(damaged_note_problem(object, "is missing")),
            found => found.map_err(|error| storage_problem(&error))?,
        };
        let bytes = found.bytes().await.map_err(|error| storage_problem(&error))?;
        if path.filename() != Some(blake3::hash(&bytes).to_hex().as_str()) {
            return Err(damaged_note_problem(object, "is not what was written"));
        }
        String::from_utf8(bytes.to_vec()).map_err(|_| damaged_note_problem(object, "is not text"))
    }
}

/// The problem of a note that is damaged: a retry does not help.
fn damaged_note_problem(object: &str, what: &str) -> Problem {
    Problem::internal().with_cause(format!("the object `{object}` {what}: restore it from a backup"))
}

fn storage_problem(error: &object_store::Error) -> Problem {
    let detail = "The object storage of notes does not answer.";
    let problem = match is_full(error) {
        true => Problem::insufficient_storage(),
        false => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "notes_unavailable", detail).retry_after(5),
    };
    problem.with_cause(error.to_string())
}

/// Whether the disk below the object storage is full.
fn is_full(error: &object_store::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::StorageFull) {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_changed_or_removed_note_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let notes = LongNoteStorage::in_directory(directory.path().to_owned());
        let stored = notes.store("f-1", "t-1", "x".repeat(MAX_INLINE_CHARS + 1)).await.expect("it is stored");
        let Note::Object { object, .. } = stored else { panic!("a long one is an object") };
        for changed in ["y".repeat(MAX_INLINE_CHARS + 1), String::new()] {
            std::fs::write(directory.path().join(&object), changed).expect("it can be written");
            assert_eq!(notes.load(&object).await.expect_err("it is another").status(), 500);
        }
        std::fs::remove_file(directory.path().join(&object)).expect("it can be removed");
        assert_eq!(notes.load(&object).await.expect_err("it is gone").status(), 500);
    }

    /// Proves the notes part of T4.
    #[tokio::test]
    async fn a_long_note_is_an_object_and_its_event_names_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("objects");
        let notes = LongNoteStorage::in_directory(place.clone());
        let short = notes.store("f-1", "t-1", "x".repeat(MAX_INLINE_CHARS)).await.expect("it is stored");
        assert_eq!(short, Note::Text("x".repeat(MAX_INLINE_CHARS)));
        assert!(!place.exists(), "a short note needs no directory");

        let text = "長".repeat(MAX_INLINE_CHARS + 1);
        let Note::Object { object, size } = notes.store("f-1", "t-1", text.clone()).await.expect("it is stored") else {
            panic!("a long one is an object");
        };
        assert_eq!(size, text.len() as u64);
        assert!(object.contains("/t-1/") && object.len() <= 300, "{object}");
        // Another process finds it.
        assert_eq!(LongNoteStorage::in_directory(place.clone()).load(&object).await.expect("it is there"), text);
        let same = notes.store("f-1", "t-1", text).await.expect("it is stored");
        assert!(
            matches!(same, Note::Object { object: again, .. } if again == object),
            "the same note is the same object"
        );
    }

    #[tokio::test]
    async fn the_path_of_a_note_stays_below_its_family() {
        let directory = tempfile::tempdir().expect("a directory");
        let notes = LongNoteStorage::in_directory(directory.path().join("objects"));
        let stored = notes.store("../../up", "..", "x".repeat(MAX_INLINE_CHARS + 1)).await.expect("it is stored");
        assert!(matches!(&stored, Note::Object { object, .. } if !object.contains("../")), "{stored:?}");
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1);
        assert!(notes.load("notes/../../secret").await.is_err());
    }
}
