//! `GET /todos/{id}/history`.

use serde_json::{Value as Json, json};

use crate::harness::{TestServer, path, text, todo_server};

/// Proves the history part of T6. Proves the metadata of T1. Proves the ids part of T19.
#[test]
fn the_history_is_served() {
    a_history_has_actor_event_time_and_cause(&todo_server());
}

pub(crate) fn a_history_has_actor_event_time_and_cause(server: &TestServer) {
    let mio = server
        .client_of_user("f-history", "mio")
        .with_header("x-correlation-id", "c-1")
        .with_header("x-causation-id", "k-1");
    let ren = server.client_of_user("f-history", "ren").with_header("x-request-id", "r-2");
    let todo = mio.post("/todos", &json!({ "title": "milk" })).expect_data(201);
    let changed = ren.patch(&path(&todo), &json!({ "completed": true })).expect_data(200);
    let id = text(&todo, "todoId");
    let history = ren.get(&format!("{}/history", path(&todo)));
    let event = |version: u64, event: &Json, kind: &str, data: Json, reason: [&str; 2], user: &str| {
        json!({
            "aggregateType": "Todo",
            "aggregateId": id,
            "aggregateVersion": version,
            "eventId": event["lastEventId"],
            "eventType": kind,
            "data": data,
            "metadata": {
                "correlationId": reason[0],
                "causationId": reason[1],
                "actor": { "userId": user, "familyId": "f-history" },
                "timestamp": event["updatedAt"],
            },
        })
    };
    assert_eq!(
        history.body,
        json!({ "data": [
            event(1, &todo, "TodoCreated", json!({ "title": "milk" }), ["c-1", "k-1"], "mio"),
            // Without an explicit cause the request id is the cause.
            event(2, &changed, "TodoCompleted", json!({ "completed": true }), ["r-2", "r-2"], "ren"),
        ] })
    );
    let first = ren.get(&format!("{}/history?limit=1", path(&todo)));
    assert_eq!(first.list().len(), 1);
    let next = ren.get(&format!("{}/history?limit=1&cursor={}", path(&todo), text(&first.body, "nextCursor")));
    assert_eq!(next.list()[0], history.list()[1]);
    assert_eq!(next.body.get("nextCursor"), None);
}
