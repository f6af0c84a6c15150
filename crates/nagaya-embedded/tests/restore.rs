//! Restores that are interrupted or concurrent, and restores to a past time.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use nagaya_embedded::{EmbeddedStore, KeyFile, Options, RestoreExtras, restore_backup};
use nagaya_store::{Clock, Item, KeySchema, Scan, StartPosition, Store as _, TableSpec, Write, WriteSet};

const TABLE: &str = "notes";
/// Makes this test binary the process that is killed during a restore.
const CHILD: &str = "NAGAYA_INTERRUPTED_RESTORE";

fn note(n: i64) -> Item {
    Item::new().with("PK", format!("P{}", n % 7)).with("SK", format!("N{n:06}")).with("n", n)
}

fn specs() -> [TableSpec; 2] {
    [TABLE, "others"].map(|name| TableSpec::new(name, KeySchema::strings("PK", "SK")))
}

fn quiet() -> Options {
    Options { sweep_interval: None, ..Options::default() }
}

fn ignore() -> impl FnMut(u64) {
    |_| {}
}

async fn all(store: &EmbeddedStore) -> Vec<Item> {
    store.scan(Scan::table(TABLE)).await.expect("a scan").items
}

async fn backed_up(directory: &Path, count: i64) -> std::path::PathBuf {
    let store = EmbeddedStore::open(directory.join("store"), quiet()).expect("the directory opens");
    store.ensure_tables(&specs()).await.expect("the tables are made");
    for chunk in (0..count).collect::<Vec<_>>().chunks(100) {
        let set: WriteSet = chunk.iter().map(|n| Write::put(TABLE, note(*n))).collect();
        store.write(set).await.expect("a write");
    }
    let file = directory.join("backup.nagaya");
    store.backup(&file, &mut ignore()).expect("a backup");
    file
}

/// Not a test: the process that the test below starts. It ends without any cleanup, as if it were killed.
#[test]
fn the_process_that_is_killed_while_it_restores() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let directory = Path::new(&directory);
    let target = directory.join("restored");
    let mut abort_when_started = |_| {
        if target.join("data").exists() {
            std::process::abort();
        }
    };
    let _ = restore_backup(&directory.join("backup.nagaya"), &target, &mut abort_when_started);
}

#[tokio::test]
async fn an_interrupted_restore_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = backed_up(directory.path(), 5_000).await;
    let killed = Command::new(std::env::current_exe().expect("this test has a path"))
        .args(["--exact", "the_process_that_is_killed_while_it_restores", "--nocapture"])
        .env(CHILD, directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("it runs");
    assert!(!killed.success(), "it was not killed");
    let target = directory.path().join("restored");
    assert!(target.join("data").is_dir(), "it was killed in the middle");
    for _ in 0..2 {
        let error = EmbeddedStore::open(&target, quiet()).expect_err("it is not a complete store").to_string();
        assert!(
            error.contains("a restore into") && error.contains("remove the directory and restore again"),
            "{error}"
        );
        let error = restore_backup(&file, &target, &mut ignore()).expect_err("it is not overwritten").to_string();
        assert!(error.contains("remove the directory and restore again"), "{error}");
        assert!(target.join("data").is_dir(), "nothing is removed");
    }
    fs::remove_dir_all(&target).expect("it can be removed");
    restore_backup(&file, &target, &mut ignore()).expect("and restored again");
    assert_eq!(all(&EmbeddedStore::open(&target, quiet()).expect("it opens")).await.len(), 5_000);
}

/// An earlier version marked a new store and a restore in the same way.
#[tokio::test]
async fn an_unfinished_new_store_is_created_again_and_an_unfinished_restore_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let fresh = directory.path().join("fresh");
    drop(EmbeddedStore::open(&fresh, quiet()).expect("it is made"));
    fs::write(fresh.join("data.unfinished"), "").expect("a mark");
    drop(EmbeddedStore::open(&fresh, quiet()).expect("nothing was acknowledged: it is created again"));
    assert!(!fresh.join("data.unfinished").exists());

    let file = backed_up(directory.path(), 10).await;
    let restored = directory.path().join("restored");
    restore_backup(&file, &restored, &mut ignore()).expect("it can be restored");
    fs::write(restored.join("data.unfinished"), "").expect("a mark");
    let error = EmbeddedStore::open(&restored, quiet()).expect_err("it has tables").to_string();
    assert!(error.contains("remove the directory and restore again"), "{error}");
    fs::remove_file(restored.join("data.unfinished")).expect("the mark can be removed");
    assert_eq!(all(&EmbeddedStore::open(&restored, quiet()).expect("nothing was removed")).await.len(), 10);
}

#[tokio::test]
async fn one_of_several_concurrent_restores_wins_and_is_complete() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = backed_up(directory.path(), 500).await;
    for round in 0..5 {
        let target = directory.path().join(format!("restored-{round}"));
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let racing = [(); 4].map(|()| scope.spawn(|| restore_backup(&file, &target, &mut ignore())));
            racing.into_iter().map(|each| each.join().expect("no panic")).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        let store = EmbeddedStore::open(&target, quiet()).expect("the winner's result opens");
        assert_eq!(all(&store).await.len(), 500);
        assert_eq!(store.verify(&mut ignore()).expect("it can be verified"), []);
    }
}

#[tokio::test]
async fn a_directory_that_is_not_empty_is_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = backed_up(directory.path(), 5).await;
    let target = directory.path().join("there");
    fs::create_dir(&target).expect("a folder");
    restore_backup(&file, &target, &mut ignore()).expect("an empty directory is accepted");
    let before = fs::read_dir(&target).expect("a folder").count();
    let error = restore_backup(&file, &target, &mut ignore()).expect_err("it is not empty").to_string();
    assert!(error.contains("already exists"), "{error}");
    assert_eq!(fs::read_dir(&target).expect("a folder").count(), before);
    drop(EmbeddedStore::open(&target, quiet()).expect("it is the same as before"));
}

/// A store whose clock the test sets.
struct Timed {
    now: Arc<AtomicI64>,
    store: EmbeddedStore,
}

impl Timed {
    async fn open(directory: &Path) -> Self {
        let now = Arc::new(AtomicI64::new(1_000));
        let current = Arc::clone(&now);
        let clock = Clock::new(move || current.load(Ordering::SeqCst));
        let store = EmbeddedStore::open(directory, Options { clock, ..quiet() }).expect("the directory opens");
        store.ensure_tables(&specs()).await.expect("the tables are made");
        Timed { now, store }
    }

    async fn put_at(&self, at: i64, table: &str, n: i64) {
        self.now.store(at, Ordering::SeqCst);
        self.store.write(Write::put(table, note(n)).into()).await.expect("a put");
    }
}

#[tokio::test]
async fn a_time_before_the_changes_or_in_the_future_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let timed = Timed::open(&directory.path().join("store")).await;
    timed.put_at(10_000, TABLE, 1).await;
    timed.put_at(20_000, TABLE, 2).await;
    let target = directory.path().join("past");
    for (time, why) in [(9_999, "is unknown"), (20_001, "in the future")] {
        let refused = timed.store.restore_at(time, &target, RestoreExtras::default(), &mut ignore());
        let error = refused.expect_err("it is refused").to_string();
        assert!(error.contains(why) && error.contains("cannot be restored"), "{time}: {error}");
        assert!(!target.exists());
    }
    let restored =
        timed.store.restore_at(10_000, &target, RestoreExtras::default(), &mut ignore()).expect("it is known");
    assert_eq!((restored.items, restored.clock_went_back), (1, false));
}

#[tokio::test]
async fn a_restore_to_a_past_time_continues_sequence_numbers_and_has_objects_and_keys() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let timed = Timed::open(&path("store")).await;
    for n in 1..6 {
        timed.put_at(n * 1_000, TABLE, n).await;
    }
    fs::create_dir_all(path("store/objects/notes")).expect("a folder");
    fs::write(path("store/objects/notes/a"), "a long note").expect("an object");
    let keys = [KeyFile { path: "cursor.key".to_owned(), bytes: b"00".to_vec() }];
    let objects = path("store/objects");
    let extras = RestoreExtras { objects: Some(&objects), keys: &keys, ..RestoreExtras::default() };
    let restored = timed.store.restore_at(2_000, &path("past"), extras, &mut ignore()).expect("it is known");
    assert_eq!((restored.items, restored.objects, restored.keys, restored.sequence), (2, 1, 1, 5));
    assert_eq!(fs::read(path("past/objects/notes/a")).expect("an object"), b"a long note");
    assert_eq!(fs::read(path("past/cursor.key")).expect("a key"), b"00");

    let past = EmbeddedStore::open(path("past"), quiet()).expect("it opens");
    let behind =
        StartPosition::After(timed.store.changes(TABLE, StartPosition::Oldest, 4).await.expect("changes").next);
    assert_eq!(past.changes(TABLE, behind, 10).await.expect_err("no change is kept").code(), "gap");
    past.write(Write::put(TABLE, note(9)).into()).await.expect("a put");
    let changes = past.changes(TABLE, StartPosition::Oldest, 10).await.expect("changes").records;
    assert_eq!(changes.iter().map(|change| change.sequence).collect::<Vec<_>>(), [6]);
}

/// A backup contains the changes, so a past state of a running server can be restored from a backup.
#[tokio::test]
async fn a_restored_directory_can_be_restored_to_a_time_before_its_backup() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let timed = Timed::open(&path("store")).await;
    for n in 1..6 {
        timed.put_at(n * 1_000, TABLE, n).await;
    }
    timed.store.backup(&path("backup.nagaya"), &mut ignore()).expect("a backup");
    restore_backup(&path("backup.nagaya"), &path("restored"), &mut ignore()).expect("it can be restored");
    let restored = EmbeddedStore::open(path("restored"), quiet()).expect("it opens");
    let past = restored.restore_at(3_500, &path("past"), RestoreExtras::default(), &mut ignore()).expect("it is known");
    assert_eq!(past.items, 3);
    assert_eq!(all(&EmbeddedStore::open(path("past"), quiet()).expect("it opens")).await.len(), 3);
}
