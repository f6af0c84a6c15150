//! What must not be logged: searches the whole output of a process.

use std::process::Command;

use axum::{body::Body, http::Method};
use nagaya_server::{
    Limits,
    observe::{LogFormat, init},
};
use serde_json::json;

use crate::desk::Desk;

/// Set in the process whose output is searched.
const CAPTURED: &str = "NAGAYA_TEST_LISTENED_TO";
/// Part of everything that a user sends in this test.
const PERSONAL: &str = "keepthistoyourself";
/// The beginning of a token.
const TOKEN: &str = "eyJ";

/// Proves T19.
#[test]
fn no_user_input_is_logged() {
    let itself = std::env::current_exe().expect("this program");
    let test = "masking::server_with_captured_log";
    let run = Command::new(itself)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(CAPTURED, "1")
        .output()
        .expect("it runs");
    let log = String::from_utf8(run.stderr).expect("text");
    assert!(run.status.success(), "{}{log}", String::from_utf8_lossy(&run.stdout));

    // The log is complete: it has every request, and the panic.
    let lines: Vec<_> = log.lines().filter(|line| line.starts_with('{')).collect();
    for status in [201, 200, 400, 404, 422, 401, 500] {
        assert!(lines.iter().any(|line| line.contains(&format!("\"status\":{status},"))), "no {status} in\n{log}");
    }
    let panicked = lines.iter().find(|line| line.contains("a request panicked")).expect("the panic is logged");
    assert!(panicked.contains("\"request\":\"the-panic\"") && panicked.contains("desk.rs:"), "{panicked}");

    for secret in [PERSONAL, TOKEN] {
        let leaks: Vec<_> = log.lines().filter(|line| line.contains(secret)).collect();
        assert!(leaks.is_empty(), "logged: {leaks:#?}");
    }
}

#[tokio::test]
#[ignore = "the test above runs it"]
async fn server_with_captured_log() {
    if std::env::var_os(CAPTURED).is_none() {
        return;
    }
    // All log levels.
    let log = init(LogFormat::Json, "info,nagaya_server=trace,nagaya_tenancy=trace,nagaya_embedded=trace,nagaya=trace");
    let _log = log.expect("a filter");
    let desk = Desk::open(Limits { body_bytes: 4_096, ..Limits::default() }).await;
    let user = format!("{PERSONAL}-user");
    let mut client = desk.server.connect().await.with_token(desk.server.token(Some("acme"), &user, &[]));
    let mail = format!("{PERSONAL}@example.com");
    let note = json!({ "title": PERSONAL, "email": mail, "password": PERSONAL });
    let id = client.post("/notes", &note).await.json()["data"]["noteId"].as_str().expect("an id").to_owned();
    assert_eq!(client.get(&format!("/notes/{id}")).await.status, 200);

    // In a path and in a query, with and without a route.
    assert_eq!(client.get(&format!("/notes/{PERSONAL}")).await.status, 404);
    assert_eq!(client.get(&format!("/{PERSONAL}?{PERSONAL}={PERSONAL}")).await.status, 404);
    assert_eq!(client.get(&format!("/notes?{PERSONAL}={PERSONAL}")).await.status, 400);
    assert_eq!(client.get(&format!("/notes?cursor={PERSONAL}")).await.status, 400);
    // In a field with another type, in an unknown field, and in a body that is not JSON.
    assert_eq!(client.post("/notes", &json!({ "title": "x", "email": PERSONAL })).await.status, 422);
    assert_eq!(client.post("/notes", &json!({ "title": "x", "password": [PERSONAL] })).await.status, 422);
    assert_eq!(client.post("/notes", &json!({ "title": "x", PERSONAL: PERSONAL })).await.status, 422);
    let json = [("content-type", "application/json")];
    assert_eq!(client.send(Method::POST, "/notes", &json, Body::from(PERSONAL)).await.status, 400);
    // In headers with ids.
    let bad_ids = [("x-request-id", mail.as_str()), ("x-correlation-id", &mail), ("x-causation-id", &mail)];
    assert_eq!(client.send(Method::GET, "/notes", &bad_ids, Body::empty()).await.status, 200);
    // In the message of a panic.
    let headers = [("content-type", "application/json"), ("x-request-id", "the-panic")];
    assert_eq!(client.send(Method::POST, "/panic", &headers, Body::from(note.to_string())).await.status, 500);
    // A refused token, and a text that is not a token.
    let mut refused =
        desk.server.connect().await.with_token(format!("{}{PERSONAL}", desk.server.token(Some("acme"), &user, &[])));
    assert_eq!(refused.get("/notes").await.status, 401);
    let mut refused = desk.server.connect().await.with_token(format!("{TOKEN}{PERSONAL}"));
    assert_eq!(refused.get("/notes").await.status, 401);
}
