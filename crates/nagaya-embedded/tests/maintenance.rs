//! Maintenance of a directory: statistics, verification, backup, compaction, and restore to a past time.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_embedded::{EmbeddedStore, Options, RestoreExtras, restore_backup};
use nagaya_store::{Clock, Error, Item, Key, KeySchema, Query, Scan, Store as _, TableSpec, Update, Write};

const TABLE: &str = "notes";

fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
        .with_ttl("expiresAt")
}

fn note(n: i64) -> Item {
    let item = Item::new().with("PK", format!("P{}", n % 3)).with("SK", format!("N{n:04}")).with("n", n);
    let item = item.with("GSI1PK", "all").with("GSI1SK", format!("{n:04}"));
    if n % 5 == 0 { item.with("expiresAt", 4_000_000_000_i64) } else { item }
}

fn key(n: i64) -> Key {
    Key::new(format!("P{}", n % 3), format!("N{n:04}"))
}

/// A clock that the test sets.
struct ManualClock {
    now: Arc<AtomicI64>,
}

impl ManualClock {
    fn open(&self, directory: &Path) -> EmbeddedStore {
        let now = Arc::clone(&self.now);
        let clock = Clock::new(move || now.load(Ordering::SeqCst));
        let options =
            Options { clock, sweep_interval: None, retention: Duration::from_secs(100), ..Options::default() };
        EmbeddedStore::open(directory, options).expect("the directory opens")
    }

    fn set(&self, millis: i64) {
        self.now.store(millis, Ordering::SeqCst);
    }
}

async fn put(store: &EmbeddedStore, numbers: impl IntoIterator<Item = i64>) {
    for n in numbers {
        store.write(Write::put(TABLE, note(n)).into()).await.expect("a put");
    }
}

async fn all(store: &EmbeddedStore) -> Vec<Item> {
    store.scan(Scan::table(TABLE)).await.expect("a scan").items
}

fn ignore() -> impl FnMut(u64) {
    |_| {}
}

#[tokio::test]
async fn a_backup_made_during_writes_restores_the_same_content() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(directory.path().join("store"), Options::default()).expect("the directory opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..200).await;
    let before = all(&store).await;
    let expected = store.stats().expect("it can be counted").content_hash;

    let file = directory.path().join("backup.nagaya");
    let made = store.backup(&file, &mut ignore()).expect("a backup");
    put(&store, 200..300).await;
    assert_eq!((made.items, made.content_hash.as_deref()), (200, Some(expected.as_str())));

    let restored = directory.path().join("restored");
    let back = restore_backup(&file, &restored, &mut ignore()).expect("it can be restored");
    assert_eq!((back.items, &back.content_hash), (200, &expected));
    let copy = EmbeddedStore::open(&restored, Options::default()).expect("the copy opens");
    assert_eq!(all(&copy).await, before);
    assert_eq!(copy.stats().expect("it can be counted").content_hash, expected);
    assert_eq!(copy.verify(&mut ignore()).expect("it can be verified"), []);
    let indexed = copy.query(Query::index(TABLE, "GSI1", "all")).await.expect("a query");
    assert_eq!(indexed.items.len(), 200);
    // The copy is a normal store: it accepts writes.
    put(&copy, 500..501).await;
}

#[tokio::test]
async fn a_damaged_backup_restores_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(directory.path().join("store"), Options::default()).expect("the directory opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..50).await;
    let file = directory.path().join("backup.nagaya");
    store.backup(&file, &mut ignore()).expect("a backup");
    let whole = fs::read(&file).expect("the backup can be read");
    let target = directory.path().join("restored");
    let mut damages: Vec<Vec<u8>> = vec![Vec::new(), b"something else".to_vec(), whole[..whole.len() / 2].to_vec()];
    for at in [20, whole.len() / 3, whole.len() / 2, whole.len() - 10] {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x40;
        damages.push(flipped);
    }
    for damage in damages {
        fs::write(&file, &damage).expect("the file can be written");
        let error = restore_backup(&file, &target, &mut ignore()).expect_err("the backup is damaged");
        assert!(error.to_string().contains("nothing was restored"), "{error}");
        assert!(!target.exists(), "a failed restore leaves nothing behind");
    }
    fs::write(&file, &whole).expect("the file can be written");
    restore_backup(&file, &target, &mut ignore()).expect("the intact one can be restored");
    let error = restore_backup(&file, &target, &mut ignore()).expect_err("the directory exists");
    assert!(error.to_string().contains("already exists"), "{error}");
}

/// Proves the engine's part of A7.
#[tokio::test]
async fn a_store_can_be_restored_to_any_time_within_its_retention() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = ManualClock { now: Arc::new(AtomicI64::new(1_000)) };
    let store = clock.open(&directory.path().join("store"));
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    // Every second something is created, changed or deleted, and the state is recorded.
    let mut states: Vec<(i64, Vec<Item>)> = Vec::new();
    for second in 1..40 {
        clock.set(second * 1_000);
        put(&store, [second]).await;
        if second % 3 == 0 {
            let update = Update::new().add("n", 1_000).remove("GSI1PK");
            store.write(Write::update(TABLE, key(second - 1), update).into()).await.expect("an update");
        }
        if second % 4 == 0 {
            store.write(Write::delete(TABLE, key(second - 2)).into()).await.expect("a delete");
        }
        states.push((second * 1_000, all(&store).await));
    }
    for (at, (time, expected)) in states.iter().enumerate().step_by(6) {
        let target = directory.path().join(format!("at-{at}"));
        let restored =
            store.restore_at(*time, &target, RestoreExtras::default(), &mut ignore()).expect("it can be restored");
        let copy = clock.open(&target);
        assert_eq!(all(&copy).await, *expected, "at {time}");
        assert_eq!(restored.items, expected.len() as u64);
        assert_eq!(copy.stats().expect("it can be counted").content_hash, restored.content_hash);
        assert_eq!(copy.verify(&mut ignore()).expect("it can be verified"), []);
    }
    // A time before the removed changes is refused.
    clock.set(120_000);
    store.sweep().await.expect("a sweep");
    let error = store
        .restore_at(5_000, &directory.path().join("too-old"), RestoreExtras::default(), &mut ignore())
        .expect_err("it is too old");
    assert!(error.to_string().contains("cannot be restored"), "{error}");
    assert!(!directory.path().join("too-old").exists());
    let target = directory.path().join("still-kept");
    store.restore_at(30_000, &target, RestoreExtras::default(), &mut ignore()).expect("its changes are retained");
    assert_eq!(all(&clock.open(&target)).await, states[29].1);
}

/// Changes the stored bytes directly, in a commit with the next number and a valid tag.
fn tamper(directory: &Path, keyspace: &str, change: impl FnOnce(&fjall::Keyspace, &mut fjall::OwnedWriteBatch)) {
    let database = fjall::Database::builder(directory.join("data")).open().expect("the bytes open");
    let open =
        |keyspace| database.keyspace(keyspace, fjall::KeyspaceCreateOptions::default).expect("the keyspace exists");
    let (keyspace, changes) = (open(keyspace), open("changes"));
    let last = changes.get([0]).expect("a read").expect("commits have numbers");
    let next = (u64::from_be_bytes(last[..8].try_into().expect("a number")) + 1).to_be_bytes();
    let key = open("meta").get("commit-key").expect("a read").expect("commits have tags");
    let content = [next, database.seqno().to_be_bytes()].concat();
    let tag = blake3::keyed_hash((*key).try_into().expect("a key"), &content);
    let mut batch = database.batch().durability(Some(fjall::PersistMode::SyncAll));
    batch.insert(&changes, [0], [&content, &tag.as_bytes()[..16]].concat());
    change(&keyspace, &mut batch);
    batch.commit().expect("the bytes are synced");
}

type Damage = fn(&fjall::Keyspace, &mut fjall::OwnedWriteBatch);

#[tokio::test]
async fn verify_finds_what_does_not_match() {
    let cases: [(&str, Damage, &str); 5] = [
        ("index", remove_first, "is missing from `GSI1`"),
        ("items", remove_first, "without an item"),
        ("expiry", remove_first, "the expiry of"),
        ("changes", remove_last, "does not end at the stored item"),
        ("expiry", |keyspace, batch| batch.insert(keyspace, [7_u8; 20], []), "an expiry belongs to no item"),
    ];
    for (keyspace, damage, expected) in cases {
        let directory = tempfile::tempdir().expect("a directory");
        {
            let store = EmbeddedStore::open(directory.path(), Options::default()).expect("the directory opens");
            store.ensure_tables(&[spec()]).await.expect("the table is made");
            put(&store, 0..20).await;
            // The last note is changed twice, so that its first change alone does not match it.
            store.write(Write::update(TABLE, key(10), Update::new().add("n", 1)).into()).await.expect("an update");
            assert_eq!(store.verify(&mut ignore()).expect("it can be verified"), []);
        }
        tamper(directory.path(), keyspace, damage);
        let store = EmbeddedStore::open(directory.path(), Options { sweep_interval: None, ..Options::default() })
            .expect("it opens");
        let findings = store.verify(&mut ignore()).expect("it can be verified");
        assert!(findings.iter().any(|finding| finding.problem.contains(expected)), "{keyspace}: {findings:?}");
    }
}

fn remove_first(keyspace: &fjall::Keyspace, batch: &mut fjall::OwnedWriteBatch) {
    batch.remove(keyspace, keyspace.first_key_value().expect("there is one").key().expect("it can be read"));
}

fn remove_last(keyspace: &fjall::Keyspace, batch: &mut fjall::OwnedWriteBatch) {
    batch.remove(keyspace, keyspace.last_key_value().expect("there is one").key().expect("it can be read"));
}

#[tokio::test]
async fn an_unknown_format_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(EmbeddedStore::open(directory.path(), Options::default()).expect("the directory opens"));
    tamper(directory.path(), "meta", |keyspace, batch| batch.insert(keyspace, "format", [99_u8]));
    let refused = |error: Error| {
        assert!(error.to_string().contains("format 99"), "{error}");
        assert!(error.to_string().contains("use the version that wrote it"), "{error}");
    };
    refused(EmbeddedStore::open(directory.path(), Options::default()).expect_err("the format is unknown"));
    refused(EmbeddedStore::open(directory.path(), Options::default()).expect_err("it is still unknown"));
}

#[tokio::test]
async fn compacting_keeps_everything() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(directory.path(), Options::default()).expect("the directory opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    put(&store, 0..100).await;
    put(&store, 0..100).await;
    let before = store.stats().expect("it can be counted");
    store.compact().expect("it can be compacted");
    let after = store.stats().expect("it can be counted");
    assert_eq!((&before.tables, &before.content_hash), (&after.tables, &after.content_hash));
    assert_eq!(store.verify(&mut ignore()).expect("it can be verified"), []);
}
