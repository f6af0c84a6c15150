//! Read your writes: a read can wait for an event, and reports the lag of the projection.

use std::{thread, time::Duration};

use nagaya_store::{Key, Write};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, PausedTokioClock, TestServer, memory_store, text};
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

/// Ids are compared as text, so what is no id could be one that the list has already.
#[test]
fn a_read_waits_only_for_an_event_of_the_todo() {
    let server = todo_server();
    let mio = server.client_of_user("f-event", "mio");
    let todo = mio.create("milk");
    let read = |event: &str| mio.get(&format!("{}?after={event}", path(&todo)));
    read(&"0".repeat(26)).expect_data(200);
    for wrong in ["", &"0".repeat(25), &"0".repeat(27), &"7".repeat(26)] {
        assert_eq!(read(wrong).expect_problem(400, "bad_parameter"), ["after"], "{wrong}");
    }
    for letter in ["I", "L", "O", "U", "a", "-", "%C3%A9"] {
        let wrong = format!("{}{letter}", "0".repeat(25));
        assert_eq!(read(&wrong).expect_problem(400, "bad_parameter"), ["after"], "{wrong}");
    }
}

/// Proves the lag part of T25. Proves the waiting part of T25.
#[test]
fn a_lagging_projection_reports_its_lag() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let server = TestServer::builder(system()).store(store.clone(), &clock).start();
    let mio = server.client_of_user("f-lag", "mio");
    let (listed, deleted) = (mio.create("a"), mio.create("c"));
    let lag = |path: &str| {
        let answer = mio.get(path);
        answer.header("nagaya-projection-lag").and_then(|lag| lag.parse::<i64>().ok()).expect("a lag")
    };
    assert_eq!(lag("/todos"), 0);
    let changes = store.inject(Fault::pause_after().matching(Call::is_changes));
    // The list has an earlier event of the todo, and then no event of the newest todo.
    let changed = mio.patch(&path(&listed), &json!({ "title": "a2" })).expect_data(200);
    let before = lag("/todos");
    assert!(before > 0, "{before}");
    let todo = mio.post("/todos", &json!({ "title": "b" })).expect_data(201);
    let before = lag("/todos");
    assert!(before > 0, "{before}");
    server.clock.advance(Duration::from_secs(60));
    let later = lag("/todos?status=completed");
    assert!((60_000..70_000).contains(&later), "{later}: it grows with the clock");
    // The event is stored, but not projected yet.
    mio.get(&path(&todo)).expect_problem(404, "not_found");
    // Another family has no lag, and an event of this family is unknown there.
    let other = server.client_of_user("f-lag-other", "mio");
    assert_eq!(other.get("/todos").header("nagaya-projection-lag"), Some("0"));
    other.synced(&todo).expect_problem(404, "not_found");

    // Reads that wait are not answered with what the list has meanwhile, and a todo that is deleted is not there.
    mio.delete(&path(&deleted));
    thread::scope(|scope| {
        for (todo, is_there) in [(&changed, true), (&todo, true), (&deleted, false)] {
            let id = text(todo, "todoId").to_owned();
            let is_list = |call: &Call| matches!(call, Call::Get(table, _) if table == "TodosProjection");
            let is_of_todo = move |call: &Call| is_list(call) && format!("{call:?}").contains(&id);
            let looked = store.inject(Fault::run_before(|_| async {}).matching(is_of_todo));
            let mio = &mio;
            scope.spawn(move || match is_there {
                true => assert_eq!(mio.synced(todo).expect_data(200), *todo),
                false => drop(mio.synced(todo).expect_problem(404, "not_found")),
            });
            server.block_on(looked.wait_for_hit());
        }
        changes.remove();
    });
    mio.wait_for_list("/todos", &["a2", "b"]);
    assert_eq!(lag("/todos"), 0);
}

/// Proves the waiting part of T25.
#[tokio::test]
async fn a_read_that_waits_for_too_long_is_refused() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let server = TestServer::builder(system()).store(store.clone(), &clock).serve().await;
    let mut mio = server.connect_as("f-wait", "mio").await;
    // The projection reads the list too.
    store.inject(Fault::pause_after().matching(Call::is_changes));
    let timers = PausedTokioClock::pause();
    let created = mio.post("/todos", &json!({ "title": "a" })).await.json();
    let is_list = |call: &Call| matches!(call, Call::Get(table, _) if table == "TodosProjection");
    let reads = store.inject(Fault::pause_after().matching(is_list));
    let todo = &created["data"];
    let path = format!("{}?after={}", path(todo), text(todo, "lastEventId"));
    let waiting = tokio::spawn(async move { mio.get(&path).await });
    reads.wait_for_hit().await;
    timers.advance(Duration::from_secs(4)).await;
    assert!(!waiting.is_finished());
    timers.advance(Duration::from_secs(2)).await;
    let refused = waiting.await.expect("no panic");
    assert_eq!(refused.problem(), (503, "syncing".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
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
