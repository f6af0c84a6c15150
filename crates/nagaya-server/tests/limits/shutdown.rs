//! Graceful shutdown.

use std::time::Duration;

use axum::{body::Body, http::Method};
use nagaya_server::Limits;
use nagaya_testing::PausedTokioClock;
use tokio::net::TcpStream;

use crate::desk::Desk;

#[tokio::test]
async fn started_requests_are_finished_and_new_ones_are_refused() {
    let mut desk = Desk::open(Limits::default()).await;
    let (mut busy, mut idle) = (desk.connect("acme").await, desk.connect("acme").await);
    assert_eq!(idle.get("/notes").await.status, 200);
    let held = tokio::spawn(async move { (busy.get("/hold").await, busy) });
    desk.wait_until_held(1).await;

    desk.server.stop();
    idle.wait_until_closed().await;
    assert!(TcpStream::connect(desk.server.address).await.is_err(), "the port is closed");
    assert!(!held.is_finished());
    assert!(desk.server.is_running(), "the shutdown waits for the request");

    desk.release(1);
    let (got, mut busy) = held.await.expect("no panic");
    assert_eq!((got.status.as_u16(), got.text.as_str()), (200, r#"{"data":"held"}"#));
    busy.wait_until_closed().await;
    desk.server.wait_until_stopped().await;
}

#[tokio::test]
async fn a_body_in_transit_is_read_completely() {
    let mut desk = Desk::open(Limits { tenant_concurrent: 1, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    let (body, rest) = tokio::sync::oneshot::channel::<&str>();
    let chunks = futures_util::stream::once(async { Ok::<_, std::io::Error>(rest.await.expect("the rest")) });
    let asking = tokio::spawn(async move {
        let json = [("content-type", "application/json")];
        client.send(Method::POST, "/notes", &json, Body::from_stream(chunks)).await
    });
    let mut other = desk.server.connect().await;
    assert_eq!(other.get("/healthz").await.status, 200);
    // When the tenant's only permit is taken, the request is known to wait for its body.
    let mut same_tenant = desk.connect("acme").await;
    while same_tenant.get("/notes").await.status != 429 {}
    desk.server.stop();
    other.wait_until_closed().await;
    assert!(desk.server.is_running());
    body.send(r#"{"title":"Buy milk"}"#).expect("it is waited for");
    assert_eq!(asking.await.expect("no panic").status, 201);
    desk.server.wait_until_stopped().await;
}

#[tokio::test]
async fn during_the_shutdown_delay_a_server_is_unready_and_still_answers() {
    let mut desk = Desk::open_with(Limits::default(), |server| server.shutdown_delay(Duration::from_secs(10))).await;
    let mut client = desk.connect("acme").await;
    assert_eq!(client.get("/readyz").await.status, 200);
    let clock = PausedTokioClock::pause();
    desk.server.stop();
    while client.get("/readyz").await.status == 200 {}
    assert_eq!(client.get("/readyz").await.problem(), (503, "stopping".to_owned()));
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.get("/notes").await.status, 200);
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200, "a new connection is still accepted");

    clock.advance(Duration::from_secs(11)).await;
    client.wait_until_closed().await;
    desk.server.wait_until_stopped().await;
}

#[tokio::test]
async fn an_endless_request_does_not_block_the_shutdown() {
    let mut desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    let held = tokio::spawn(async move { client.get("/hold").await });
    desk.wait_until_held(1).await;
    let clock = PausedTokioClock::pause();
    desk.server.stop();
    clock.advance(Duration::from_secs(31)).await;
    assert_eq!(held.await.expect("no panic").problem(), (504, "timeout".to_owned()));
    desk.server.wait_until_stopped().await;
}
