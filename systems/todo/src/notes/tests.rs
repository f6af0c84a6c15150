//! Where notes are stored, and which are deleted.

use std::{fs, sync::Mutex};

use nagaya_events::{CommandRequest, Context, Events, EventsOptions};
use nagaya_store::files;
use nagaya_tenancy::{ChangeConsumer as _, Nagaya, Principal, Settings, process_page};
use nagaya_testing::{ManualClock, memory_store, system_design};
use tempfile::TempDir;

use super::{
    place::{create_folders, write_file},
    *,
};
use crate::{AGGREGATE, Command, Todo};

/// A text that is too long for an event.
fn long(text: &str) -> String {
    text.repeat(MAX_INLINE_CHARS + 1)
}

/// Notes in a new directory, and the directory.
fn notes_on_disk() -> (LongNoteStorage, PathBuf, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let objects = directory.path().join("objects");
    (LongNoteStorage::in_directory(objects.clone()), objects, directory)
}

/// Stores a long note of a todo for a request; the path of its object.
async fn store(notes: &LongNoteStorage, (family, todo, request): (&str, &str, &str), text: &str) -> String {
    match notes.store(family, todo, request, long(text), None).await.expect("it is stored").note {
        Note::Object { object, .. } => object,
        Note::Text(text) => panic!("a long note is an object: {text}"),
    }
}

#[tokio::test]
async fn a_changed_or_removed_note_is_an_error() {
    let (notes, objects, _directory) = notes_on_disk();
    let object = store(&notes, ("f-1", "t-1", "r-1"), "x").await;
    for changed in [long("y"), String::new()] {
        fs::write(objects.join(&object), changed).expect("it can be written");
        assert_eq!(notes.load(&object).await.expect_err("it is another").status(), 500);
    }
    fs::remove_file(objects.join(&object)).expect("it can be removed");
    assert_eq!(notes.load(&object).await.expect_err("it is gone").status(), 500);
}

/// A note that is missing is an error of its own, which a retry does not help.
#[tokio::test]
async fn a_directory_that_cannot_be_read_is_an_error() {
    let (notes, objects, _directory) = notes_on_disk();
    fs::create_dir_all(objects.join("notes/f/t/r/hash")).expect("it can be created");
    let problem = notes.load("notes/f/t/r/hash").await.expect_err("it is a folder");
    assert_eq!((problem.status(), problem.code()), (StatusCode::SERVICE_UNAVAILABLE, "notes_unavailable"));

    let (data, notes) = (Data::new().await, LongNoteStorage::in_directory("no\0path".into()));
    NoteSweep::new(&data.nagaya, &notes).sweep().await.expect_err("there is no such path");
}

#[test]
fn a_full_disk_has_a_problem_of_its_own() {
    let status = |kind: io::ErrorKind| {
        let below = object_store::Error::Generic { store: "disk", source: io::Error::from(kind).into() };
        (storage_problem(&io::Error::from(kind)).status().as_u16(), storage_problem(&below).status().as_u16())
    };
    assert_eq!(status(io::ErrorKind::StorageFull), (507, 507));
    assert_eq!(status(io::ErrorKind::PermissionDenied), (503, 503));
}

#[test]
fn a_file_is_written_again_when_its_folder_is_deleted_meanwhile() {
    let directory = tempfile::tempdir().expect("a directory");
    let (folder, file) = (directory.path().join("todo"), directory.path().join("todo/request/hash"));
    let mut attempts = 0;
    let written = write_file(directory.path(), &file, |out| {
        attempts += 1;
        if attempts == 1 {
            fs::remove_dir_all(&folder)?;
        }
        io::Write::write_all(out, b"x")
    });
    written.expect("it is written");
    assert_eq!((fs::read(&file).expect("a file"), attempts), (b"x".to_vec(), 2));

    // Any other failure is the result.
    let refused = write_file(directory.path(), &file, |_| {
        attempts += 1;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert_eq!((refused.expect_err("it is full").kind(), attempts), (io::ErrorKind::StorageFull, 3));
}

#[test]
fn the_names_of_new_folders_are_made_durable() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("objects");
    let mut synced = Vec::new();
    let created = create_folders(&root, &root.join("notes/family/hash"), |folder| {
        synced.push(folder.to_owned());
        Ok(())
    });
    created.expect("they are created");
    assert!(root.join("notes/family").is_dir());
    // The folder of the file is synced with the file.
    assert_eq!(synced, [root.join("notes"), root, directory.path().to_owned()]);
}

/// Proves the notes part of T4.
#[tokio::test]
async fn a_long_note_is_an_object_and_its_event_names_it() {
    let (notes, objects, _directory) = notes_on_disk();
    let short = "x".repeat(MAX_INLINE_CHARS);
    let stored = notes.store("f-1", "t-1", "r-1", short.clone(), None).await.expect("it is stored");
    assert_eq!(stored, Note::Text(short).into());
    assert!(!objects.exists(), "a short note needs no directory");

    let text = long("長");
    let stored = notes.store("f-1", "t-1", "r-1", text.clone(), None).await.expect("it is stored");
    let Note::Object { object, size } = &stored.note else { panic!("a long one is an object") };
    assert_eq!(*size, text.len() as u64);
    assert!(object.contains("/t-1/r-1/") && object.len() <= 300, "{object}");
    // Another process finds it.
    assert_eq!(LongNoteStorage::in_directory(objects.clone()).load(object).await.expect("it is there"), text);
}

#[tokio::test]
async fn an_object_belongs_to_one_request_unless_the_note_stays_the_same() {
    let (on_disk, _, _directory) = notes_on_disk();
    for notes in [on_disk, LongNoteStorage::in_memory()] {
        let current = notes.store("f-1", "t-1", "r-1", long("x"), None).await.expect("it is stored");
        let same = notes.store("f-1", "t-1", "r-2", long("x"), Some(&current.note)).await.expect("it is stored");
        assert_eq!(same, current.note.clone().into(), "the same note is the same object");
        notes.delete_stored(&same).await;
        let Note::Object { object, .. } = &current.note else { panic!("a long one is an object") };
        assert!(notes.load(object).await.is_ok(), "it was stored for another request");
        let other = notes.store("f-1", "t-1", "r-2", long("x"), None).await.expect("it is stored");
        assert_ne!(other.note, current.note, "another request does not depend on the object of this one");
        notes.delete_stored(&other).await;
        let Note::Object { object: others, .. } = &other.note else { panic!("a long one is an object") };
        assert!(notes.load(object).await.is_ok() && notes.load(others).await.is_err());
        let text = Note::Text("short".to_owned());
        assert_ne!(notes.store("f-1", "t-1", "r-3", long("y"), Some(&text)).await.expect("it is stored").note, text);
    }
}

#[tokio::test]
async fn deleting_removes_all_notes_of_one_todo() {
    let (on_disk, objects, _directory) = notes_on_disk();
    for notes in [on_disk, LongNoteStorage::in_memory()] {
        let mut stored = Vec::new();
        for (place, text) in [
            (("f-1", "t-1", "r-1"), "a"),
            (("f-1", "t-1", "r-2"), "b"),
            (("f-1", "t-10", "r-3"), "a"),
            (("f-2", "t-1", "r-4"), "a"),
        ] {
            stored.push(store(&notes, place, text).await);
        }
        notes.delete_all("f-1", "t-1").await.expect("they are deleted");
        notes.delete_all("f-1", "t-1").await.expect("there are none");
        for (object, is_there) in stored.iter().zip([false, false, true, true]) {
            assert_eq!(notes.load(object).await.is_ok(), is_there, "{object}");
        }
        notes.delete_all("f-1", "t-10").await.expect("it is deleted");
        notes.delete_all("f-2", "t-1").await.expect("it is deleted");
    }
    assert!(!objects.join(ROOT).exists(), "no empty folder is left");
}

#[tokio::test]
async fn a_note_is_not_deleted_while_a_backup_reads_the_objects() {
    let (notes, objects, _directory) = notes_on_disk();
    let object = store(&notes, ("f-1", "t-1", "r-1"), "x").await;
    let backup = files::lock_objects_shared(&objects).expect("a lock");
    let other = files::lock_objects_shared(&objects).expect("two backups do not exclude each other");
    let refused = notes.delete_all("f-1", "t-1").await.expect_err("a backup has locked it");
    assert!(refused.to_string().contains("a backup or another process"), "{refused}");
    assert!(notes.load(&object).await.is_ok(), "it is kept");
    drop((backup, other));
    notes.delete_all("f-1", "t-1").await.expect("it is deleted");
    assert!(notes.load(&object).await.is_err());
}

#[tokio::test]
async fn a_todo_without_long_notes_is_deleted_during_a_backup() {
    let (notes, objects, _directory) = notes_on_disk();
    let _backup = files::lock_objects_shared(&objects).expect("a lock");
    notes.delete_all("f-1", "t-1").await.expect("there are none");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_in_one_process_do_not_refuse_each_other() {
    let (notes, objects, _directory) = notes_on_disk();
    let todos: Vec<_> = (0..40).map(|nth| format!("t-{nth}")).collect();
    for todo in &todos {
        store(&notes, ("f-1", todo, "r-1"), "x").await;
    }
    // Two systems of a process have storages of their own in one directory.
    let other = LongNoteStorage::in_directory(objects);
    let deleted = todos.iter().enumerate().map(|(nth, todo)| {
        let notes = if nth % 2 == 0 { notes.clone() } else { other.clone() };
        let todo = todo.clone();
        tokio::spawn(async move { notes.delete_all("f-1", &todo).await })
    });
    for deleted in deleted.collect::<Vec<_>>() {
        deleted.await.expect("no panic").expect("it is deleted");
    }
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
        content.map(|content| content.iter().rev().copied().collect()).ok_or_else(|| nagaya_store::Error::engine("no"))
    }
}

#[tokio::test]
async fn a_note_is_encrypted_and_belongs_to_its_owner_only() {
    let (notes, place, _directory) = notes_on_disk();
    let notes = notes.encrypted_by(Arc::new(Reversing));
    let text = long("the end");
    let object = store(&notes, ("f-1", "t-1", "r-1"), "the end").await;
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
    let (notes, objects, _directory) = notes_on_disk();
    let file = objects.join(store(&notes, ("f-1", "t-1", "r-1"), "x").await);
    assert_eq!(fs::metadata(file).expect("a file").permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn the_path_of_a_note_stays_below_its_family() {
    let (notes, _, directory) = notes_on_disk();
    let object = store(&notes, ("../../up", "..", ".."), "x").await;
    assert!(!object.contains("../"), "{object}");
    assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
    assert!(notes.load("notes/../../secret").await.is_err());
}

/// The data layer of the system, and what its requests do.
struct Data {
    nagaya: Nagaya,
    clock: ManualClock,
    events: Events<Todo>,
}

impl Data {
    async fn new() -> Self {
        let design = system_design("todo/todo");
        let clock = ManualClock::default();
        let settings = Settings { clock: clock.clock(), ..Settings::default() };
        let events = Events::new(&design, AGGREGATE, EventsOptions::default()).expect("the aggregate is there");
        let nagaya = Nagaya::open_with(design, memory_store(&clock), settings);
        nagaya.ensure_tables().await.expect("the tables are made");
        Data { nagaya, clock, events }
    }

    fn new_id(&self) -> String {
        self.nagaya.ids().ulid(self.clock.millis())
    }

    async fn execute(&self, todo: &str, command: Command) {
        let ids = self.nagaya.ids();
        let context = Context {
            now: self.clock.millis(),
            user: "mio".to_owned(),
            correlation: "c-1".to_owned(),
            causation: "c-1".to_owned(),
            ids,
        };
        let tenant = self.nagaya.tenant(&Principal::new("f-1", "mio")).expect("a tenant");
        let request = CommandRequest { context, expected: None, idempotency: None };
        self.events.execute(&tenant, todo, &command, &request).await.expect("it is accepted");
    }

    /// Creates a todo with a long note; its id and the object of the note.
    async fn create(&self, notes: &LongNoteStorage, text: &str) -> (String, String) {
        let todo = self.new_id();
        let object = self.store(notes, &todo, text).await;
        self.execute(&todo, Command::Create { title: text.to_owned(), note: Some(named(&object)) }).await;
        (todo, object)
    }

    /// Stores a long note that no event names yet.
    async fn store(&self, notes: &LongNoteStorage, todo: &str, text: &str) -> String {
        store(notes, ("f-1", todo, &self.new_id()), text).await
    }
}

/// A note as its event names it.
fn named(object: &str) -> Note {
    Note::Object { object: object.to_owned(), size: 1 }
}

/// Which of these objects exist.
async fn existing<const N: usize>(notes: &LongNoteStorage, objects: [&str; N]) -> [bool; N] {
    let mut exist = [false; N];
    for (exists, object) in exist.iter_mut().zip(objects) {
        *exists = notes.load(object).await.is_ok();
    }
    exist
}

#[tokio::test]
async fn a_sweep_deletes_what_no_event_names_and_nothing_else() {
    let (on_disk, _, _directory) = notes_on_disk();
    for notes in [on_disk, LongNoteStorage::in_memory()] {
        let data = Data::new().await;
        let mut sweep = NoteSweep::new(&data.nagaya, &notes);
        let (todo, first) = data.create(&notes, "first").await;
        let second = data.store(&notes, &todo, "second").await;
        data.execute(&todo, Command::Change { title: None, completed: None, note: Some(Some(named(&second))) }).await;
        let (deleted, of_deleted) = data.create(&notes, "deleted").await;
        data.execute(&deleted, Command::Delete).await;
        let refused = data.store(&notes, &todo, "refused").await;
        let never_created = data.store(&notes, &data.new_id(), "never created").await;

        // An event may still name them.
        data.clock.advance(Duration::from_hours(24));
        assert_eq!(sweep.sweep().await.expect("it ends"), 0);
        data.clock.advance(Duration::from_millis(1));
        let young = data.store(&notes, &todo, "young").await;
        assert_eq!(sweep.sweep().await.expect("it ends"), 3);
        let all = [&*first, &second, &young, &of_deleted, &refused, &never_created];
        assert_eq!(existing(&notes, all).await, [true, true, true, false, false, false]);

        // A sweep goes on where the last one ended; the one of another process begins at the start.
        data.clock.advance(Duration::from_hours(24 * 365));
        assert_eq!(sweep.sweep().await.expect("it ends"), 1);
        assert_eq!(NoteSweep::new(&data.nagaya, &notes).sweep().await.expect("it ends"), 0);
        assert_eq!(existing(&notes, [&*first, &second, &young]).await, [true, true, false]);
    }
}

#[tokio::test]
async fn the_time_until_a_sweep_deletes_an_object_is_a_setting() {
    let (data, notes) = (Data::new().await, LongNoteStorage::in_memory().keep_unnamed_for(Duration::from_hours(2)));
    let object = data.store(&notes, &data.new_id(), "x").await;
    data.clock.advance(Duration::from_hours(2));
    assert_eq!(NoteSweep::new(&data.nagaya, &notes).sweep().await.expect("it ends"), 0);
    data.clock.advance(Duration::from_millis(1));
    assert_eq!(NoteSweep::new(&data.nagaya, &notes).sweep().await.expect("it ends"), 1);
    assert!(notes.load(&object).await.is_err());
}

#[tokio::test]
async fn a_sweep_that_fails_is_repeated_and_a_foreign_file_stays() {
    let (notes, objects, _directory) = notes_on_disk();
    let data = Data::new().await;
    let (todo, current) = data.create(&notes, "current").await;
    // What earlier versions left: objects without the time of a request, and an unfinished file.
    let folder = objects.join(folder("f-1", &todo).as_ref());
    let text = long("earlier");
    let earlier = folder.join(blake3::hash(text.as_bytes()).to_hex().as_str());
    fs::write(&earlier, text).expect("it can be written");
    let unfinished = folder.join(".x.0123456789abcdef.new");
    fs::write(&unfinished, "x").expect("it can be written");
    let foreign = objects.join(ROOT).join("README");
    fs::write(&foreign, "x").expect("it can be written");
    data.clock.advance(Duration::from_hours(25));

    let backup = files::lock_objects_shared(&objects).expect("a lock");
    let mut sweep = NoteSweep::new(&data.nagaya, &notes);
    sweep.sweep().await.expect_err("a backup has locked the objects");
    assert!(earlier.exists());
    drop(backup);
    assert_eq!(sweep.sweep().await.expect("it ends"), 2);
    assert!(!earlier.exists() && !unfinished.exists() && foreign.exists());
    assert!(notes.load(&current).await.is_ok());
}

#[tokio::test]
async fn a_note_that_could_not_be_deleted_is_deleted_after_a_restart() {
    // The first page is a scan of all events, the others are changes.
    for is_first_page in [true, false] {
        let (notes, objects, _directory) = notes_on_disk();
        let data = Data::new().await;
        let cleanup = |data: &Data| NoteCleanup::new(&data.nagaya, &notes);
        if !is_first_page {
            process_page(&cleanup(&data)).await.expect("a page");
        }
        let (todo, object) = data.create(&notes, "x").await;
        data.execute(&todo, Command::Delete).await;

        let backup = files::lock_objects_shared(&objects).expect("a lock");
        process_page(&cleanup(&data)).await.expect_err("a backup has locked the objects");
        assert!(notes.load(&object).await.is_ok(), "the backup keeps it");
        drop(backup);

        process_page(&cleanup(&data)).await.expect("a page");
        assert!(notes.load(&object).await.is_err(), "the deletion was not forgotten");
    }
}

/// The lines of the log while this lives.
fn log() -> (Arc<Mutex<Vec<u8>>>, tracing::subscriber::DefaultGuard) {
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let lines = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&lines);
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || Lines(Arc::clone(&writer)));
    (lines, tracing::subscriber::set_default(subscriber.finish()))
}

#[tokio::test]
async fn the_first_failed_deletion_is_logged_and_the_one_that_succeeds_after_it() {
    let (notes, objects, _directory) = notes_on_disk();
    let data = Data::new().await;
    let (todo, object) = data.create(&notes, "x").await;
    data.execute(&todo, Command::Delete).await;
    let backup = files::lock_objects_shared(&objects).expect("a lock");
    let cleanup = NoteCleanup::new(&data.nagaya, &notes);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();

    let (lines, _guard) = log();
    let lines_with = |text: &str| {
        let all = String::from_utf8(lines.lock().expect("no panic").clone()).expect("text");
        all.lines().filter(|line| line.contains(text)).map(str::to_owned).collect::<Vec<_>>()
    };
    let end_backup = async {
        while lines_with(&todo).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(backup);
        while lines_with("processed again").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send(()).expect("it runs");
    };
    tokio::join!(cleanup.run(Box::pin(async { drop(stopped.await) })), end_backup);
    assert!(notes.load(&object).await.is_err());
    let failed = lines_with(&todo);
    assert!(failed[0].contains("WARN") && failed[0].contains("cannot be deleted: a backup"), "{failed:?}");
    assert_eq!(lines_with("processed again").len(), 1);
}

#[tokio::test]
async fn a_sweep_is_repeated_every_hour_and_what_it_could_not_delete_is_logged_once() {
    const HOUR: Duration = Duration::from_hours(1);
    let (notes, objects, _directory) = notes_on_disk();
    let data = Data::new().await;
    let (lines, _guard) = log();
    let logged = || {
        let lines = std::mem::take(&mut *lines.lock().expect("no panic"));
        let lines = String::from_utf8(lines).expect("text");
        let lines =
            lines.lines().filter_map(|line| line.split_once("no event names ").map(|(_, what)| what.to_owned()));
        lines.collect::<Vec<_>>()
    };
    let none = Vec::<String>::new();
    let deleted = |count: usize| vec![format!("were deleted deleted={count}")];
    let mut sweep = NoteSweep::new(&data.nagaya, &notes);

    // The first sweep is at the start, and there is nothing to say about it.
    let old = data.store(&notes, &data.new_id(), "old").await;
    sweep.sweep_if_due().await;
    assert_eq!(logged(), none);
    data.clock.advance(KEEP_UNNAMED_FOR + HOUR);
    sweep.sweep_if_due().await;
    assert_eq!(logged(), deleted(1));
    assert!(notes.load(&old).await.is_err());

    let locked = data.store(&notes, &data.new_id(), "locked").await;
    data.clock.advance(KEEP_UNNAMED_FOR + HOUR);
    let backup = files::lock_objects_shared(&objects).expect("a lock");
    sweep.sweep_if_due().await;
    let failed = logged();
    assert!(matches!(&*failed, [line] if line.starts_with("cannot be deleted now")), "{failed:?}");
    data.clock.advance(HOUR);
    sweep.sweep_if_due().await;
    assert_eq!(logged(), none, "the failure is known");
    drop(backup);

    // Another process has deleted it.
    fs::remove_file(objects.join(&locked)).expect("it is there");
    data.clock.advance(HOUR - Duration::from_millis(1));
    sweep.sweep_if_due().await;
    assert_eq!(logged(), none, "it is not time yet");
    data.clock.advance(Duration::from_millis(1));
    sweep.sweep_if_due().await;
    assert_eq!(logged(), deleted(0), "the failure is over");
    data.clock.advance(HOUR);
    sweep.sweep_if_due().await;
    assert_eq!(logged(), none);
}
