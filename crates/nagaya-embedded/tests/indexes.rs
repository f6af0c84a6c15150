//! Indexes that are added to a table with items: built during writes, visible when they are complete, and correct after
//! a crash.

use std::sync::Arc;

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Item, Key, KeySchema, Query, Store as _, TableSpec, Write, WriteSet};

const TABLE: &str = "notes";
const ITEMS: usize = 6_000;

fn options() -> Options {
    Options { sweep_interval: None, ..Options::default() }
}

fn plain() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
}

fn indexed() -> TableSpec {
    plain().with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK")).with_ttl("expiresAt")
}

fn note(n: usize) -> Item {
    let item = Item::new().with("PK", format!("P{}", n % 7)).with("SK", format!("{n:06}"));
    item.with("GSI1PK", "all").with("GSI1SK", format!("{n:06}")).with("expiresAt", 4_000_000_000_i64)
}

fn key(n: usize) -> Key {
    Key::new(format!("P{}", n % 7), format!("{n:06}"))
}

async fn fill(store: &EmbeddedStore) {
    store.ensure_tables(&[plain()]).await.expect("the table is made");
    for start in (0..ITEMS).step_by(100) {
        let set: WriteSet = (start..start + 100).map(|n| Write::put(TABLE, note(n))).collect();
        store.write(set).await.expect("a set");
    }
}

async fn in_index(store: &EmbeddedStore) -> Vec<String> {
    let mut found = Vec::new();
    let mut query = Query::index(TABLE, "GSI1", "all");
    loop {
        let page = store.query(query.clone()).await.expect("the index is built");
        found.extend(
            page.items.iter().map(|item| item.get("SK").and_then(|sort| sort.as_str()).expect("a key").to_owned()),
        );
        match page.next {
            Some(next) => query = query.after(next),
            None => return found,
        }
    }
}

fn names(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|n| format!("{n:06}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_work_while_an_index_is_built_and_readers_see_it_when_it_is_complete() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Arc::new(EmbeddedStore::open(directory.path(), options()).expect("the directory opens"));
    fill(&store).await;
    let building = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.ensure_tables(&[indexed()]).await }
    });
    let (mut during, mut n) = (0, 0);
    while !building.is_finished() {
        // Every third item is deleted, before or after its entry is built.
        if n < ITEMS {
            store.write(Write::delete(TABLE, key(n)).into()).await.expect("writes work");
            n += 3;
        }
        match store.query(Query::index(TABLE, "GSI1", "all").limit(1)).await {
            Ok(_) => {}
            Err(error) => {
                assert!(["no_index"].contains(&error.code()), "{error}");
                during += 1;
            }
        }
    }
    building.await.expect("the task ends").expect("the index is built");
    assert!(during > 0, "no query ran during the build: the test tests nothing");
    let left = (0..ITEMS).filter(|each| each % 3 != 0 || *each >= n);
    assert_eq!(in_index(&store).await, names(left));
    assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), []);
}

/// A process that ends during a build leaves some entries. Items that are deleted before the build continues must not
/// appear in the index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_build_continues_and_leaves_no_entry_of_a_deleted_item() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut interrupted = 0;
    {
        let store = EmbeddedStore::open(directory.path(), options()).expect("the directory opens");
        fill(&store).await;
    }
    for round in 0..20 {
        let store = EmbeddedStore::open(directory.path(), options()).expect("it opens again");
        // The build is started but not awaited: dropping the store interrupts it.
        let specs = [indexed()];
        let mut asked = Box::pin(store.ensure_tables(&specs));
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(asked.as_mut().poll(context).is_pending()));
        let pending = polled.await;
        drop(asked);
        for _ in 0..round {
            std::thread::yield_now();
        }
        store.write(Write::delete(TABLE, key(round)).into()).await.expect("a delete");
        interrupted += usize::from(pending && store.query(Query::index(TABLE, "GSI1", "all").limit(1)).await.is_err());
    }
    assert!(interrupted > 0, "no build was interrupted: the test tests nothing");
    let store = EmbeddedStore::open(directory.path(), options()).expect("it opens again");
    store.ensure_tables(&[indexed()]).await.expect("the index is built");
    assert_eq!(in_index(&store).await, names(20..ITEMS));
    assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), []);
}

#[tokio::test]
async fn an_index_can_be_rebuilt() {
    for store in [EmbeddedStore::in_memory(options()).expect("memory")] {
        store.ensure_tables(&[indexed()]).await.expect("the table is made");
        let set: WriteSet = (0..100).map(|n| Write::put(TABLE, note(n))).collect();
        store.write(set).await.expect("a set");
        for index in [None, Some("GSI1")] {
            store.reindex(TABLE, index).await.expect("it is rebuilt");
            assert_eq!(in_index(&store).await, names(0..100));
            assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), []);
        }
        assert_eq!(store.reindex(TABLE, Some("GSI9")).await.expect_err("there is none").code(), "no_index");
        assert_eq!(store.reindex("others", None).await.expect_err("there is none").code(), "no_table");
    }
}

/// Either the index does not exist, or it has all entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_during_a_rebuild_never_sees_a_partial_index() {
    let store = Arc::new(EmbeddedStore::in_memory(options()).expect("memory"));
    store.ensure_tables(&[indexed()]).await.expect("the table is made");
    let set: WriteSet = (0..100).map(|n| Write::put(TABLE, note(n))).collect();
    store.write(set).await.expect("a set");
    let building = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for _ in 0..300 {
                store.reindex(TABLE, None).await.expect("it is rebuilt");
            }
        }
    });
    while !building.is_finished() {
        match store.query(Query::index(TABLE, "GSI1", "all")).await {
            Ok(page) => assert_eq!(page.items.len(), 100),
            Err(error) => assert_eq!(error.code(), "no_index"),
        }
    }
    building.await.expect("the task ends");
}
