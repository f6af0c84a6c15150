//! `Idempotency-Key`.

use std::time::Duration;

use serde_json::json;

use crate::harness::{TestServer, TodoClient as _, path, text, todo_server};

/// Proves T8.
#[test]
fn an_idempotency_key_runs_a_request_once() {
    a_repeated_request_makes_one_event_and_gets_the_same_answer(&todo_server());
}

pub(crate) fn a_repeated_request_makes_one_event_and_gets_the_same_answer(server: &TestServer) {
    let mio = server.client_of_user("f-once", "mio");
    let keyed = mio.with_header("idempotency-key", "123e4567-e89b-12d3-a456-426614174000");
    let milk = json!({ "title": "milk" });
    let first = keyed.post("/todos", &milk);
    let todo = first.expect_data(201);
    // Repeated concurrently, later, and after the todo has changed.
    std::thread::scope(|scope| {
        let again: Vec<_> = (0..50).map(|_| scope.spawn(|| keyed.post("/todos", &milk))).collect();
        for answer in again {
            assert_eq!(answer.join().expect("no panic").body, first.body);
        }
    });
    mio.patch(&path(&todo), &json!({ "title": "bread" })).expect_data(200);
    let again = keyed.post("/todos", &milk);
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!((again.header("etag"), again.header("location")), (first.header("etag"), first.header("location")));
    mio.wait_for_list("/todos", &["bread"]);

    // Another request with the same key is refused; the key of another user or family is a different key.
    keyed.post("/todos", &json!({ "title": "eggs" })).expect_problem(422, "idempotency_key_reused");
    keyed.patch(&path(&todo), &milk).expect_problem(422, "idempotency_key_reused");
    for (family, user) in [("f-once", "ren"), ("f-once-other", "mio")] {
        let other =
            server.client_of_user(family, user).with_header("idempotency-key", "123e4567-e89b-12d3-a456-426614174000");
        assert_ne!(text(&other.post("/todos", &milk).expect_data(201), "todoId"), text(&todo, "todoId"));
    }

    // Also for changes and deletions.
    let keyed = mio.with_header("idempotency-key", "change");
    let changed = keyed.patch(&path(&todo), &json!({ "title": "tea" })).expect_data(200);
    mio.patch(&path(&todo), &json!({ "title": "coffee" })).expect_data(200);
    assert_eq!(keyed.patch(&path(&todo), &json!({ "title": "tea" })).expect_data(200), changed);
    let keyed = mio.with_header("idempotency-key", "delete");
    assert_eq!(keyed.delete(&path(&todo)).status, 204);
    assert_eq!(keyed.delete(&path(&todo)).status, 204);
    mio.delete(&path(&todo)).expect_problem(404, "not_found");
    // What has been deleted since is not answered.
    let created = mio.with_header("idempotency-key", "123e4567-e89b-12d3-a456-426614174000");
    created.post("/todos", &milk).expect_problem(410, "result_deleted");
    let changed = mio.with_header("idempotency-key", "change");
    changed.patch(&path(&todo), &json!({ "title": "tea" })).expect_problem(410, "result_deleted");
    assert_eq!(mio.get(&format!("{}/history", path(&todo))).list().len(), 5);
}

/// Proves the expiry part of T8.
#[test]
fn an_idempotency_key_expires() {
    an_idempotency_key_can_be_reused_after_a_day(&todo_server());
}

pub(crate) fn an_idempotency_key_can_be_reused_after_a_day(server: &TestServer) {
    let keyed = server.client_of_user("f-expiry", "mio").with_header("idempotency-key", "key");
    let first = keyed.post("/todos", &json!({ "title": "a" })).expect_data(201);
    server.clock.advance(Duration::from_secs(23 * 3_600));
    assert_eq!(keyed.post("/todos", &json!({ "title": "a" })).expect_data(201), first);
    server.clock.advance(Duration::from_secs(3_601));
    let second = keyed.post("/todos", &json!({ "title": "b" })).expect_data(201);
    assert_ne!(first["todoId"], second["todoId"]);
    assert_eq!(keyed.post("/todos", &json!({ "title": "b" })).expect_data(201), second);
}
