//! Notes: a short one is in its event, a long one is an object that the event names.

use std::{
    collections::BTreeSet,
    error::Error as StdError,
    fs, io,
    path::{Path as FilePath, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::StatusCode;
use futures_util::{StreamExt as _, TryStreamExt as _};
use nagaya_server::Problem;
use nagaya_store::files::{self, FileCipher};
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, memory::InMemory, path::Path};

use crate::todo::Note;

/// The most characters of a note in an event.
pub(crate) const MAX_INLINE_CHARS: usize = 1_000;
/// The most characters of a note.
pub(crate) const MAX_CHARS: usize = 100_000;

/// The object storage of long notes.
#[derive(Debug, Clone)]
pub struct LongNoteStorage {
    place: Place,
    cipher: Option<Arc<dyn FileCipher>>,
    /// What could not be deleted yet, to be tried again.
    undeleted: Arc<Mutex<BTreeSet<Discarded>>>,
}

/// What is to be deleted: the long notes of a todo, or one of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Discarded {
    Folder(Path),
    Object(Path),
}

#[derive(Debug, Clone)]
enum Place {
    Objects(Arc<dyn ObjectStore>),
    /// A directory that is created for the first long note.
    Directory(PathBuf),
}

impl LongNoteStorage {
    /// Stores notes in this object storage.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        LongNoteStorage { place: Place::Objects(objects), cipher: None, undeleted: Arc::default() }
    }

    /// Stores notes in a directory, as files that only their owner can read.
    pub fn in_directory(directory: PathBuf) -> Self {
        LongNoteStorage { place: Place::Directory(directory), cipher: None, undeleted: Arc::default() }
    }

    /// Stores notes in memory, for tests and for commands that only need the design.
    pub fn in_memory() -> Self {
        LongNoteStorage::new(Arc::new(InMemory::new()))
    }

    /// Encrypts the notes.
    #[must_use]
    pub fn encrypted_by(self, cipher: Arc<dyn FileCipher>) -> Self {
        LongNoteStorage { cipher: Some(cipher), ..self }
    }

    /// A note as its event has it, and whether it is a new object. A long one is stored before its event, so that an event never
    /// names a missing object. If the command fails, the new object has to be [deleted](LongNoteStorage::delete_unused).
    pub(crate) async fn store(&self, family: &str, todo: &str, text: String) -> Result<(Note, bool), Problem> {
        if text.chars().count() <= MAX_INLINE_CHARS {
            return Ok((Note::Text(text), false));
        }
        // The name is a hash of the content: a repeated request writes the same object.
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let path = folder(family, todo).join(hash.as_str());
        let size = text.len() as u64;
        let is_new = !self.exists(&path).await?;
        self.put(&path, text.into_bytes()).await?;
        Ok((Note::Object { object: path.to_string(), size }, is_new))
    }

    /// Deletes the long notes of a todo, the current one and all before it. What cannot be deleted now is
    /// [tried again](LongNoteStorage::delete_rest).
    pub(crate) async fn delete_all(&self, family: &str, todo: &str) {
        self.discard(Discarded::Folder(folder(family, todo))).await;
    }

    /// Deletes one long note, which no event names.
    pub(crate) async fn delete_unused(&self, object: &str) {
        if let Ok(path) = Path::parse(object) {
            self.discard(Discarded::Object(path)).await;
        }
    }

    /// Deletes what could not be deleted before.
    pub(crate) async fn delete_rest(&self) {
        let rest = std::mem::take(&mut *self.undeleted.lock().unwrap_or_else(PoisonError::into_inner));
        for each in rest {
            self.discard(each).await;
        }
    }

    async fn discard(&self, what: Discarded) {
        if let Err(error) = self.delete(&what).await {
            let cause = error.to_string();
            tracing::warn!(cause, ?what, "a note cannot be deleted now, and is deleted later");
            self.undeleted.lock().unwrap_or_else(PoisonError::into_inner).insert(what);
        }
    }

    async fn delete(&self, what: &Discarded) -> Result<(), Box<dyn StdError + Send + Sync>> {
        match (&self.place, what) {
            (Place::Objects(objects), Discarded::Folder(folder)) => {
                let names = objects.list(Some(folder)).map_ok(|object| object.location).boxed();
                Ok(objects.delete_stream(names).try_for_each(|_| async { Ok(()) }).await?)
            }
            (Place::Objects(objects), Discarded::Object(path)) => match objects.delete(path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                deleted => Ok(deleted?),
            },
            (Place::Directory(root), Discarded::Folder(path) | Discarded::Object(path)) => {
                let (root, path) = (root.clone(), root.join(path.as_ref()));
                Ok(tokio::task::spawn_blocking(move || delete_path(&root, &path)).await??)
            }
        }
    }

    async fn exists(&self, path: &Path) -> Result<bool, Problem> {
        match &self.place {
            Place::Objects(objects) => match objects.head(path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                found => found.map(|_| true).map_err(|error| storage_problem(&error)),
            },
            Place::Directory(root) => root.join(path.as_ref()).try_exists().map_err(|error| storage_problem(&error)),
        }
    }

    async fn put(&self, path: &Path, mut content: Vec<u8>) -> Result<(), Problem> {
        if let Some(cipher) = &self.cipher {
            content = cipher.seal(path.as_ref(), content).map_err(|error| storage_problem(&error))?;
        }
        match &self.place {
            Place::Objects(objects) => {
                let stored = objects.put(path, PutPayload::from(content)).await;
                stored.map(drop).map_err(|error| storage_problem(&error))
            }
            Place::Directory(root) => {
                let (root, file) = (root.clone(), root.join(path.as_ref()));
                let written = tokio::task::spawn_blocking(move || write_file(&root, &file, &content)).await;
                written.map_err(|_| Problem::internal())?.map_err(|error| storage_problem(&error))
            }
        }
    }

    /// The stored bytes of an object; `None` if it does not exist.
    async fn get(&self, path: &Path) -> Result<Option<Vec<u8>>, Problem> {
        match &self.place {
            Place::Objects(objects) => {
                let found = match objects.get(path).await {
                    Err(object_store::Error::NotFound { .. }) => return Ok(None),
                    found => found.map_err(|error| storage_problem(&error))?,
                };
                Ok(Some(found.bytes().await.map_err(|error| storage_problem(&error))?.to_vec()))
            }
            Place::Directory(root) => {
                let file = root.join(path.as_ref());
                let read = tokio::task::spawn_blocking(move || fs::read(file)).await;
                match read.map_err(|_| Problem::internal())? {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    read => read.map(Some).map_err(|error| storage_problem(&error)),
                }
            }
        }
    }

    /// The text of a long note.
    pub(crate) async fn load(&self, object: &str) -> Result<String, Problem> {
        let path = Path::parse(object).map_err(|error| storage_problem(&error))?;
        // It was stored before its event, so it has been removed since.
        let mut bytes = self.get(&path).await?.ok_or_else(|| damaged_note_problem(object, "is missing"))?;
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
    Path::from_iter(["notes", &family[..32], todo])
}

/// Writes and syncs a file below a root. A note is synced before its event is stored.
fn write_file(root: &FilePath, file: &FilePath, content: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(root);
    if !folder.is_dir() {
        files::private_folder().recursive(true).create(folder)?;
        // The names of new folders have to be durable too.
        for folder in folder.ancestors().skip(1).take_while(|folder| folder.starts_with(root)) {
            files::sync_folder(folder)?;
        }
    }
    files::replace_file(file, |out| io::Write::write_all(out, content))
}

/// Deletes an object, or a folder of objects. A backup that runs keeps them: its snapshot may refer to them.
fn delete_path(root: &FilePath, path: &FilePath) -> io::Result<()> {
    if !path.try_exists()? {
        return Ok(());
    }
    let Some(_lock) = files::may_delete_objects(root)? else {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "a backup is reading the objects"));
    };
    let deleted = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match deleted {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
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
        let (Note::Object { object, .. }, _) = stored else { panic!("a long one is an object") };
        for changed in ["y".repeat(MAX_INLINE_CHARS + 1), String::new()] {
            fs::write(directory.path().join(&object), changed).expect("it can be written");
            assert_eq!(notes.load(&object).await.expect_err("it is another").status(), 500);
        }
        fs::remove_file(directory.path().join(&object)).expect("it can be removed");
        assert_eq!(notes.load(&object).await.expect_err("it is gone").status(), 500);
    }

    /// Proves the notes part of T4.
    #[tokio::test]
    async fn a_long_note_is_an_object_and_its_event_names_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("objects");
        let notes = LongNoteStorage::in_directory(place.clone());
        let short = notes.store("f-1", "t-1", "x".repeat(MAX_INLINE_CHARS)).await.expect("it is stored");
        assert_eq!(short, (Note::Text("x".repeat(MAX_INLINE_CHARS)), false));
        assert!(!place.exists(), "a short note needs no directory");

        let text = "長".repeat(MAX_INLINE_CHARS + 1);
        let (Note::Object { object, size }, true) =
            notes.store("f-1", "t-1", text.clone()).await.expect("it is stored")
        else {
            panic!("a long one is an object");
        };
        assert_eq!(size, text.len() as u64);
        assert!(object.contains("/t-1/") && object.len() <= 300, "{object}");
        // Another process finds it.
        assert_eq!(LongNoteStorage::in_directory(place.clone()).load(&object).await.expect("it is there"), text);
        let same = notes.store("f-1", "t-1", text).await.expect("it is stored");
        assert!(
            matches!(same, (Note::Object { object: again, .. }, false) if again == object),
            "the same note is the same object"
        );
    }

    #[tokio::test]
    async fn deleting_removes_all_notes_of_one_todo() {
        let directory = tempfile::tempdir().expect("a directory");
        for notes in [LongNoteStorage::in_directory(directory.path().to_owned()), LongNoteStorage::in_memory()] {
            let mut objects = Vec::new();
            for (family, todo, text) in
                [("f-1", "t-1", "a"), ("f-1", "t-1", "b"), ("f-1", "t-10", "a"), ("f-2", "t-1", "a")]
            {
                let stored = notes.store(family, todo, text.repeat(MAX_INLINE_CHARS + 1)).await.expect("it is stored");
                let (Note::Object { object, .. }, _) = stored else { panic!("a long one is an object") };
                objects.push(object);
            }
            notes.delete_all("f-1", "t-1").await;
            notes.delete_all("f-1", "t-1").await;
            for (object, is_there) in objects.iter().zip([false, false, true, true]) {
                assert_eq!(notes.load(object).await.is_ok(), is_there, "{object}");
            }
        }
    }

    #[tokio::test]
    async fn a_note_is_not_deleted_while_a_backup_reads_the_objects() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("objects");
        let notes = LongNoteStorage::in_directory(place.clone());
        let stored = notes.store("f-1", "t-1", "x".repeat(MAX_INLINE_CHARS + 1)).await.expect("it is stored");
        let (Note::Object { object, .. }, _) = stored else { panic!("a long one is an object") };
        let backup = files::keep_objects(&place).expect("a lock");
        let other = files::keep_objects(&place).expect("two backups do not exclude each other");
        notes.delete_all("f-1", "t-1").await;
        assert!(notes.load(&object).await.is_ok(), "it is kept");
        drop((backup, other));
        notes.delete_rest().await;
        assert!(notes.load(&object).await.is_err());
    }

    /// Reverses the bytes, and puts the name in front.
    #[derive(Debug)]
    struct Reversing;

    impl FileCipher for Reversing {
        fn seal(&self, name: &str, content: Vec<u8>) -> Result<Vec<u8>, nagaya_store::Error> {
            Ok(name.bytes().chain(content.into_iter().rev()).collect())
        }

        fn open(&self, name: &str, stored: Vec<u8>) -> Result<Vec<u8>, nagaya_store::Error> {
            let content = stored.strip_prefix(name.as_bytes());
            content
                .map(|content| content.iter().rev().copied().collect())
                .ok_or_else(|| nagaya_store::Error::engine("no"))
        }
    }

    #[tokio::test]
    async fn a_note_is_encrypted_and_belongs_to_its_owner_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("objects");
        let notes = LongNoteStorage::in_directory(place.clone()).encrypted_by(Arc::new(Reversing));
        let text = format!("{}the end", "x".repeat(MAX_INLINE_CHARS));
        let stored = notes.store("f-1", "t-1", text.clone()).await.expect("it is stored");
        let (Note::Object { object, .. }, _) = stored else { panic!("a long one is an object") };
        let bytes = fs::read(place.join(&object)).expect("a file");
        assert!(bytes.starts_with(format!("{object}dne eht").as_bytes()));
        assert_eq!(notes.load(&object).await.expect("it is there"), text);
        fs::write(place.join(&object), "moved").expect("it can be written");
        assert_eq!(notes.load(&object).await.expect_err("it does not open").status(), 500);
        #[cfg(unix)]
        for (path, mode) in [(place.clone(), 0o700), (place.join("notes"), 0o700)] {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, mode, "{path:?}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_file_of_a_note_has_no_permissions_for_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let notes = LongNoteStorage::in_directory(directory.path().join("objects"));
        let stored = notes.store("f-1", "t-1", "x".repeat(MAX_INLINE_CHARS + 1)).await.expect("it is stored");
        let (Note::Object { object, .. }, _) = stored else { panic!("a long one is an object") };
        let file = directory.path().join("objects").join(object);
        assert_eq!(fs::metadata(file).expect("a file").permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn the_path_of_a_note_stays_below_its_family() {
        let directory = tempfile::tempdir().expect("a directory");
        let notes = LongNoteStorage::in_directory(directory.path().join("objects"));
        let stored = notes.store("../../up", "..", "x".repeat(MAX_INLINE_CHARS + 1)).await.expect("it is stored");
        assert!(matches!(&stored, (Note::Object { object, .. }, true) if !object.contains("../")), "{stored:?}");
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
        assert!(notes.load("notes/../../secret").await.is_err());
    }
}
