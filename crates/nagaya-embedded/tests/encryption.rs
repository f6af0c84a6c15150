//! Encryption at rest: the values on disk, the key, and its change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use nagaya_embedded::{
    BackupContent, BackupSource, EmbeddedStore, EncryptionKey, Keyring, Options, RestoreExtras, is_backup_damaged,
    is_key_refused, new_backup_id, restore_backups, verify_backup, verify_encrypted_backup, verify_objects,
    write_backup,
};
use nagaya_store::{
    Error, Item, Key, KeySchema, Query, StartPosition, Store as _, TableSpec, Update, Write, WriteSet,
    files::FileCipher as _,
};

const TABLE: &str = "notes";
/// A text that must not be on the disk.
const SECRET: &str = "the-secret-of-the-tenant";

fn key(byte: u8) -> EncryptionKey {
    EncryptionKey::parse(&[byte; 32]).expect("32 bytes")
}

fn open(directory: &Path, key: Option<EncryptionKey>) -> Result<EmbeddedStore, Error> {
    EmbeddedStore::open(directory, Options { sweep_interval: None, encryption_key: key, ..Options::default() })
}

fn refusal(directory: &Path, key: Option<EncryptionKey>) -> String {
    open(directory, key).expect_err("it is refused").to_string()
}

fn note(n: u32) -> Item {
    let item = Item::new().with("PK", "P").with("SK", format!("{n:05}")).with("text", format!("{SECRET} {n}"));
    item.with("GSI1PK", "all").with("GSI1SK", format!("{n:05}"))
}

async fn fill(store: &EmbeddedStore, notes: std::ops::Range<u32>) {
    let spec = TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"));
    store.ensure_tables(&[spec]).await.expect("a table");
    for first in notes.clone().step_by(100) {
        let set = (first..notes.end.min(first + 100)).map(|n| Write::put(TABLE, note(n)));
        store.write(set.collect::<WriteSet>()).await.expect("puts");
    }
}

async fn check(store: &EmbeddedStore, count: usize) {
    assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), []);
    let indexed = store.query(Query::index(TABLE, "GSI1", "all")).await.expect("a query").items;
    assert_eq!(indexed.len(), count);
    assert_eq!(store.get(TABLE, &Key::new("P", "00001")).await.expect("a get"), Some(note(1)));
    let changes = store.changes(TABLE, StartPosition::Oldest, 10_000).await.expect("changes").records;
    assert!(changes.len() >= count);
}

async fn wait(store: &EmbeddedStore) {
    while store.encryption().expect("a state").is_some_and(|state| state.progress.is_some()) {
        tokio::task::yield_now().await;
    }
}

/// The files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else {
            let bytes = fs::read(&path).expect("a file");
            // A journal ends with preallocated zeros.
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if bytes[..end].windows(text.len()).any(|part| part == text.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}

#[tokio::test]
async fn no_value_of_an_encrypted_store_is_readable_on_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), Some(key(1))).expect("a new store");
    fill(&store, 0..50).await;
    assert_eq!(files_with(directory.path(), SECRET), [] as [PathBuf; 0], "in the journal");
    store.compact().expect("it can be compacted");
    store
        .write(Write::update(TABLE, Key::new("P", "00007"), Update::new().set("n", 1)).into())
        .await
        .expect("an update");
    check(&store, 50).await;
    let stats = store.stats().expect("it can be counted");
    assert_eq!(stats.format, 3);
    assert_eq!(stats.encryption.map(|state| (state.key_id, state.progress)), Some((key(1).id(), None)));
    drop(store);
    assert_eq!(files_with(directory.path(), SECRET), [] as [PathBuf; 0], "in sorted files");
    check(&open(directory.path(), Some(key(1))).expect("it opens"), 50).await;
}

#[tokio::test]
async fn a_store_opens_only_with_its_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let (encrypted, plain) = (directory.path().join("encrypted"), directory.path().join("plain"));
    drop(open(&encrypted, Some(key(1))).expect("a new store"));
    drop(open(&plain, None).expect("a new store"));

    let refused = |directory: &Path, key: Option<EncryptionKey>| {
        let error = open(directory, key).expect_err("it is refused");
        assert!(is_key_refused(&error), "{error}");
        let named = format!("{} does not open: ", directory.display());
        error.to_string().strip_prefix(&named).map(str::to_owned).unwrap_or_else(|| panic!("{error}"))
    };
    let missing = refused(&encrypted, None);
    assert!(missing.contains(&key(1).id()) && missing.contains("--encryption-key-file"), "{missing}");
    let other = refused(&encrypted, Some(key(2)));
    assert!(other.contains(&key(1).id()) && other.contains(&key(2).id()), "{other}");
    let surplus = refused(&plain, Some(key(1)));
    assert!(surplus.contains("nagaya store encrypt"), "{surplus}");
    let opened = open(&plain, None).expect("it opens");
    let in_use = open(&plain, None).expect_err("it is open");
    assert!(!is_key_refused(&in_use), "{in_use}");
    drop(opened);
    drop(open(&encrypted, Some(key(1))).expect("it opens"));
    drop(open(&plain, None).expect("it opens"));
}

#[tokio::test]
async fn a_filled_store_is_encrypted_while_it_is_written_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), None).expect("a new store");
    fill(&store, 0..1_200).await;
    let hash = store.stats().expect("it can be counted").content_hash;
    assert!(!files_with(directory.path(), SECRET).is_empty());
    let object = directory.path().join("objects/notes/a");
    fs::create_dir_all(object.parent().expect("a folder")).expect("a folder");
    fs::write(&object, SECRET).expect("an object");

    store.change_key(key(1)).await.expect("it is encrypted");
    store.write(Write::put(TABLE, note(1_200)).into()).await.expect("a put meanwhile");
    store.write(Write::delete(TABLE, Key::new("P", "01200")).into()).await.expect("a delete meanwhile");
    wait(&store).await;
    assert_eq!(store.stats().expect("it can be counted").content_hash, hash);
    store.compact().expect("it can be compacted");
    let keyring = store.keyring();
    drop(store);
    // The next start removes what the journals still contain.
    let store = open(directory.path(), Some(key(1))).expect("it opens");
    check(&store, 1_200).await;
    assert_eq!(files_with(directory.path(), SECRET), [] as [PathBuf; 0]);
    let opened = keyring.open("notes/a", fs::read(&object).expect("an object")).expect("it opens");
    assert_eq!(opened, SECRET.as_bytes());
    drop(store);
    refusal(directory.path(), None);
}

#[tokio::test]
async fn another_key_takes_effect_at_once_and_the_rest_follows() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), Some(key(1))).expect("a new store");
    fill(&store, 0..1_200).await;
    let same = store.change_key(key(1)).await.expect_err("it is the same").to_string();
    assert!(same.contains(&key(1).id()), "{same}");
    store.change_key(key(2)).await.expect("another key");
    // Not waited for: the next process continues.
    drop(store);
    let refused = refusal(directory.path(), Some(key(1)));
    assert!(refused.contains(&key(2).id()), "{refused}");
    let store = open(directory.path(), Some(key(2))).expect("it opens");
    check(&store, 1_200).await;
    wait(&store).await;
    check(&store, 1_200).await;
    let state = store.encryption().expect("a state").expect("it is encrypted");
    assert_eq!((state.key_id, state.progress), (key(2).id(), None));
    drop(store);
    check(&open(directory.path(), Some(key(2))).expect("it opens"), 1_200).await;
}

#[tokio::test]
async fn a_backup_is_encrypted_and_needs_its_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let store = open(&path("store"), Some(key(1))).expect("a new store");
    fill(&store, 0..100).await;
    let keyring = store.keyring();
    let name = blake3::hash(SECRET.as_bytes()).to_hex().to_string();
    let seal = |folder: &str| {
        let sealed = keyring.seal(&format!("notes/{folder}/{name}"), SECRET.as_bytes().to_vec()).expect("it is sealed");
        let file = path("store/objects/notes").join(folder).join(&name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, sealed).expect("an object");
    };
    seal("f1");
    assert_eq!(verify_objects(&path("store/objects"), &keyring, &mut |_| {}).expect("they are read"), []);
    let objects = path("store/objects");
    let write = |file: &str, previous: Option<&_>| {
        let (source, id) = (BackupSource::Store(&store), new_backup_id().expect("an id"));
        let objects = Some(objects.as_path());
        let content =
            BackupContent { source, previous, objects, sealed_keys: None, id, encryption_key: None, keyring: None };
        write_backup(&path(file), content, &mut |_| {}).expect("a backup")
    };
    let full = write("full", None);
    assert_eq!((full.key_id.clone(), full.objects), (Some(key(1).id()), 1));
    for text in [SECRET, TABLE, &name] {
        let bytes = fs::read(path("full")).expect("a file");
        assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "{text}");
    }
    let missing = verify_backup(&path("full"), &mut |_| {}).expect_err("no key").to_string();
    assert!(missing.contains(&key(1).id()), "{missing}");
    verify_encrypted_backup(&path("full"), Some(&key(2)), &mut |_| {}).expect_err("another key");
    let verified = |file: &str| verify_encrypted_backup(&path(file), Some(&key(1)), &mut |_| {}).expect("it is intact");
    assert_eq!(verified("full").backup, full);

    // An incremental backup, restored with the full one; the copy is encrypted too.
    store.write(Write::put(TABLE, note(100)).into()).await.expect("a put");
    seal("f2");
    let more = write("more", Some(&verified("full")));
    assert_eq!((more.changes, more.objects), (1, 1));
    let chain = [verified("full"), verified("more")];
    let restored =
        restore_backups(&chain, &path("copy"), RestoreExtras::default(), &mut |_| {}).expect("it is restored");
    assert_eq!(restored.content_hash, store.stats().expect("it can be counted").content_hash);
    assert_eq!(files_with(&path("copy"), SECRET), [] as [PathBuf; 0]);
    let copy = open(&path("copy"), Some(key(1))).expect("it opens");
    check(&copy, 101).await;
    assert_eq!(verify_objects(&path("copy/objects"), &copy.keyring(), &mut |_| {}).expect("they are read"), []);

    // The state of a past time is encrypted with the key of the store.
    let extras = RestoreExtras { objects: Some(&objects), ..RestoreExtras::default() };
    store.restore_at(now(), &path("past"), extras, &mut |_| {}).expect("it is restored");
    assert_eq!(files_with(&path("past"), SECRET), [] as [PathBuf; 0]);
    let past = open(&path("past"), Some(key(1))).expect("it opens");
    assert_eq!(verify_objects(&path("past/objects"), &past.keyring(), &mut |_| {}).expect("they are read"), []);
}

fn now() -> i64 {
    nagaya_store::Clock::system().millis()
}

#[tokio::test]
async fn every_changed_byte_of_an_encrypted_backup_is_noticed() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(&directory.path().join("store"), Some(key(1))).expect("a new store");
    fill(&store, 0..3).await;
    let file = directory.path().join("backup");
    store.backup(&file, &mut |_| {}).expect("a backup");
    let bytes = fs::read(&file).expect("a file");
    let damaged = directory.path().join("damaged");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&damaged, changed).expect("a file");
        let error = verify_encrypted_backup(&damaged, Some(&key(1)), &mut |_| {}).expect_err("it is damaged");
        // Damage of the head looks like another key.
        assert!(at < 88 || is_backup_damaged(&error), "byte {at}: {error}");
    }
    fs::write(&damaged, &bytes[..bytes.len() - 1]).expect("a file");
    verify_encrypted_backup(&damaged, Some(&key(1)), &mut |_| {}).expect_err("it is cut");
}

#[tokio::test]
async fn a_file_opens_only_under_its_name_and_with_the_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), Some(key(1))).expect("a new store");
    fill(&store, 0..2).await;
    let keyring = store.keyring();
    let sealed = keyring.seal("notes/a", b"text".to_vec()).expect("it is sealed");
    keyring.open("notes/b", sealed.clone()).expect_err("it is another file");
    // Another process decrypts with the record and the key.
    let record = store.encryption_record().expect("a record").expect("it is encrypted");
    let other = Keyring::from_record(&record, &key(1)).expect("the key is right");
    assert_eq!(other.open("notes/a", sealed).expect("it opens"), b"text");
    Keyring::from_record(&record, &key(2)).expect_err("another key");
    // A store that is not encrypted leaves files as they are.
    let plain: Arc<Keyring> = Arc::default();
    assert_eq!(plain.seal("notes/a", b"text".to_vec()).expect("as it is"), b"text");
}

#[tokio::test]
async fn a_backup_names_encrypted_objects_that_are_damaged_and_needs_the_key_of_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let store = open(&path("store"), Some(key(1))).expect("a new store");
    fill(&store, 0..1).await;
    let objects = path("store/objects");
    let put = |name: &str, changed: Option<usize>| {
        let mut sealed = store.keyring().seal(name, SECRET.as_bytes().to_vec()).expect("it is sealed");
        if let Some(at) = changed {
            sealed[at] ^= 1;
        }
        fs::create_dir_all(objects.join(name).parent().expect("a folder")).expect("a folder");
        fs::write(objects.join(name), sealed).expect("an object");
    };
    let named = format!("notes/b/{}", blake3::hash(SECRET.as_bytes()).to_hex());
    put("notes/a/free", Some(40));
    put(&named, Some(40));
    put("notes/c/free", None);
    let findings = verify_objects(&objects, &store.keyring(), &mut |_| {}).expect("they are read");
    assert_eq!(findings.len(), 2, "{findings:?}");

    let write = |file: &str, previous: Option<&_>, keyring: Option<&Keyring>| {
        let (source, id) = (BackupSource::Store(&store), new_backup_id().expect("an id"));
        let objects = Some(objects.as_path());
        let content =
            BackupContent { source, previous, objects, sealed_keys: None, id, encryption_key: Some(&key(1)), keyring };
        write_backup(&path(file), content, &mut |_| {})
    };
    let full = write("full", None, None).expect("a backup");
    assert_eq!((full.objects, full.damaged_objects), (3, vec!["notes/a/free".to_owned(), named]));

    // What an earlier backup contains is not read again.
    put("notes/c/free", Some(40));
    let verified = verify_encrypted_backup(&path("full"), Some(&key(1)), &mut |_| {}).expect("it is intact");
    let more = write("more", Some(&verified), None).expect("a backup");
    assert!(!more.damaged_objects.contains(&"notes/c/free".to_owned()), "{more:?}");

    // The store gets another key while a process has the former one.
    let record = store.encryption_record().expect("a record").expect("it is encrypted");
    let former = Keyring::from_record(&record, &key(1)).expect("the key is right");
    store.change_key(key(2)).await.expect("another key");
    put("notes/d/free", None);
    let refused = write("later", None, Some(&former)).expect_err("its key is not known").to_string();
    assert!(refused.contains("the key of the store was changed meanwhile"), "{refused}");
}
