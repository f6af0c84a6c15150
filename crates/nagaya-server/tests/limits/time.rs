//! Requests and connections that take too long.

use std::time::Duration;

use axum::{body::Body, http::Method};
use futures_util::{StreamExt as _, stream};
use nagaya_server::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{clock::Stopped, harness::TestServer};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_request_that_takes_too_long_is_given_up() {
    let server = TestServer::open(Limits { concurrent: 1, ..Limits::default() }).await;
    let mut client = server.connect("acme").await;
    let clock = Stopped::now();
    let asking = tokio::spawn(async move { (client.get("/hold").await, client) });
    server.holding(1).await;
    clock.pass(SECOND * 29).await;
    assert!(!asking.is_finished());
    clock.pass(SECOND * 2).await;
    let (got, mut client) = asking.await.expect("no panic");
    assert_eq!(got.problem(), (504, "timeout".to_owned()));
    server.holding(0).await;
    assert_eq!(client.get("/notes").await.status, 200, "its room is given back, and the connection goes on");
    let figures = client.get("/metrics").await.text;
    assert!(figures.contains("\nnagaya_requests_rejected_total{reason=\"timeout\"} 1\n"), "{figures}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for_any_longer() {
    let server = TestServer::open(Limits { concurrent: 1, ..Limits::default() }).await;
    let mut client = server.connect("acme").await;
    let clock = Stopped::now();
    let body = stream::iter([Ok::<_, std::io::Error>("{\"title\":")]).chain(stream::pending());
    let asking = tokio::spawn(async move {
        let json = [("content-type", "application/json")];
        client.send(Method::POST, "/notes", &json, Body::from_stream(body)).await
    });
    // It has come as far as it will when there is no room for another.
    let mut other = server.connect("acme").await;
    while other.get("/notes").await.status != 503 {}
    clock.pass(SECOND * 31).await;
    assert_eq!(asking.await.expect("no panic").problem(), (504, "timeout".to_owned()));
    assert_eq!(other.get("/notes").await.status, 200);
}

#[tokio::test]
async fn a_connection_may_be_idle_for_a_minute_and_not_for_ever() {
    let server = TestServer::open(Limits::default()).await;
    let mut client = server.connect("acme").await;
    let clock = Stopped::now();
    for _ in 0..3 {
        assert_eq!(client.get("/notes").await.status, 200);
        clock.pass(SECOND * 65).await;
    }
    assert_eq!(client.get("/notes").await.status, 200);
    clock.pass(SECOND * 80).await;
    client.closed().await;
}

#[tokio::test]
async fn a_head_that_comes_by_bits_does_not_hold_its_connection_for_ever() {
    let server = TestServer::open(Limits::default()).await;
    let mut stream = server.stream().await;
    let clock = Stopped::now();
    stream.write_all(b"GET /notes HTTP/1.1\r\nhost: localhost\r\n").await.expect("sent");
    // Connections are accepted one after the other: when the next one is answered, this one's time has begun.
    assert_eq!(server.anonymous().await.get("/healthz").await.status, 200);
    for _ in 0..3 {
        clock.pass(SECOND * 30).await;
        // The server may be faster, and have closed it.
        let _ = stream.write_all(b"x-more: 1\r\n").await;
    }
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).await;
    assert!(ended.is_err() || rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}
