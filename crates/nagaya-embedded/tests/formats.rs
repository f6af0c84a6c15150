//! Directories of earlier versions stay readable: `tests/formats` contains one of each format.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nagaya_embedded::{EmbeddedStore, EncryptionKey, Options, is_older_format};
use nagaya_store::{
    Clock, Item, Key, KeySchema, Query, Scan, StartPosition, Store as _, TableSpec, Update, Value, Write, WriteSet,
};

/// The format that this version writes.
const FORMAT: &str = "2";
/// The format of encrypted directories.
const ENCRYPTED_FORMAT: &str = "3";
/// Set this variable to write the directory of the current format again.
const MAKE: &str = "NAGAYA_MAKE_FORMAT";
const TABLE: &str = "notes";

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats")
}

fn options() -> Options {
    Options { clock: Clock::new(|| 1_800_000_000_000), sweep_interval: None, ..Options::default() }
}

/// The same with the key of an encrypted directory.
fn options_of(format: &str) -> Options {
    let key = EncryptionKey::parse(&[7; 32]).filter(|_| format == ENCRYPTED_FORMAT);
    Options { encryption_key: key, ..options() }
}

fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
        .with_ttl("expiresAt")
}

/// An item with an attribute of each type.
fn note(n: i64) -> Item {
    let number = "-12345678901234567890.123456789012345678".parse().map(Value::Number).expect("a number");
    Item::new()
        .with("PK", format!("P{}", n % 2))
        .with("SK", format!("N\u{0}長{n:03}"))
        .with("GSI1PK", "all")
        .with("GSI1SK", format!("{:03}", 100 - n))
        .with("expiresAt", 1_900_000_000)
        .with("number", number)
        .with("truth", true)
        .with("nothing", Value::Null)
        .with("bytes", Value::Binary(vec![0, 1, 255]))
        .with("list", Value::List(vec!["x".into(), n.into()]))
        .with("map", Value::Map([("key".to_owned(), Value::List(Vec::new()))].into()))
        .with("texts", Value::StringSet(["a".to_owned(), "b".to_owned()].into()))
        .with("numbers", Value::NumberSet([1.into(), 2.into()].into()))
        .with("byte strings", Value::BinarySet([vec![7]].into()))
}

fn key(n: i64) -> Key {
    Key::new(format!("P{}", n % 2), format!("N\u{0}長{n:03}"))
}

/// The content of the directory of every format: notes 1 to 9 in sorted files, then 10 to 12 in the journal, one
/// changed and one removed.
async fn fill(store: &EmbeddedStore) -> Result<(), nagaya_store::Error> {
    store.ensure_tables(&[spec()]).await?;
    store.write((1..10).map(|n| Write::put(TABLE, note(n))).collect::<WriteSet>()).await?;
    store.compact()?;
    store.write((10..13).map(|n| Write::put(TABLE, note(n))).collect::<WriteSet>()).await?;
    store.write(Write::update(TABLE, key(3), Update::new().set("truth", false)).into()).await?;
    store.write(Write::delete(TABLE, key(4)).into()).await?;
    Ok(())
}

fn expected() -> Vec<Item> {
    let changed = |n| if n == 3 { note(n).with("truth", false) } else { note(n) };
    (1..13).filter(|n| *n != 4).map(changed).collect()
}

/// Copies a directory without the preallocated zeros of journals.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
            continue;
        }
        let mut bytes = fs::read(&path).expect("a file");
        if path.extension().is_some_and(|extension| extension == "jnl") {
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        }
        fs::write(to, bytes).expect("a copy");
    }
}

#[tokio::test]
async fn a_directory_of_every_format_opens_with_its_whole_content() {
    if std::env::var_os(MAKE).is_some() {
        for format in [FORMAT, ENCRYPTED_FORMAT] {
            let made = tempfile::tempdir().expect("a directory");
            let store = EmbeddedStore::open(made.path(), options_of(format)).expect("a store");
            fill(&store).await.expect("it can be filled");
            drop(store);
            copy(made.path(), &formats().join(format));
        }
    }
    let kept: Vec<_> = fs::read_dir(formats()).expect("formats").map(|entry| entry.expect("an entry").path()).collect();
    for format in [FORMAT, ENCRYPTED_FORMAT] {
        assert!(kept.contains(&formats().join(format)), "the format has changed: run this test once with {MAKE}=1");
    }
    for directory in kept {
        let format = directory.display();
        let opened = tempfile::tempdir().expect("a directory");
        copy(&directory, opened.path());
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let options = options_of(&name);
        // Opened without an upgrade, an older directory stays what it is.
        let refused = EmbeddedStore::open(opened.path(), Options { upgrade: false, ..options.clone() }).err();
        assert_eq!(refused.as_ref().is_some_and(is_older_format), name == "1", "{format}: {refused:?}");
        assert_eq!(opened.path().join("acknowledged").exists(), name != "1", "nothing of a newer format is created");
        let store = EmbeddedStore::open(opened.path(), options).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), [], "{format}");

        let mut scanned = store.scan(Scan::table(TABLE)).await.expect("a scan").items;
        scanned.sort_by_key(|item| item.get("GSI1SK").and_then(|sort| sort.as_str()).map(str::to_owned));
        scanned.reverse();
        assert_eq!(scanned, expected(), "{format}");
        let indexed = store.query(Query::index(TABLE, "GSI1", "all").descending()).await.expect("a query").items;
        assert_eq!(indexed, expected(), "{format}");
        let changes = store.changes(TABLE, StartPosition::Oldest, 100).await.expect("changes").records;
        assert_eq!(changes.len(), 14, "{format}");
        assert_eq!(changes[13].old, Some(note(4)), "{format}");

        // It accepts writes.
        store.ensure_tables(&[spec()]).await.expect("the table is the same");
        store.write(Write::put(TABLE, note(20)).into()).await.expect("a put");
        let more = store.changes(TABLE, StartPosition::Oldest, 100).await.expect("changes").records;
        assert!(more[14].sequence > changes[13].sequence, "{format}");
    }
}
