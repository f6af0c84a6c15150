//! Stopping without losing anything.

use std::time::Duration;

use axum::{body::Body, http::Method};
use nagaya_server::Limits;
use tokio::net::TcpStream;

use crate::{clock::Stopped, harness::TestServer};

#[tokio::test]
async fn what_has_begun_is_finished_and_nothing_new_begins() {
    let mut server = TestServer::open(Limits::default()).await;
    let (mut busy, mut idle) = (server.connect("acme").await, server.connect("acme").await);
    assert_eq!(idle.get("/notes").await.status, 200);
    let held = tokio::spawn(async move { (busy.get("/hold").await, busy) });
    server.holding(1).await;

    server.stop();
    idle.closed().await;
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody listens any more");
    assert!(!held.is_finished());
    assert!(server.is_running(), "whoever waits for the server to stop waits for the request");

    server.release(1);
    let (got, mut busy) = held.await.expect("no panic");
    assert_eq!((got.status.as_u16(), got.text.as_str()), (200, r#"{"data":"held"}"#));
    busy.closed().await;
    server.stopped().await;
}

#[tokio::test]
async fn a_body_that_is_being_sent_is_read_to_its_end() {
    let mut server = TestServer::open(Limits::default()).await;
    let mut client = server.connect("acme").await;
    let (body, rest) = tokio::sync::oneshot::channel::<&str>();
    let chunks = futures_util::stream::once(async { Ok::<_, std::io::Error>(rest.await.expect("the rest")) });
    let asking = tokio::spawn(async move {
        let json = [("content-type", "application/json")];
        client.send(Method::POST, "/notes", &json, Body::from_stream(chunks)).await
    });
    let mut other = server.anonymous().await;
    while !other.get("/metrics").await.text.contains("\nnagaya_requests_in_flight 1\n") {}
    server.stop();
    other.closed().await;
    assert!(server.is_running());
    body.send(r#"{"title":"Buy milk"}"#).expect("it is waited for");
    assert_eq!(asking.await.expect("no panic").status, 201);
    server.stopped().await;
}

#[tokio::test]
async fn in_its_grace_a_server_says_that_it_stops_and_answers_all_the_same() {
    let mut server = TestServer::open_with(Limits::default(), |server| server.grace(Duration::from_secs(10))).await;
    let mut client = server.connect("acme").await;
    assert_eq!(client.get("/readyz").await.status, 200);
    let clock = Stopped::now();
    server.stop();
    while client.get("/readyz").await.status == 200 {}
    assert_eq!(client.get("/readyz").await.problem(), (503, "stopping".to_owned()));
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.get("/notes").await.status, 200);
    assert_eq!(server.connect("acme").await.get("/notes").await.status, 200, "a new connection is still accepted");

    clock.pass(Duration::from_secs(11)).await;
    client.closed().await;
    server.stopped().await;
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_keep_the_server_from_stopping() {
    let mut server = TestServer::open(Limits::default()).await;
    let mut client = server.connect("acme").await;
    let held = tokio::spawn(async move { client.get("/hold").await });
    server.holding(1).await;
    let clock = Stopped::now();
    server.stop();
    clock.pass(Duration::from_secs(31)).await;
    assert_eq!(held.await.expect("no panic").problem(), (504, "timeout".to_owned()));
    server.stopped().await;
}
