//! Torn journals open with all acknowledged commits. Damaged journals are refused, or the damage is harmless. Nothing
//! is ever lost without an error.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nagaya_embedded::{EmbeddedStore, Options, discard_damaged_commits, inspect_damage};
use nagaya_store::{Item, Key, KeySchema, StartPosition, Store as _, TableSpec, Write};

const TABLE: &str = "blobs";
const PAGE: usize = 4096;

fn options() -> Options {
    Options { sweep_interval: None, ..Options::default() }
}

/// Random letters, which do not compress.
fn noise(seed: usize, length: usize) -> String {
    let mut state = seed as u64 + 1;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 40) as u8 % 26)
    };
    (0..length).map(|_| letter()).collect()
}

fn blob(n: usize) -> Item {
    Item::new().with("PK", "P").with("SK", format!("{n:03}")).with("noise", noise(n, 20_000))
}

async fn filled(directory: &Path, blobs: usize) {
    let store = EmbeddedStore::open(directory, options()).expect("the directory opens");
    store.ensure_tables(&[TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))]).await.expect("the table is made");
    for n in 0..blobs {
        store.write(Write::put(TABLE, blob(n)).into()).await.expect("a put");
    }
}

/// The number of blobs; only the last ones may be missing.
async fn found(store: &EmbeddedStore, most: usize) -> usize {
    let mut count = 0;
    for n in 0..most {
        if let Some(item) = store.get(TABLE, &Key::new("P", format!("{n:03}"))).await.expect("a read") {
            assert_eq!(item, blob(n), "an item has another content");
            assert_eq!(count, n, "an item is missing in the middle");
            count += 1;
        }
    }
    count
}

/// The journals, the oldest first.
fn journals(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory.join("data"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    found.sort();
    found
}

fn journal(directory: &Path) -> PathBuf {
    journals(directory).pop().expect("a journal")
}

/// The bytes of the journal without the preallocated zeros at its end.
fn written(directory: &Path) -> Vec<u8> {
    let mut bytes = fs::read(journal(directory)).expect("the journal can be read");
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    bytes
}

/// A power cut may keep any of the pages that were not synced yet. The file `acknowledged` is from before the last
/// commit, as if the process had been killed before the sync.
#[tokio::test]
async fn a_torn_end_is_cut_off_and_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 3).await;
    let (before, acknowledged) =
        (written(directory.path()), fs::read(directory.path().join("acknowledged")).expect("a file"));
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    store.write(Write::put(TABLE, blob(3)).into()).await.expect("a put");
    drop(store);
    let whole = written(directory.path());
    let pages = (whole.len() - before.len()).div_ceil(PAGE);
    assert!(pages >= 5, "the last commit has several pages");
    // Every single page missing, and some combinations.
    let lost = (0..pages).map(|page| vec![page]).chain([(0..pages).collect(), (1..pages).collect(), vec![0, 2, 4]]);
    for lost in lost {
        let mut torn = whole.clone();
        for page in &lost {
            let start = before.len() + page * PAGE;
            let end = (start + PAGE).min(torn.len());
            torn[start..end].fill(0);
        }
        fs::write(journal(directory.path()), &torn).expect("the journal can be written");
        fs::write(directory.path().join("acknowledged"), &acknowledged).expect("the file can be written");
        let store =
            EmbeddedStore::open(directory.path(), options()).unwrap_or_else(|error| panic!("{lost:?}: {error}"));
        assert_eq!(found(&store, 4).await, 3, "{lost:?}");
        assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), [], "{lost:?}");
        store.write(Write::put(TABLE, blob(3)).into()).await.expect("it accepts writes");
        drop(store);
        assert_eq!(found(&EmbeddedStore::open(directory.path(), options()).expect("it opens"), 4).await, 4, "{lost:?}");
    }
    assert!(fs::read_dir(directory.path().join("torn")).expect("the bytes that were cut off are kept").count() > 0);
}

/// A string whose bytes are a complete batch for fjall.
fn batch_as_text() -> String {
    for keyspace in 0_u64.. {
        let clear = [&[4][..], &(0x4141_4141_0000_0000_u64 | keyspace).to_le_bytes()].concat();
        let sum = xxhash_rust::xxh3::xxh3_64(&clear).to_le_bytes();
        let batch = [&[1, 1, 0, 0, 0][..], b"SEQNUMBR", &clear, &[3], &sum, b"FJL\x03"].concat();
        // Most checksums are not UTF-8.
        if let Ok(text) = String::from_utf8(batch) {
            return text;
        }
    }
    unreachable!("some checksum is UTF-8")
}

/// The journal contains the bytes of tenants as they are. They must not make a torn end look like damage.
#[tokio::test]
async fn bytes_of_a_tenant_cannot_pass_for_a_commit() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 2).await;
    let (before, acknowledged) =
        (written(directory.path()), fs::read(directory.path().join("acknowledged")).expect("a file"));
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    // Short enough not to be compressed.
    let text = batch_as_text().repeat(20);
    let item = |n: usize| Item::new().with("PK", "Q").with("SK", format!("{n}")).with("text", text.as_str());
    store.write((0..20).map(|n| Write::put(TABLE, item(n))).collect()).await.expect("a set");
    drop(store);
    let whole = written(directory.path());
    assert!(whole.windows(text.len()).any(|bytes| bytes == text.as_bytes()), "the journal contains the text as it is");
    let mut torn = whole.clone();
    torn.truncate(before.len() + (whole.len() - before.len()) * 2 / 3);
    fs::write(journal(directory.path()), torn).expect("the journal can be written");
    fs::write(directory.path().join("acknowledged"), acknowledged).expect("the file can be written");
    let store = EmbeddedStore::open(directory.path(), options()).expect("a torn end is cut off");
    assert_eq!(found(&store, 2).await, 2);
    assert_eq!(store.get(TABLE, &Key::new("Q", "0")).await.expect("a read"), None);
}

#[tokio::test]
async fn damage_is_refused_or_harmless_wherever_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 6).await;
    let (path, whole) = (journal(directory.path()), written(directory.path()));
    let (mut refused, mut harmless) = (0, 0);
    // All over the journal, and in the small heads and ends of batches.
    let spread = (0..200).map(|n| n * whole.len() / 200);
    let starts = (0..whole.len()).filter(|at| whole[*at..].starts_with(b"FJL\x03")).flat_map(|at| at..at + 40);
    for at in spread.chain(starts).filter(|at| *at < whole.len()) {
        for bit in [0x01, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= bit;
            fs::write(&path, &damaged).expect("the journal can be written");
            match EmbeddedStore::open(directory.path(), options()) {
                Err(error) => {
                    assert!(error.to_string().contains("damaged at byte"), "{at}: {error}");
                    assert_eq!(fs::read(&path).expect("the journal can be read"), damaged, "{at}: it was changed");
                    refused += 1;
                }
                Ok(store) => {
                    assert_eq!(found(&store, 6).await, 6, "{at}: acknowledged writes are lost without an error");
                    harmless += 1;
                }
            }
        }
    }
    assert!(refused > 300 && harmless < refused / 5, "{refused} refused, {harmless} harmless");
}

#[tokio::test]
async fn a_journal_that_ends_early_is_refused_and_can_be_recovered() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 6).await;
    let (path, whole) = (journal(directory.path()), written(directory.path()));
    fs::write(&path, &whole[..whole.len() / 2]).expect("the journal can be written");
    let error = EmbeddedStore::open(directory.path(), options()).expect_err("commits are missing");
    assert!(error.to_string().contains("acknowledged commits are missing"), "{error}");
    assert!(error.to_string().contains("nagaya store recover"), "{error}");

    fs::write(&path, &whole).expect("the journal can be written");
    let store = EmbeddedStore::open(directory.path(), options()).expect("it is whole");
    let position = store.changes(TABLE, StartPosition::Oldest, 2).await.expect("changes").next;
    drop(store);
    fs::write(&path, &whole[..whole.len() / 2]).expect("the journal can be written");

    let recovery = inspect_damage(directory.path()).expect("it can be looked at");
    let last = recovery.last_commit.expect("some commits are whole");
    assert!(recovery.acknowledged > last && recovery.damage.is_some(), "{recovery:?}");
    assert!(!discard_damaged_commits(directory.path()).expect("it is accepted").is_empty());
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    let left = found(&store, 6).await;
    assert!((1..6).contains(&left), "{left}");
    assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), []);
    // Subscribers may have seen changes that are discarded now.
    let error = store.changes(TABLE, StartPosition::After(position), 10).await.expect_err("it is another store now");
    assert_eq!(error.code(), "gap");
}

/// Sorted files may contain later commits than the damaged journal. Writes after the recovery must still be found.
#[tokio::test]
async fn a_recovered_directory_accepts_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 6).await;
    EmbeddedStore::open(directory.path(), options()).expect("it opens").compact().expect("all is in sorted files");
    let (path, mut bytes) = (journal(directory.path()), written(directory.path()));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).expect("the journal can be written");
    EmbeddedStore::open(directory.path(), options()).expect_err("it is damaged");
    let kept = discard_damaged_commits(directory.path()).expect("it is accepted");
    assert!(kept.iter().all(|path| fs::metadata(path).is_ok_and(|kept| kept.len() > 0)), "{kept:?}");
    for n in 6..9 {
        let store = EmbeddedStore::open(directory.path(), options()).expect("it opens, time and again");
        assert_eq!(found(&store, 9).await, n);
        store.write(Write::put(TABLE, blob(n)).into()).await.expect("a put");
    }
}

#[tokio::test]
async fn a_missing_manifest_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 3).await;
    EmbeddedStore::open(directory.path(), options()).expect("it opens").compact().expect("some is in sorted files");
    for keyspace in fs::read_dir(directory.path().join("data/keyspaces")).expect("a folder").flatten() {
        let (current, aside) = (keyspace.path().join("current"), keyspace.path().join("aside"));
        fs::rename(&current, &aside).expect("it can be moved");
        let error = EmbeddedStore::open(directory.path(), options()).expect_err("fjall would empty a keyspace");
        assert!(error.to_string().contains("is damaged"), "{error}");
        fs::rename(&aside, &current).expect("it can be moved");
    }
    assert_eq!(found(&EmbeddedStore::open(directory.path(), options()).expect("it opens"), 3).await, 3);
}

/// Publishing a manifest failed twice in a row: `current` has the checksum of the first, and the file is the second.
#[tokio::test]
async fn an_unpublished_manifest_is_accepted_only_if_all_of_its_files_are_intact() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 3).await;
    EmbeddedStore::open(directory.path(), options()).expect("it opens").compact().expect("some is in sorted files");
    let mut tables = Vec::new();
    for keyspace in fs::read_dir(directory.path().join("data/keyspaces")).expect("a folder").flatten() {
        let current = keyspace.path().join("current");
        let mut bytes = fs::read(&current).expect("it can be read");
        bytes[8..24].fill(7);
        fs::write(&current, bytes).expect("it can be written");
        tables.extend(
            fs::read_dir(keyspace.path().join("tables")).expect("a folder").flatten().map(|entry| entry.path()),
        );
    }
    assert!(!tables.is_empty());
    for table in tables {
        let mut bytes = fs::read(&table).expect("it can be read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&table, &bytes).expect("it can be written");
        let error = EmbeddedStore::open(directory.path(), options()).expect_err("a file does not match the manifest");
        assert!(error.to_string().contains("is damaged"), "{error}");
        bytes[middle] ^= 1;
        fs::write(&table, &bytes).expect("it can be written");
    }
    assert_eq!(found(&EmbeddedStore::open(directory.path(), options()).expect("it opens"), 3).await, 3);
}

/// A volume that is not mounted at one start must not lose anything.
#[cfg(unix)]
#[tokio::test]
async fn data_on_an_unmounted_volume_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    filled(directory.path(), 3).await;
    fs::rename(path("data"), path("volume")).expect("it can be moved");
    std::os::unix::fs::symlink(path("volume"), path("data")).expect("a link");
    assert_eq!(found(&EmbeddedStore::open(directory.path(), options()).expect("it opens"), 3).await, 3);
    fs::rename(path("volume"), path("away")).expect("it can be moved");
    EmbeddedStore::open(directory.path(), options()).expect_err("the volume is not mounted");
    fs::rename(path("away"), path("volume")).expect("it can be moved");
    assert_eq!(found(&EmbeddedStore::open(directory.path(), options()).expect("it opens"), 3).await, 3);
}

/// An empty store must not replace one whose data is missing.
#[tokio::test]
async fn missing_data_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 3).await;
    let (data, away) = (directory.path().join("data"), directory.path().join("away"));
    fs::rename(&data, &away).expect("it can be moved");
    let error = EmbeddedStore::open(directory.path(), options()).expect_err("the data is missing");
    assert!(error.to_string().contains("is missing, although"), "{error}");
    fs::rename(&away, &data).expect("it can be moved");
    assert_eq!(found(&EmbeddedStore::open(directory.path(), options()).expect("it opens"), 3).await, 3);
}

#[tokio::test]
async fn a_missing_journal_is_refused_and_can_be_recovered() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 3).await;
    EmbeddedStore::open(directory.path(), options()).expect("it opens").compact().expect("some is in sorted files");
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    store.write(Write::put(TABLE, blob(3)).into()).await.expect("a put");
    drop(store);
    fs::remove_file(journal(directory.path())).expect("the journal is removed");
    let error = EmbeddedStore::open(directory.path(), options()).expect_err("a commit is missing");
    assert!(error.to_string().contains("its journals are gone"), "{error}");
    let recovery = inspect_damage(directory.path()).expect("it can be looked at");
    assert!(recovery.is_damaged(), "{recovery:?}");
    discard_damaged_commits(directory.path()).expect("it is accepted");
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    assert_eq!(found(&store, 4).await, 3);
}

/// Manifests have checksums. Bytes that do not describe files may change.
#[tokio::test]
async fn a_damaged_manifest_is_refused_or_harmless() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 3).await;
    EmbeddedStore::open(directory.path(), options()).expect("it opens").compact().expect("some is in sorted files");
    let (mut refused, mut harmless) = (0, 0);
    for keyspace in fs::read_dir(directory.path().join("data/keyspaces")).expect("a folder").flatten() {
        let current = fs::read(keyspace.path().join("current")).expect("it can be read");
        let id = u64::from_le_bytes(current[..8].try_into().expect("a number"));
        for name in [format!("v{id}"), "current".to_owned()] {
            let (path, whole) =
                (keyspace.path().join(&name), fs::read(keyspace.path().join(&name)).expect("it can be read"));
            for at in (0..whole.len()).step_by(5) {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x10;
                fs::write(&path, &bytes).expect("it can be written");
                match EmbeddedStore::open(directory.path(), options()) {
                    Err(error) => {
                        assert!(error.to_string().contains("is damaged"), "{name} at {at}: {error}");
                        refused += 1;
                    }
                    Ok(store) => {
                        assert_eq!(found(&store, 3).await, 3, "{name} at {at}");
                        assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), [], "{name} at {at}");
                        harmless += 1;
                    }
                }
            }
            fs::write(&path, &whole).expect("it can be written");
        }
    }
    assert!(refused > 100 && refused > harmless, "{refused} refused, {harmless} harmless");
    assert_eq!(found(&EmbeddedStore::open(directory.path(), options()).expect("it opens"), 3).await, 3);
}

/// fjall starts a new journal after 64 MB, and keeps the old ones until all of their entries are in sorted files.
#[tokio::test]
async fn only_the_newest_of_several_journals_may_be_torn() {
    let directory = tempfile::tempdir().expect("a directory");
    let page =
        |n: usize| Item::new().with("PK", "pages").with("SK", format!("{n:03}")).with("noise", noise(n, 380_000));
    filled(directory.path(), 3).await;
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    let mut pages = 0;
    while journals(directory.path()).len() < 2 {
        assert!(pages < 500, "there is still only one journal");
        store.write(Write::put(TABLE, page(pages)).into()).await.expect("a put");
        pages += 1;
    }
    for n in pages..pages + 3 {
        store.write(Write::put(TABLE, page(n)).into()).await.expect("a put");
    }
    drop(store);
    let [sealed, newest] = journals(directory.path()).try_into().expect("two journals");
    let acknowledged = fs::read(directory.path().join("acknowledged")).expect("a file");
    let end = |path: &Path| {
        let bytes = fs::read(path).expect("it can be read");
        bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    };
    // Also if the number of acknowledged commits is unknown.
    for is_known in [true, false] {
        for path in [&sealed, &newest] {
            let (bytes, end) = (fs::read(path).expect("it can be read"), end(path));
            fs::write(path, &bytes[..end - 1]).expect("it can be cut");
            if !is_known {
                fs::remove_file(directory.path().join("acknowledged")).expect("the file can be removed");
            }
            let opened = EmbeddedStore::open(directory.path(), options());
            let message = opened.as_ref().err().map(ToString::to_string);
            let expected = match (path == &sealed, is_known) {
                (true, _) => Some("the journals after it are intact"),
                (false, true) => Some("acknowledged commits are missing"),
                (false, false) => None,
            };
            match (message, expected) {
                (None, None) => {}
                (Some(message), Some(expected)) if message.contains(expected) => {}
                other => panic!("{other:?} at the end of {}", path.display()),
            }
            drop(opened);
            fs::write(path, &bytes).expect("it can be written");
            fs::write(directory.path().join("acknowledged"), &acknowledged).expect("the file can be written");
        }
    }
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    assert_eq!(found(&store, 3).await, 3);
    for n in 0..pages + 3 {
        let key = Key::new("pages", format!("{n:03}"));
        assert_eq!(store.get(TABLE, &key).await.expect("a read"), Some(page(n)));
    }
    assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), []);
}

/// A disk may lose the syncs of one file and keep those of another.
#[tokio::test]
async fn a_journal_that_ends_before_the_sorted_files_is_refused_and_can_be_recovered() {
    let directory = tempfile::tempdir().expect("a directory");
    filled(directory.path(), 3).await;
    let (journal, acknowledged) = (journal(directory.path()), directory.path().join("acknowledged"));
    let earlier = [&journal, &acknowledged].map(|path| (path, fs::read(path).expect("it can be read")));
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    store.write(Write::put(TABLE, blob(3)).into()).await.expect("a put");
    store.compact().expect("all is in sorted files");
    drop(store);
    for (path, bytes) in &earlier {
        fs::write(path, bytes).expect("it can be written");
    }
    let error = EmbeddedStore::open(directory.path(), options()).expect_err("the journal ends early");
    assert!(error.to_string().contains("has lost acknowledged commits"), "{error}");
    let recovery = inspect_damage(directory.path()).expect("it can be looked at");
    assert!(recovery.is_damaged() && recovery.lost() == Some(1), "{recovery:?}");
    let known = fs::read(&acknowledged).expect("it can be read");
    discard_damaged_commits(directory.path()).expect("it is accepted");
    // As if the recovery had been interrupted before its end: the directory is refused, and can be recovered again.
    fs::write(&acknowledged, known).expect("it can be written");
    fs::write(&journal, &earlier[0].1).expect("it can be written");
    EmbeddedStore::open(directory.path(), options()).expect_err("the recovery was interrupted");
    discard_damaged_commits(directory.path()).expect("it is accepted");
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens");
    assert_eq!(found(&store, 5).await, 4);
}
