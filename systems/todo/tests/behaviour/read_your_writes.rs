//! Read your writes: a read can wait for an event, and reports the lag of the projection.

use std::time::Duration;

use nagaya_store::{Key, Write};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, TestServer, memory_store, text};
use serde_json::json;

use crate::harness::{TodoClient as _, path, system, todo_server};

/// Proves the waiting part of T25.
#[test]
fn a_read_can_wait_for_the_projection() {
    a_read_waits_for_the_named_event(&todo_server());
}

pub(crate) fn a_read_waits_for_the_named_event(server: &TestServer) {
    let mio = server.client_of_user("f-after", "mio");
    // Each new todo is listed at once, with no lag.
    let mut todo = mio.post("/todos", &json!({ "title": "0" })).expect_data(201);
    assert_eq!(mio.synced(&todo).expect_data(200), todo);
    for n in 1..10 {
        let old = todo;
        todo = mio.patch(&path(&old), &json!({ "title": n.to_string() })).expect_data(200);
        assert_eq!(mio.synced(&todo).expect_data(200), todo);
        // An older event is included, too.
        assert_eq!(mio.synced(&old).expect_data(200), todo);
    }
    mio.wait_for_list("/todos", &["9"]);
    assert_eq!(mio.get("/todos").header("nagaya-projection-lag"), Some("0"));
    // A deleted todo is not waited for.
    mio.delete(&path(&todo));
    let last = mio.get(&format!("{}/history?order=desc&limit=1", path(&todo))).list().remove(0);
    mio.get(&format!("{}?after={}", path(&todo), text(&last, "eventId"))).expect_problem(404, "not_found");
    assert_eq!(mio.get("/todos").header("nagaya-projection-lag"), Some("0"));
}

/// Proves the lag part of T25. Proves the waiting part of T25.
#[test]
fn a_lagging_projection_reports_its_lag() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let server = TestServer::builder(system()).store(store.clone(), &clock).start();
    let mio = server.client_of_user("f-lag", "mio");
    mio.create("a");
    let changes = store.inject(Fault::pause_after().matching(Call::is_changes));
    let todo = mio.post("/todos", &json!({ "title": "b" })).expect_data(201);
    let lag = |path: &str| {
        let answer = mio.get(path);
        answer.header("nagaya-projection-lag").and_then(|lag| lag.parse::<i64>().ok()).expect("a lag")
    };
    let before = lag("/todos");
    assert!(before > 0, "{before}");
    server.clock.advance(Duration::from_secs(60));
    let later = lag("/todos?status=completed");
    assert!((60_000..70_000).contains(&later), "{later}: it grows with the clock");
    // The event is stored, but not projected yet.
    mio.get(&path(&todo)).expect_problem(404, "not_found");
    let waited = mio.synced(&todo);
    waited.expect_problem(503, "syncing");
    assert_eq!(waited.header("retry-after"), Some("1"));
    // Another family has no lag, and an event of this family is unknown there.
    let other = server.client_of_user("f-lag-other", "mio");
    assert_eq!(other.get("/todos").header("nagaya-projection-lag"), Some("0"));
    other.synced(&todo).expect_problem(404, "not_found");

    changes.remove();
    assert_eq!(mio.synced(&todo).expect_data(200), todo);
    mio.wait_for_list("/todos", &["a", "b"]);
    assert_eq!(lag("/todos"), 0);
}

/// Proves the lag part of T25: an event that waits because its todo is parked counts, whatever is listed since.
#[test]
fn a_parked_todo_counts_as_lag_of_its_family() {
    let server = todo_server();
    let mio = server.client_of_user("f-parked", "mio");
    let todo = mio.create("a");
    // An event of a later program: the next id of the same todo.
    let (id, last) = (text(&todo, "todoId"), text(&todo, "lastEventId"));
    let mut next = last.parse::<ulid::Ulid>().expect("an id").increment().expect("not the last one").to_string();
    let key = Key::new(format!("TODO#{id}"), format!("EVENT#{last}"));
    let event = server.block_on(server.store.get("EventsTable", &key)).expect("a table").expect("an event");
    let event = event.with("SK", format!("EVENT#{next}")).with("GSI1SK", next.as_str()).with("eventId", next.as_str());
    let event = event.with("aggregateVersion", 2_i64).with("eventType", "TodoCreated").with("eventVersion", 2_i64);
    server.block_on(server.store.write(Write::put("EventsTable", event).into())).expect("written");
    server.clock.advance(Duration::from_secs(60));
    next = text(&mio.create("b"), "lastEventId").to_owned();
    assert!(next.as_str() > last, "the newest event is listed");
    let answer = mio.get_until("/todos", |answer| answer.header("nagaya-projection-lag") != Some("0"));
    let lag = answer.header("nagaya-projection-lag").and_then(|lag| lag.parse::<i64>().ok()).expect("a lag");
    assert!(lag >= 60_000, "{lag}");
    // Another family has none.
    let other = server.client_of_user("f-parked-other", "mio");
    other.create("c");
    assert_eq!(other.get("/todos").header("nagaya-projection-lag"), Some("0"));
}
