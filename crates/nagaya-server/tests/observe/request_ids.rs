//! Request ids, and the address of the client.

use axum::{body::Body, http::Method};
use nagaya_server::Limits;
use serde_json::json;

use crate::desk::Desk;

/// Proves the ids' part of T19.
#[tokio::test]
async fn request_ids_are_accepted_and_reach_the_handler() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    let ids = [("x-request-id", "r-1"), ("x-correlation-id", "c:2"), ("x-causation-id", "d.3")];
    let got = client.send(Method::GET, "/origin", &ids, Body::empty()).await;
    let expected = json!({ "request": "r-1", "correlation": "c:2", "causation": "d.3", "address": "127.0.0.1" });
    assert_eq!(got.json()["data"], expected);
    assert_eq!(got.header("x-request-id"), Some("r-1"));
}

/// Proves the ids' part of T19.
#[tokio::test]
async fn a_request_without_an_id_gets_one_in_the_answer() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    let got = client.get("/origin").await;
    let origin = &got.json()["data"];
    assert_eq!(got.header("x-request-id"), origin["request"].as_str());
    assert_eq!(origin["correlation"], origin["request"]);
    assert_eq!(origin["causation"], json!(null));
    assert_eq!(got.header("x-request-id").map(str::len), Some(26), "a ULID");

    let other = client.get("/nowhere").await;
    assert_ne!(other.header("x-request-id"), got.header("x-request-id"));
    assert_eq!(other.json()["requestId"].as_str(), other.header("x-request-id"), "problems name it as well");
}

#[tokio::test]
async fn every_response_has_the_nosniff_header() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    for path in ["/notes", "/nowhere", "/healthz"] {
        assert_eq!(client.get(path).await.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}

#[tokio::test]
async fn forwarded_addresses_are_used_only_from_trusted_proxies() {
    for (trusted, expected) in [(0, "127.0.0.1"), (1, "198.51.100.2"), (2, "192.0.2.1")] {
        let desk = Desk::open_with(Limits::default(), move |server| server.trusted_proxies(trusted)).await;
        let forwarded = [("x-forwarded-for", "203.0.113.6, 192.0.2.1, 198.51.100.2")];
        let got = desk.connect("acme").await.send(Method::GET, "/origin", &forwarded, Body::empty()).await;
        assert_eq!(got.json()["data"]["address"], expected, "{trusted}");
    }
}
