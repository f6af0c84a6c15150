//! `nagaya store`, as an operator uses it.

mod common;

use std::path::Path;

use common::nagaya;
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Item, Key, KeySchema, Store as _, TableSpec, Write};
use serde_json::Value;

async fn fill(directory: &Path) {
    let store = EmbeddedStore::open(directory, Options::default()).expect("the directory opens");
    let table = TableSpec::new("users", KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"));
    store.ensure_tables(&[table]).await.expect("the table is made");
    for n in 0..30 {
        let item = Item::new().with("PK", "TENANT#t1").with("SK", format!("USER#{n:02}")).with("GSI1PK", "USER");
        let item = if n % 2 == 0 { item.with("GSI1SK", format!("{n:02}")) } else { item };
        store.write(Write::put("users", item).into()).await.expect("a put");
    }
    store.write(Write::delete("users", Key::new("TENANT#t1", "USER#00")).into()).await.expect("a delete");
}

fn json(args: &[&str]) -> Value {
    let run = nagaya(args);
    assert_eq!(run.status, 0, "{run}");
    serde_json::from_str(&run.stdout).expect("--json prints JSON")
}

#[tokio::test]
async fn a_store_is_counted_verified_copied_and_compacted() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (data, file, restored, past) = (place("data"), place("backup.nagaya"), place("restored"), place("past"));
    fill(Path::new(&data)).await;

    let stat = json(&["store", "stat", "--json", "--data", &data]);
    assert_eq!(stat["tables"][0]["items"], 29);
    assert_eq!(stat["tables"][0]["indexes"]["GSI1"], 14);
    assert_eq!(stat["tables"][0]["changes"], 31);

    let verified = nagaya(&["store", "verify", "--data", &data]);
    assert_eq!((verified.status, verified.stdout.as_str()), (0, "no problems found\n"));

    let backup = json(&["store", "backup", "--json", "--data", &data, &file]);
    assert_eq!(backup["contentHash"], stat["contentHash"]);
    let back = json(&["store", "restore", "--json", "--from", &file, "--to", &restored]);
    assert_eq!(back["contentHash"], stat["contentHash"]);
    assert_eq!(json(&["store", "stat", "--json", "--data", &restored])["contentHash"], stat["contentHash"]);

    // A future moment and one before the retained changes are both refused.
    for (at, why) in [("2999-01-01T00:00:00Z", "in the future"), ("2000-01-01T00:00:00Z", "the first change is of")] {
        let refused = nagaya(&["store", "restore", "--data", &data, "--at", at, "--to", &past]);
        assert!(refused.status == 2 && refused.stderr.contains(why), "{refused}");
        assert!(!Path::new(&past).exists());
    }
    let oldest = stat["tables"][0]["oldestChange"].as_str().expect("an instant");
    let first = json(&["store", "restore", "--json", "--data", &data, "--at", oldest, "--to", &past]);
    assert!(first["items"].as_u64().is_some_and(|items| (1..30).contains(&items)), "{first}");

    json(&["store", "compact", "--json", "--data", &data]);
    assert_eq!(json(&["store", "stat", "--json", "--data", &data])["contentHash"], stat["contentHash"]);
}

#[tokio::test]
async fn impossible_requests_are_refused_with_a_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let name = data.to_string_lossy().into_owned();
    let missing = nagaya(&["store", "stat", "--data", &name]);
    assert_eq!(missing.status, 2);
    assert!(missing.stderr.contains("is not the directory of a store"), "{missing}");
    assert!(!data.exists(), "looking at a store does not make one");

    fill(&data).await;
    let holder = EmbeddedStore::open(&data, Options::default()).expect("the directory opens");
    let held = nagaya(&["store", "verify", "--data", &name]);
    assert_eq!(held.status, 2);
    assert!(held.stderr.contains(&format!("is in use by process {}", std::process::id())), "{held}");
    drop(holder);

    let occupied = nagaya(&["store", "restore", "--at", "2026-01-01T00:00:00Z", "--data", &name, "--to", &name]);
    assert_eq!(occupied.status, 2, "{occupied}");
    let usage = nagaya(&["store", "restore", "--data", &name, "--to", "elsewhere"]);
    assert_eq!(usage.status, 2, "{usage}");
}

#[tokio::test]
async fn indexes_are_rebuilt_and_a_damaged_journal_is_abandoned() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let name = data.to_string_lossy().into_owned();
    fill(&data).await;
    assert_eq!(json(&["store", "reindex", "--json", "--data", &name])["tables"], serde_json::json!(["users"]));
    let one = nagaya(&["store", "reindex", "--data", &name, "--table", "users", "--index", "GSI1"]);
    assert_eq!((one.status, one.stdout.as_str()), (0, "users: rebuilt\n"), "{one}");
    let none = nagaya(&["store", "reindex", "--data", &name, "--table", "users", "--index", "GSI7"]);
    assert!(none.status == 2 && none.stderr.contains("GSI7"), "{none}");
    assert_eq!(json(&["store", "repair", "--json", "--data", &name])["found"]["ok"], true);
    let whole = nagaya(&["store", "recover", "--data", &name]);
    assert!(whole.status == 0 && whole.stdout.contains("the journals are whole"), "{whole}");

    // Damage a byte in the middle of the journal.
    let journals = std::fs::read_dir(data.join("data")).expect("a folder").flatten().map(|entry| entry.path());
    let mut journals: Vec<_> =
        journals.filter(|path| path.extension().is_some_and(|extension| extension == "jnl")).collect();
    journals.sort();
    let journal = journals.pop().expect("a journal");
    let mut bytes = std::fs::read(&journal).expect("it can be read");
    let written = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty");
    bytes[written / 2] ^= 1;
    std::fs::write(&journal, bytes).expect("it can be written");

    let refused = nagaya(&["store", "stat", "--data", &name]);
    assert!(refused.status == 2 && refused.stderr.contains("is damaged at byte"), "{refused}");
    let shown = nagaya(&["store", "recover", "--data", &name]);
    assert!(shown.status == 1 && shown.stdout.contains("nothing was changed"), "{shown}");
    let given_up = json(&["store", "recover", "--json", "--yes", "--data", &name]);
    assert_eq!(given_up["discarded"], true);
    assert!(given_up["keptFiles"].as_array().is_some_and(|kept| !kept.is_empty()), "{given_up}");
    let left = json(&["store", "stat", "--json", "--data", &name])["tables"][0]["items"].as_u64().expect("a number");
    assert!((1..29).contains(&left), "{left}");
    assert_eq!(nagaya(&["store", "verify", "--data", &name]).status, 0);
}

/// The last part of an object's path is the hash of its content.
#[tokio::test]
async fn damaged_files_and_objects_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let name = data.to_string_lossy().into_owned();
    fill(&data).await;
    EmbeddedStore::open(&data, Options::default()).expect("it opens").compact().expect("all is in sorted files");
    let hash = blake3::hash(b"a long note").to_hex();
    let folder = data.join("objects/notes/f/t");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(hash.as_str()), "a long note").expect("it can be written");
    std::fs::write(folder.join("not-a-hash"), "anything").expect("it can be written");
    assert_eq!(json(&["store", "verify", "--json", "--data", &name])["ok"], true);

    std::fs::write(folder.join(hash.as_str()), "another note").expect("it can be written");
    let verified = nagaya(&["store", "verify", "--data", &name]);
    let expected = format!("objects: `notes/f/t/{hash}` is not what was written\n");
    assert_eq!((verified.status, verified.stdout.as_str()), (1, expected.as_str()), "{verified}");
    let backup = directory.path().join("backup.nagaya");
    let backup = backup.to_str().expect("text");
    let made = nagaya(&["store", "backup", backup, "--without-keys", "--data", &name]);
    assert!(made.status == 1 && made.stdout.contains(hash.as_str()), "{made}");
    let checked = nagaya(&["store", "verify-backup", backup]);
    assert!(checked.status == 1 && checked.stdout.contains(hash.as_str()), "{checked}");
    std::fs::write(folder.join(hash.as_str()), "a long note").expect("it can be written");

    // Damage a byte in the middle of each sorted file.
    let mut files = Vec::new();
    for space in std::fs::read_dir(data.join("data/keyspaces")).expect("a folder").flatten() {
        files.extend(
            std::fs::read_dir(space.path().join("tables")).expect("a folder").flatten().map(|file| file.path()),
        );
    }
    assert!(files.len() > 2, "{files:?}");
    for file in files {
        let whole = std::fs::read(&file).expect("it can be read");
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] ^= 1;
        std::fs::write(&file, bytes).expect("it can be written");
        let verified = nagaya(&["store", "verify", "--data", &name]);
        // Some files are read when the directory is opened.
        let named = verified.stdout.contains(&file.display().to_string()) && verified.status == 1;
        assert!(named || verified.stderr.contains("a sorted file of the store is missing or damaged"), "{verified}");
        std::fs::write(&file, whole).expect("it can be written");
    }
    assert_eq!(json(&["store", "verify", "--json", "--data", &name])["ok"], true);
}
