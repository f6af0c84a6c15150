//! `Idempotency-Key`.

use serde_json::json;

use crate::desk::desk;

/// Proves the HTTP part of T8.
#[test]
fn the_same_key_and_body_give_the_same_answer_and_one_item() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]).with_header("idempotency-key", "k-1");
    let first = t1.post("/v1/tickets", &json!({ "subject": "a", "status": "open" }));
    first.expect_data(201);
    // The order of the fields does not matter.
    let again = t1.request_bytes("POST", "/v1/tickets", Some(br#"{ "status": "open", "subject": "a" }"#));
    assert_eq!((again.status, &again.body, again.header("location")), (201, &first.body, first.header("location")));
    assert_eq!(again.header("etag"), first.header("etag"));
    assert_eq!(t1.get("/v1/tickets").expect_data(200).as_array().map(Vec::len), Some(1));

    // What others have written since is not answered: the caller may not be allowed to read it.
    let keyed = server.user_with("t1", "u1", &["admin"]).with_header("idempotency-key", "k-4");
    let created = keyed.post("/v1/tickets", &json!({ "subject": "mine" }));
    let id = created.expect_data(201)["ticketId"].as_str().expect("an id").to_owned();
    let other = server.user_with("t1", "u2", &["admin"]);
    other.patch(&format!("/v1/tickets/{id}"), &json!({ "subject": "internal" })).expect_data(200);
    let again = keyed.post("/v1/tickets", &json!({ "subject": "mine" }));
    again.expect_problem(409, "result_changed");
    assert!(again.body.to_string().contains(&id) && !again.body.to_string().contains("internal"), "{}", again.body);
    assert_eq!(other.delete(&format!("/v1/tickets/{id}")).status, 204);

    // What has been deleted since is not answered.
    let keyed = server.user_with("t1", "u1", &["admin"]).with_header("idempotency-key", "k-3");
    let deleted = keyed.post("/v1/tickets", &json!({ "subject": "gone" }));
    let id = deleted.expect_data(201)["ticketId"].as_str().expect("an id").to_owned();
    assert_eq!(t1.delete(&format!("/v1/tickets/{id}")).status, 204);
    let again = keyed.post("/v1/tickets", &json!({ "subject": "gone" }));
    again.expect_problem(410, "result_deleted");
    assert!(!again.body.to_string().contains(&id), "{}", again.body);

    let other = t1.post("/v1/tickets", &json!({ "subject": "b" }));
    other.expect_problem(422, "idempotency_key_reused");
    t1.post("/v1/teams", &json!({ "name": "a" })).expect_problem(422, "idempotency_key_reused");
    // A failed request is not stored.
    let t1 = server.user_with("t1", "u1", &["admin"]).with_header("idempotency-key", "k-2");
    t1.post("/v1/tickets", &json!({})).expect_problem(422, "invalid");
    t1.post("/v1/tickets", &json!({ "subject": "b" })).expect_data(201);

    // Another tenant has its own keys.
    let t2 = server.user_with("t2", "u1", &["admin"]).with_header("idempotency-key", "k-1");
    let theirs = t2.post("/v1/tickets", &json!({ "subject": "a", "status": "open" }));
    assert_ne!(theirs.expect_data(201)["ticketId"], first.body["data"]["ticketId"]);
    let long = server.user_with("t1", "u1", &["admin"]).with_header("idempotency-key", &"k".repeat(256));
    long.post("/v1/tickets", &json!({ "subject": "b" })).expect_problem(400, "bad_idempotency_key");
}
