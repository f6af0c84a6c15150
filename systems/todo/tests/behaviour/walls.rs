//! Every route, called by the wrong family.

use nagaya_testing::{Call, InstrumentedStore, ManualClock, memory_store};
use serde_json::json;

use crate::harness::{TestServer, TodoClient as _, path, system, text, todo_server};

/// Proves T5.
#[test]
fn families_do_not_see_each_other() {
    no_route_reaches_another_family(&todo_server());
}

pub(crate) fn no_route_reaches_another_family(server: &TestServer) {
    let mio = server.client_of_user("f-ours", "mio");
    let todo = mio.create("ours");
    let history = mio.get(&format!("{}/history", path(&todo))).body;
    let missing = json!({ "todoId": "01HARX5BD7F8G9H0J1K2M3N4PQ", "lastEventId": todo["lastEventId"] });
    // Similar names are different families.
    for family in ["f-theirs", "f-our", "f-ours2", "F-OURS", "f-ours#ACTIVE", "FAMILY#f-ours"] {
        let them = server.client_of_user(family, "mio");
        let ask = |todo: &serde_json::Value| {
            let path = path(todo);
            let after = format!("{path}?after={}", text(todo, "lastEventId"));
            vec![
                them.get(&path),
                them.get(&after),
                them.patch(&path, &json!({ "title": "theirs" })),
                them.patch(&path, &json!({ "completed": true })),
                them.with_header("if-match", "\"v1\"").patch(&path, &json!({ "title": "theirs" })),
                them.with_header("idempotency-key", &path[7..]).patch(&path, &json!({ "title": "theirs" })),
                them.delete(&path),
                them.with_header("if-match", "\"v1\"").delete(&path),
                them.get(&format!("{path}/note")),
                them.get(&format!("{path}/history")),
                them.get(&format!("{path}/history?limit=1&order=desc&from={}", text(todo, "lastEventId"))),
            ]
        };
        // The response is the same as for a todo that never existed.
        for (ours, none) in ask(&todo).into_iter().zip(ask(&missing)) {
            ours.expect_problem(404, "not_found");
            none.expect_problem(404, "not_found");
            assert_eq!((&ours.body["title"], &ours.body["detail"]), (&none.body["title"], &none.body["detail"]));
        }
        for list in ["/todos", "/todos?status=completed", "/todos?status=all", "/todos/all", "/todos/completed"] {
            assert_eq!(them.get(list).list(), Vec::<serde_json::Value>::new(), "{family}: {list}");
        }
        // A family in the request is refused, not compared.
        for list in ["/todos?familyId=f-ours", "/todos/all?familyId=f-ours"] {
            assert!(matches!(them.get(list).status, 400 | 422), "{list}");
        }
        assert_eq!(
            them.post("/todos", &json!({ "title": "x", "familyId": "f-ours" })).expect_problem(422, "invalid"),
            ["/familyId"]
        );
    }
    // Events and heads have no other routes.
    for (method, path) in [
        ("POST", "/events"),
        ("GET", "/heads"),
        ("POST", "/heads"),
        ("GET", "/snapshots"),
        ("POST", "/idempotencies"),
        ("PATCH", "/events/x"),
        ("DELETE", "/events/x"),
    ] {
        assert!(matches!(mio.send(method, path, Some(&json!({}))).status, 404 | 405), "{method} {path}");
    }
    assert_eq!(mio.get(&path(&todo)).expect_data(200), todo);
    assert_eq!(mio.get(&format!("{}/history", path(&todo))).body, history);
}

/// What a request takes does not tell how many events a todo of another family has.
#[test]
fn no_route_reads_events_of_another_familys_todo() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let server = TestServer::builder(system()).store(store.clone(), &clock).start();
    let todo = server.client_of_user("f-ours", "mio").create("ours");
    let (path, eve) = (path(&todo), server.client_of_user("f-theirs", "eve"));
    let reads_events = |call: &Call| match call {
        Call::Query(query) => query.index.is_none() && format!("{:?}", query.partition).contains("TODO#"),
        _ => false,
    };
    store.take(|_| true);
    for (method, path, body) in [
        ("GET", format!("{path}/history"), None),
        ("GET", format!("{path}/history?limit=1&order=desc"), None),
        ("GET", format!("{path}/note"), None),
        ("GET", path.clone(), None),
        ("GET", format!("{path}?after={}", text(&todo, "lastEventId")), None),
        ("PATCH", path.clone(), Some(json!({ "title": "theirs" }))),
        ("PATCH", path.clone(), Some(json!({ "note": "x".repeat(2_000) }))),
        ("DELETE", path.clone(), None),
    ] {
        for tag in ["*", "\"v1\"", "\"v1\", \"v2\""] {
            let eve = eve.with_header("if-match", tag).with_header("idempotency-key", "1");
            eve.send(method, &path, body.as_ref()).expect_problem(404, "not_found");
            let read = store.take(reads_events);
            assert!(read.is_empty(), "{method} {path}: {read:?}");
        }
    }
    server.client_of_user("f-ours", "mio").get(&format!("{path}/history")).list();
    assert!(!store.take(reads_events).is_empty(), "the family's own events are read");
}
