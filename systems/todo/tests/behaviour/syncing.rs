//! Whoever has changed something can wait for the list to have it, and is told how far it is behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nagaya_store::{
    Answer, Capabilities, Changes, From, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet, Written,
};
use serde_json::json;

use crate::house::{House, Lists as _, Time, memory, path, runtime, system, text, todos};

/// Proves the waiting part of T25.
#[test]
fn an_answer_waits_for_the_list() {
    an_answer_waits_for_an_event(&todos());
}

pub(crate) fn an_answer_waits_for_an_event(house: &House) {
    let mio = house.user("f-after", "mio");
    // Asked for at once, each is there, and the list says that it is not behind then.
    let mut todo = mio.post("/todos", &json!({ "title": "0" })).data(201);
    assert_eq!(mio.synced(&todo).data(200), todo);
    for n in 1..10 {
        let old = todo;
        todo = mio.patch(&path(&old), &json!({ "title": n.to_string() })).data(200);
        assert_eq!(mio.synced(&todo).data(200), todo);
        // An older event is in it, too.
        assert_eq!(mio.synced(&old).data(200), todo);
    }
    mio.lists("/todos", &["9"]);
    assert_eq!(mio.get("/todos").header("nagaya-projection-lag"), Some("0"));
    // What is deleted does not come any more, and nobody waits for it.
    mio.delete(&path(&todo));
    let last = mio.get(&format!("{}/history?order=desc&limit=1", path(&todo))).list().remove(0);
    mio.get(&format!("{}?after={}", path(&todo), text(&last, "eventId"))).problem(404, "not_found");
    assert_eq!(mio.get("/todos").header("nagaya-projection-lag"), Some("0"));
}

/// A store whose changes nobody sees for as long as it is closed.
struct Gated {
    inner: Arc<dyn Store>,
    closed: AtomicBool,
}

/// Proves the lag part of T25. Proves the waiting part of T25.
#[test]
fn a_list_that_is_behind_says_so() {
    let time = Time::default();
    let gate = Arc::new(Gated { inner: memory(&time), closed: AtomicBool::new(false) });
    let house = House::serve_on(runtime(), system(), Arc::clone(&gate) as _, time);
    let mio = house.user("f-lag", "mio");
    mio.make("a");
    gate.closed.store(true, Ordering::SeqCst);
    let todo = mio.post("/todos", &json!({ "title": "b" })).data(201);
    let lag = |path: &str| {
        let answer = mio.get(path);
        answer.header("nagaya-projection-lag").and_then(|lag| lag.parse::<i64>().ok()).expect("a lag")
    };
    let before = lag("/todos");
    assert!(before > 0, "{before}");
    house.time.pass(Duration::from_secs(60));
    let later = lag("/todos?status=completed");
    assert!((60_000..70_000).contains(&later), "{later}: it grows with the clock");
    // It is known, and not listed yet.
    mio.get(&path(&todo)).problem(404, "not_found");
    let waited = mio.synced(&todo);
    waited.problem(503, "syncing");
    assert_eq!(waited.header("retry-after"), Some("1"));
    // Another family is not behind, and what it has no part in is not there at once.
    let other = house.user("f-lag-other", "mio");
    assert_eq!(other.get("/todos").header("nagaya-projection-lag"), Some("0"));
    other.synced(&todo).problem(404, "not_found");

    gate.closed.store(false, Ordering::SeqCst);
    assert_eq!(mio.synced(&todo).data(200), todo);
    mio.lists("/todos", &["a", "b"]);
    assert_eq!(lag("/todos"), 0);
}

impl Store for Gated {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        self.inner.ensure(tables)
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        self.inner.get(table, key)
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        self.inner.batch_get(keys)
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        self.inner.query(query)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.inner.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        self.inner.write(set)
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        Box::pin(async move {
            while self.closed.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let changes = self.inner.changes(table, from.clone(), limit).await?;
            match self.closed.load(Ordering::SeqCst) {
                // Closed meanwhile: they are seen later.
                true => Box::pin(self.changes(table, from, limit)).await,
                false => Ok(changes),
            }
        })
    }
}
