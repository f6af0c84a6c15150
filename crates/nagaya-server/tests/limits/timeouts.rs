//! Requests and connections that are too slow.

use std::time::Duration;

use axum::{body::Body, http::Method};
use futures_util::{StreamExt as _, stream};
use nagaya_server::Limits;
use nagaya_testing::PausedTokioClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::desk::Desk;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_request_over_the_time_limit_is_cancelled() {
    let desk = Desk::open(Limits { concurrent: 1, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    let clock = PausedTokioClock::pause();
    let asking = tokio::spawn(async move { (client.get("/hold").await, client) });
    desk.wait_until_held(1).await;
    clock.advance(SECOND * 29).await;
    assert!(!asking.is_finished());
    clock.advance(SECOND * 2).await;
    let (got, mut client) = asking.await.expect("no panic");
    assert_eq!(got.problem(), (504, "timeout".to_owned()));
    desk.wait_until_held(0).await;
    assert_eq!(client.get("/notes").await.status, 200, "its room is given back, and the connection goes on");
    let metrics = desk.server.metrics().await;
    assert!(metrics.contains("\nnagaya_requests_rejected_total{reason=\"timeout\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_missing_body_times_out() {
    let desk = Desk::open(Limits { tenant_concurrent: 1, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    let clock = PausedTokioClock::pause();
    let body = stream::iter([Ok::<_, std::io::Error>("{\"title\":")]).chain(stream::pending());
    let asking = tokio::spawn(async move {
        let json = [("content-type", "application/json")];
        client.send(Method::POST, "/notes", &json, Body::from_stream(body)).await
    });
    // When the tenant's only permit is taken, the request is known to wait for its body.
    let mut other = desk.connect("acme").await;
    while other.get("/notes").await.status != 429 {}
    clock.advance(SECOND * 31).await;
    assert_eq!(asking.await.expect("no panic").problem(), (504, "timeout".to_owned()));
    assert_eq!(other.get("/notes").await.status, 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_a_minute() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    let clock = PausedTokioClock::pause();
    for _ in 0..3 {
        assert_eq!(client.get("/notes").await.status, 200);
        clock.advance(SECOND * 65).await;
    }
    assert_eq!(client.get("/notes").await.status, 200);
    clock.advance(SECOND * 80).await;
    client.wait_until_closed().await;
}

#[tokio::test]
async fn a_connection_is_not_idle_while_its_request_is_answered() {
    let desk = Desk::open(Limits { idle: SECOND * 5, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    let clock = PausedTokioClock::pause();
    assert_eq!(client.get("/notes").await.status, 200);
    let asking = tokio::spawn(async move { (client.get("/hold").await, client) });
    desk.wait_until_held(1).await;
    for _ in 0..3 {
        clock.advance(SECOND * 4).await;
        assert_eq!(desk.server.connect().await.get("/healthz").await.status, 200);
    }
    desk.release(1);
    let (got, mut client) = asking.await.expect("no panic");
    assert_eq!(got.status, 200);
    assert_eq!(client.get("/notes").await.status, 200);
}

#[tokio::test]
async fn a_slow_request_head_times_out() {
    let desk = Desk::open(Limits::default()).await;
    let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
    let clock = PausedTokioClock::pause();
    stream.write_all(b"GET /notes HTTP/1.1\r\nhost: localhost\r\n").await.expect("sent");
    // Connections are accepted in order: once the next one is answered, the time of this one has started.
    assert_eq!(desk.server.connect().await.get("/healthz").await.status, 200);
    for _ in 0..3 {
        clock.advance(SECOND * 4).await;
        // The server may already have closed it.
        let _ = stream.write_all(b"x-more: 1\r\n").await;
    }
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).await;
    assert!(ended.is_err() || rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

#[tokio::test]
async fn a_slow_head_on_a_connection_that_was_idle_times_out() {
    let desk = Desk::open(Limits::default()).await;
    let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
    let clock = PausedTokioClock::pause();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut answer = [0; 4096];
    // The timer of the first head is over, and the connection may be idle for longer.
    for _ in 0..2 {
        stream.write_all(request).await.expect("sent");
        assert!(stream.read(&mut answer).await.expect("an answer") > 0);
        clock.advance(SECOND * 20).await;
        assert_eq!(desk.server.connect().await.get("/healthz").await.status, 200);
    }
    stream.write_all(&request[..10]).await.expect("sent");
    assert_eq!(desk.server.connect().await.get("/healthz").await.status, 200);
    clock.advance(SECOND * 11).await;
    for _ in 0..100 {
        assert_eq!(desk.server.connect().await.get("/healthz").await.status, 200);
        match stream.try_read(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            ended => return assert!(ended.is_err() || ended.is_ok_and(|bytes| bytes == 0)),
        }
    }
    panic!("it is not closed");
}

/// The time of a head starts with its first byte, so that a connection may be idle for longer.
#[tokio::test]
async fn a_connection_that_was_idle_has_the_whole_time_for_a_head() {
    let desk = Desk::open(Limits::default()).await;
    let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
    let clock = PausedTokioClock::pause();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut answer = [0; 4096];
    stream.write_all(request).await.expect("sent");
    assert!(stream.read(&mut answer).await.expect("an answer") > 0);
    clock.advance(SECOND * 60).await;
    stream.write_all(&request[..10]).await.expect("sent");
    assert_eq!(desk.server.connect().await.get("/healthz").await.status, 200);
    clock.advance(SECOND * 8).await;
    stream.write_all(&request[10..]).await.expect("sent");
    assert!(stream.read(&mut answer).await.expect("an answer") > 0);
}
