//! Full and incremental backups with objects and keys: intact or refused.

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_embedded::{
    BackupContent, BackupSource, BackupSummary, EmbeddedStore, KeyFile, Options, RestoreExtras, VerifiedBackup,
    is_backup_damaged, new_backup_id, restore_backup, restore_backups, verify_backup, verify_chain, write_backup,
};
use nagaya_store::{Clock, Error, Item, Key, KeySchema, Query, Scan, StartPosition, Store as _, TableSpec, Write};

const TABLE: &str = "notes";

fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK")).with_ttl("expiresAt")
}

fn note(n: i64) -> Item {
    Item::new()
        .with("PK", "P")
        .with("SK", format!("N{n:04}"))
        .with("n", n)
        .with("GSI1PK", "all")
        .with("GSI1SK", n.to_string())
}

async fn put(store: &EmbeddedStore, numbers: impl IntoIterator<Item = i64>) {
    for n in numbers {
        store.write(Write::put(TABLE, note(n)).into()).await.expect("a put");
    }
}

async fn all(store: &EmbeddedStore) -> Vec<Item> {
    store.scan(Scan::table(TABLE)).await.expect("a scan").items
}

/// A store without a sweep, with `count` notes.
async fn filled(directory: &Path, count: i64) -> EmbeddedStore {
    let store = EmbeddedStore::open(directory, quiet()).expect("the directory opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..count).await;
    store
}

fn quiet() -> Options {
    Options { sweep_interval: None, ..Options::default() }
}

fn ignore() -> impl FnMut(u64) {
    |_| {}
}

/// Writes a backup of the store with the objects of a directory, which continues another if one is given.
fn back_up(
    store: &EmbeddedStore,
    objects: &Path,
    previous: Option<&VerifiedBackup>,
    file: &Path,
) -> Result<BackupSummary, Error> {
    let id = new_backup_id().expect("an id");
    let source = BackupSource::Store(store);
    let (objects, sealed_keys) = (Some(objects), Some(&b"sealed"[..]));
    let content = BackupContent { source, previous, objects, sealed_keys, id, encryption_key: None, keyring: None };
    write_backup(file, content, &mut ignore())
}

fn check(file: &Path) -> VerifiedBackup {
    verify_backup(file, &mut ignore()).expect("the backup is intact")
}

fn object(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// The offsets of the records of a backup, and of its end.
fn records(bytes: &[u8]) -> Vec<usize> {
    let mut starts = vec![8];
    while let Some(length) = bytes.get(starts[starts.len() - 1]..).and_then(<[u8]>::first_chunk) {
        starts.push(starts[starts.len() - 1] + 4 + u32::from_be_bytes(*length) as usize + 16);
    }
    starts
}

#[tokio::test]
async fn every_flipped_bit_and_every_truncation_is_detected() {
    let directory = tempfile::tempdir().expect("a directory");
    let objects = directory.path().join("objects");
    object(&objects, "notes/a", "a long note");
    let store = filled(&directory.path().join("store"), 2).await;
    let (file, damaged) = (directory.path().join("whole.nagaya"), directory.path().join("damaged.nagaya"));
    back_up(&store, &objects, None, &file).expect("a backup");
    let whole = fs::read(&file).expect("the backup can be read");
    fs::write(&damaged, &whole).expect("the file can be written");
    let refused = |what: &str| {
        let error = verify_backup(&damaged, &mut ignore()).err().unwrap_or_else(|| panic!("{what} is not noticed"));
        assert!(is_backup_damaged(&error), "{what}: {error}");
    };
    // Changing one byte and restoring it is faster than writing thousands of files.
    let mut changed = fs::File::options().write(true).open(&damaged).expect("the file opens");
    let mut put = |at: usize, byte: u8| {
        changed.seek(SeekFrom::Start(at as u64)).and_then(|_| changed.write_all(&[byte])).expect("a byte is written");
    };
    for (at, byte) in whole.iter().enumerate() {
        for bit in 0..8 {
            put(at, byte ^ (1 << bit));
            refused(&format!("bit {bit} of byte {at}"));
        }
        put(at, *byte);
    }
    check(&damaged);
    for longer in [[whole.as_slice(), &[0]].concat(), whole.repeat(2)] {
        fs::write(&damaged, longer).expect("the file can be written");
        refused("bytes after the end");
    }
    for at in (0..whole.len()).rev() {
        changed.set_len(at as u64).expect("it can be cut");
        refused(&format!("a cut at byte {at}"));
    }
    check(&file);
}

#[tokio::test]
async fn a_missing_moved_or_duplicate_record_is_detected() {
    let directory = tempfile::tempdir().expect("a directory");
    let objects = directory.path().join("objects");
    object(&objects, "a", "one");
    object(&objects, "b", "two");
    let store = filled(&directory.path().join("store"), 4).await;
    let (file, other) = (directory.path().join("whole.nagaya"), directory.path().join("other.nagaya"));
    let damaged = directory.path().join("damaged.nagaya");
    back_up(&store, &objects, None, &file).expect("a backup");
    back_up(&store, &objects, None, &other).expect("another backup of the same");
    let (whole, other) = (fs::read(&file).expect("a file"), fs::read(&other).expect("a file"));
    let starts = records(&whole);
    assert_eq!(starts, records(&other), "both have the same records, except for their ids");
    assert!(starts.len() > 12 && starts.last() == Some(&whole.len()));
    let record = |nth: usize| &whole[starts[nth]..starts[nth + 1]];
    let refused = |parts: &[&[u8]], what: &str| {
        fs::write(&damaged, parts.concat()).expect("the file can be written");
        let error = verify_backup(&damaged, &mut ignore()).err().unwrap_or_else(|| panic!("{what} is not noticed"));
        assert!(is_backup_damaged(&error), "{what}: {error}");
    };
    for nth in 0..starts.len() - 1 {
        let (before, after) = (&whole[..starts[nth]], &whole[starts[nth + 1]..]);
        refused(&[before, after], &format!("record {nth} missing"));
        refused(&[before, record(nth), record(nth), after], &format!("record {nth} twice"));
        for later in nth + 1..starts.len() - 1 {
            let between = &whole[starts[nth + 1]..starts[later]];
            let rest = &whole[starts[later + 1]..];
            refused(
                &[before, record(later), between, record(nth), rest],
                &format!("records {nth} and {later} swapped"),
            );
        }
    }
    // A record of another backup at the same position matches its own digest, but not the hash of this file.
    refused(&[&whole[..starts[1]], &other[starts[1]..]], "the records of another backup");
}

#[tokio::test]
async fn a_damaged_backup_is_not_restored_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = filled(&directory.path().join("store"), 30).await;
    let file = directory.path().join("backup.nagaya");
    store.backup(&file, &mut ignore()).expect("a backup");
    let whole = fs::read(&file).expect("the backup can be read");
    let target = directory.path().join("restored");
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&file, &flipped).expect("the file can be written");
        let error = restore_backup(&file, &target, &mut ignore()).expect_err("the backup is damaged");
        assert!(error.to_string().contains("nothing was restored"), "{error}");
        assert!(!target.exists(), "a failed restore leaves nothing behind");
    }
}

#[tokio::test]
async fn a_backup_never_replaces_a_file_and_only_its_owner_reads_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = filled(&directory.path().join("store"), 3).await;
    let files = directory.path().join("files");
    fs::create_dir(&files).expect("a folder");
    let file = files.join("backup.nagaya");
    fs::write(&file, "something else").expect("a file");
    // An earlier version would have overwritten this file.
    fs::write(files.join("backup.partial"), "another file").expect("a file");
    let error = store.backup(&file, &mut ignore()).expect_err("the file exists");
    assert!(error.to_string().contains("never replaces a file"), "{error}");
    assert_eq!(fs::read(&file).expect("a file"), b"something else");

    let second = files.join("second.nagaya");
    // Two concurrent backups with one name: one is written completely, and the other is refused.
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| store.backup(&second, &mut ignore())));
        both.into_iter().map(|each| each.join().expect("no panic")).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    check(&second);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&second).expect("a file").permissions().mode() & 0o777, 0o600);
    }
    let mut left: Vec<_> = fs::read_dir(&files).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, ["backup.nagaya", "backup.partial", "second.nagaya"], "nothing else is left");
}

#[tokio::test]
async fn a_restored_store_keeps_its_changes_and_continues_their_sequence_numbers() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = filled(&directory.path().join("store"), 10).await;
    store.write(Write::delete(TABLE, Key::new("P", "N0003")).into()).await.expect("a delete");
    let kept = store.changes(TABLE, StartPosition::Oldest, 100).await.expect("changes");
    let file = directory.path().join("backup.nagaya");
    let made = store.backup(&file, &mut ignore()).expect("a backup");
    assert_eq!((made.changes, made.sequence), (11, 11));

    let restored = directory.path().join("restored");
    let summary = restore_backup(&file, &restored, &mut ignore()).expect("it can be restored");
    assert_eq!(summary.sequence, 11);
    let copy = EmbeddedStore::open(&restored, quiet()).expect("the copy opens");
    assert_eq!(copy.changes(TABLE, StartPosition::Oldest, 100).await.expect("changes").records, kept.records);
    assert_eq!(copy.verify(&mut ignore()).expect("it can be verified"), []);
    put(&copy, [100]).await;
    let more = copy.changes(TABLE, StartPosition::Oldest, 100).await.expect("changes").records;
    assert_eq!(more.last().expect("a change").sequence, 12);
}

/// A store whose clock the test sets, and which retains changes for 100 seconds.
fn with_manual_clock(directory: &Path) -> (Arc<AtomicI64>, EmbeddedStore) {
    let now = Arc::new(AtomicI64::new(1_000));
    let current = Arc::clone(&now);
    let clock = Clock::new(move || current.load(Ordering::SeqCst));
    let options = Options { clock, sweep_interval: None, retention: Duration::from_secs(100), ..Options::default() };
    (now, EmbeddedStore::open(directory, options).expect("the directory opens"))
}

#[tokio::test]
async fn a_restored_store_knows_which_changes_were_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (now, store) = with_manual_clock(&directory.path().join("store"));
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..5).await;
    let second = store.changes(TABLE, StartPosition::Oldest, 2).await.expect("changes").next;
    now.store(150_000, Ordering::SeqCst);
    put(&store, 5..7).await;
    store.sweep().await.expect("a sweep");
    let file = directory.path().join("backup.nagaya");
    store.backup(&file, &mut ignore()).expect("a backup");
    // All changes are removed; only the sequence number is left.
    now.store(900_000, Ordering::SeqCst);
    store.sweep().await.expect("a sweep");
    let empty = directory.path().join("empty.nagaya");
    assert_eq!(store.backup(&empty, &mut ignore()).expect("a backup").changes, 0);

    for (file, kept) in [(file, 2), (empty, 0)] {
        let target = file.with_extension("restored");
        assert_eq!(restore_backup(&file, &target, &mut ignore()).expect("it can be restored").sequence, 7);
        let copy = EmbeddedStore::open(&target, quiet()).expect("the copy opens");
        assert_eq!(copy.changes(TABLE, StartPosition::Oldest, 100).await.expect("changes").records.len(), kept);
        let behind = StartPosition::After(second.clone());
        assert_eq!(copy.changes(TABLE, behind, 10).await.expect_err("it is gone").code(), "gap");
        put(&copy, [50]).await;
        let records = copy.changes(TABLE, StartPosition::Oldest, 100).await.expect("changes").records;
        assert_eq!(records.last().expect("a change").sequence, 8);
    }
}

#[tokio::test]
async fn incremental_backups_restore_to_the_latest_state() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let objects = path("objects");
    let (now, store) = with_manual_clock(&path("store"));
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..20).await;
    object(&objects, "notes/f1/a", "the first");
    back_up(&store, &objects, None, &path("full")).expect("a full one");

    // Changed, removed and new items; a new index, a new table, a new object, and one that is still being written.
    store.write(Write::put(TABLE, note(3).with("n", 333)).into()).await.expect("a put");
    store.write(Write::delete(TABLE, Key::new("P", "N0004")).into()).await.expect("a delete");
    store.ensure_tables(&[spec().with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))]).await.expect("an index");
    store.ensure_tables(&[TableSpec::new("more", KeySchema::strings("PK", "SK"))]).await.expect("a table");
    store.write(Write::put("more", note(1)).into()).await.expect("a put");
    object(&objects, "notes/f1/b", "the second");
    object(&objects, "notes/f0/x", "sorts before the others");
    object(&objects, "notes/f1/c#1", "half of");
    let first = back_up(&store, &objects, Some(&check(&path("full"))), &path("inc1")).expect("an incremental one");
    assert_eq!((first.items, first.changes, first.objects, first.content_hash), (0, 3, 2, None));

    now.store(50_000, Ordering::SeqCst);
    put(&store, 100..105).await;
    // Older changes are removed meanwhile, but not those since the last backup.
    now.store(120_000, Ordering::SeqCst);
    store.sweep().await.expect("a sweep");
    let second = back_up(&store, &objects, Some(&check(&path("inc1"))), &path("inc2")).expect("another one");
    assert_eq!((second.changes, second.objects), (5, 0));

    let chain = [check(&path("full")), check(&path("inc1")), check(&path("inc2"))];
    let keys = [KeyFile { path: "issuer/keys.json".to_owned(), bytes: b"secret".to_vec() }];
    let extras = RestoreExtras { keys: &keys, ..RestoreExtras::default() };
    let restored = restore_backups(&chain, &path("restored"), extras, &mut ignore()).expect("it can be restored");
    let expected = store.stats().expect("it can be counted");
    assert_eq!(restored.content_hash, expected.content_hash);
    assert_eq!((restored.objects, restored.keys, restored.sequence), (3, 1, 28));
    for (name, text) in [("f1/a", "the first"), ("f1/b", "the second"), ("f0/x", "sorts before the others")] {
        assert_eq!(fs::read_to_string(path("restored/objects/notes").join(name)).expect("an object"), text);
    }
    assert!(!path("restored/objects/notes/f1/c#1").exists(), "an incomplete file is not an object");
    assert_eq!(fs::read(path("restored/issuer/keys.json")).expect("keys"), b"secret");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |name: &str| fs::metadata(path(name)).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode("restored/issuer"), mode("restored/issuer/keys.json")), (0o700, 0o600));
    }
    let copy = EmbeddedStore::open(path("restored"), quiet()).expect("the copy opens");
    assert_eq!(copy.verify(&mut ignore()).expect("it can be verified"), []);
    assert_eq!(all(&copy).await, all(&store).await);
    let indexed = copy.query(Query::index(TABLE, "GSI1", "all")).await.expect("a query").items;
    assert_eq!(indexed.len(), 24, "older items are in the new index");
    let tables = |store: &EmbeddedStore| store.stats().expect("it can be counted").tables;
    assert_eq!(tables(&copy), expected.tables, "changes included");
}

#[tokio::test]
async fn backups_that_do_not_continue_each_other_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let objects = path("objects");
    let store = filled(&path("store"), 3).await;
    back_up(&store, &objects, None, &path("full")).expect("a full one");
    back_up(&store, &objects, None, &path("full2")).expect("another full one");
    put(&store, 3..5).await;
    back_up(&store, &objects, Some(&check(&path("full"))), &path("inc1")).expect("an incremental one");
    put(&store, 5..7).await;
    back_up(&store, &objects, Some(&check(&path("inc1"))), &path("inc2")).expect("an incremental one");
    let wrong = [
        (&["inc1"][..], "which must come first"),
        (&["full", "inc2"], "inc2 does not continue"),
        (&["full2", "inc1"], "inc1 does not continue"),
        (&["full", "full2"], "full2 is a full backup; only the first file may be one"),
        (&["full", "inc2", "inc1"], "inc2 does not continue"),
    ];
    for (wrong, why) in wrong {
        let chain: Vec<_> = wrong.iter().map(|name| check(&path(name))).collect();
        let error = verify_chain(&chain).expect_err("they do not follow");
        assert!(
            is_backup_damaged(&error) && error.to_string().contains("do not follow from each other"),
            "{wrong:?}: {error}"
        );
        assert!(error.to_string().contains(why), "{wrong:?}: {error}");
        restore_backups(&chain, &path("restored"), RestoreExtras::default(), &mut ignore())
            .expect_err("they are not restored");
        assert!(!path("restored").exists(), "{wrong:?}");
    }
    let chain = ["full", "inc1", "inc2"].map(|name| check(&path(name)));
    restore_backups(&chain, &path("restored"), RestoreExtras::default(), &mut ignore()).expect("these do");
}

#[tokio::test]
async fn an_incremental_backup_with_missing_changes_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let objects = path("objects");
    let (now, store) = with_manual_clock(&path("store"));
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..3).await;
    back_up(&store, &objects, None, &path("full")).expect("a full one");
    let refused = |store: &EmbeddedStore, why: &str| {
        let error = back_up(store, &objects, Some(&check(&path("full"))), &path("inc")).expect_err("it is refused");
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains("make a full backup"), "{error}");
        assert!(!path("inc").exists());
    };
    // Another directory has its own changes, even if it was restored from this backup.
    restore_backup(&path("full"), &path("restored"), &mut ignore()).expect("it can be restored");
    refused(&EmbeddedStore::open(path("restored"), quiet()).expect("it opens"), "of another directory");
    put(&store, 3..5).await;
    now.store(500_000, Ordering::SeqCst);
    store.sweep().await.expect("a sweep");
    refused(&store, "older than the retention");
}

#[tokio::test]
async fn a_stream_that_ends_early_gives_an_error_and_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = filled(&directory.path().join("store"), 10).await;
    let mut streamed = Vec::new();
    store.export(None, &mut streamed, &mut ignore()).expect("it can be streamed");
    let file = directory.path().join("backup.nagaya");
    let receive = |mut stream: &[u8]| {
        let content = BackupContent {
            source: BackupSource::Stream(&mut stream),
            previous: None,
            objects: None,
            sealed_keys: None,
            id: new_backup_id().expect("an id"),
            encryption_key: None,
            keyring: None,
        };
        write_backup(&file, content, &mut ignore())
    };
    for at in 0..streamed.len() {
        receive(&streamed[..at]).expect_err("the stream is cut");
        assert!(!file.exists(), "cut at {at}");
    }
    let received = receive(&streamed).expect("the whole stream");
    assert_eq!(received.content_hash, Some(store.stats().expect("it can be counted").content_hash));
    assert_eq!(check(&file).backup, received);
}

#[tokio::test]
async fn a_backup_of_format_1_can_still_be_restored() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/backups/1.nagaya");
    let checked = check(&file);
    assert_eq!((checked.backup.items, checked.backup.id.as_deref()), (11, None));
    let directory = tempfile::tempdir().expect("a directory");
    let target = directory.path().join("restored");
    let restored = restore_backup(&file, &target, &mut ignore()).expect("it can be restored");
    assert_eq!(Some(restored.content_hash), checked.backup.content_hash);
    let copy = EmbeddedStore::open(&target, quiet()).expect("the copy opens");
    assert_eq!(all(&copy).await.len(), 11);
    assert_eq!(copy.verify(&mut ignore()).expect("it can be verified"), []);
    let past = copy.restore_at(0, &directory.path().join("past"), RestoreExtras::default(), &mut ignore());
    assert!(past.expect_err("it has no changes").to_string().contains("cannot be restored"));
    // Every position of the old directory gives a gap: its subscriber starts again and misses nothing.
    let other = filled(&directory.path().join("other"), 5).await;
    let position = StartPosition::After(other.changes(TABLE, StartPosition::Latest, 1).await.expect("changes").next);
    assert_eq!(copy.changes(TABLE, position, 10).await.expect_err("it is lost").code(), "gap");
    let again: PathBuf = directory.path().join("again.nagaya");
    copy.backup(&again, &mut ignore()).expect("it can be backed up again");
    // A longer file of that format is refused as well.
    let whole = fs::read(&file).expect("a file");
    let mut longer = fs::File::create(directory.path().join("longer")).expect("a file");
    longer.write_all(&[whole.as_slice(), &[0]].concat()).expect("it can be written");
    verify_backup(&directory.path().join("longer"), &mut ignore()).expect_err("something follows");
}

/// A directory that was rolled back has used the same sequence numbers for other changes.
#[tokio::test]
async fn an_incremental_backup_of_a_directory_that_was_rolled_back_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let objects = path("objects");
    let store = EmbeddedStore::open(path("store"), quiet()).expect("the directory opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..10).await;
    drop(store);
    copy_tree(&path("store"), &path("earlier"));
    let store = EmbeddedStore::open(path("store"), quiet()).expect("the directory opens");
    put(&store, 10..20).await;
    back_up(&store, &objects, None, &path("full")).expect("a full one");
    drop(store);

    let store = EmbeddedStore::open(path("earlier"), quiet()).expect("the copy opens");
    put(&store, 50..80).await;
    let error = back_up(&store, &objects, Some(&check(&path("full"))), &path("inc"))
        .expect_err("it does not continue the backup");
    assert!(error.to_string().contains("rolled back"), "{error}");
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a folder can be read").flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_tree(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a file can be copied");
        }
    }
}
