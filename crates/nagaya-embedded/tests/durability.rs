//! One process at a time has a directory open, and concurrent writes do not get lost.

use std::sync::Arc;

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Condition, Key, KeySchema, Store as _, TableSpec, Update, Value, Write};

const TABLE: &str = "counters";

#[tokio::test]
async fn the_error_of_a_locked_directory_names_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = EmbeddedStore::open(directory.path(), Options::default()).expect("the directory opens");
    let error = EmbeddedStore::open(directory.path(), Options::default()).expect_err("it is open already");
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert!(text.contains(&directory.path().display().to_string()), "{text}");
    drop(store);
    EmbeddedStore::open(directory.path(), Options::default()).expect("it is unlocked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_are_all_applied() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Arc::new(EmbeddedStore::open(directory.path(), Options::default()).expect("the directory opens"));
    store.ensure_tables(&[TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))]).await.expect("the table is made");
    let key = Key::new("counter", "one");
    let increment = |store: Arc<EmbeddedStore>, key: Key| async move {
        loop {
            let found = store.get(TABLE, &key).await.expect("a read");
            let n: i64 = found.as_ref().and_then(|item| item.get("n")?.as_number()?.try_into().ok()).unwrap_or(0);
            let expected = if found.is_none() { Condition::absent("PK") } else { Condition::equal("n", n) };
            let write = Write::update(TABLE, key.clone(), Update::new().set("n", n + 1)).when(expected);
            match store.write(write.into()).await {
                Ok(written) => return written.item.expect("a single update gives the item"),
                Err(error) => assert_eq!(error.code(), "condition_failed"),
            }
        }
    };
    let tasks: Vec<_> = (0..100).map(|_| tokio::spawn(increment(Arc::clone(&store), key.clone()))).collect();
    let mut seen = Vec::new();
    for task in tasks {
        let item = task.await.expect("an increment");
        seen.push(i64::try_from(item.get("n").and_then(Value::as_number).expect("a number")).expect("a whole one"));
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=100).collect::<Vec<_>>(), "each value was written exactly once");
}
