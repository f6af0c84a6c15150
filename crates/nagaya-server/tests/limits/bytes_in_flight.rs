//! Answers that clients do not read, and bodies that they do not send to the end.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, http::Method};
use nagaya_server::Limits;
use nagaya_testing::{Call, Connection, Fault, PausedTokioClock, RawResponse};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use crate::desk::{Desk, LARGE};

/// Bytes of the largest page.
const LARGEST_PAGE: usize = nagaya_tenancy::MAX_PAGE_BYTES;

/// Asks for a large answer, and reads nothing of it but the status. The buffer of the socket is small.
async fn ask(desk: &Desk, tenant: &str) -> (String, TcpStream) {
    ask_by(desk, tenant, "GET").await
}

/// The same by another method.
async fn ask_by(desk: &Desk, tenant: &str, method: &str) -> (String, TcpStream) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(desk.server.address).await.expect("it listens");
    let token = desk.server.token(Some(tenant), "ann", &[]);
    let head = format!("{method} /large HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.expect("an answer");
    (String::from_utf8_lossy(&head[9..]).into_owned(), stream)
}

#[tokio::test]
async fn a_tenant_that_reads_nothing_is_refused_and_others_are_served() {
    let desk = Desk::open(Limits { tenant_bytes_in_flight: 2 * LARGE + 1024, ..Limits::default() }).await;
    let (first, second) = (ask(&desk, "acme").await, ask(&desk, "acme").await);
    assert_eq!((first.0.as_str(), second.0.as_str()), ("200", "200"));
    assert_eq!(ask(&desk, "acme").await.0, "429");
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200, "small answers need no room");
    assert_eq!(ask(&desk, "other").await.0, "200");
    // Room comes back with the connection.
    drop(first);
    while ask(&desk, "acme").await.0 != "200" {}
}

#[tokio::test]
async fn unread_answers_of_all_tenants_together_are_limited() {
    let desk = Desk::open(Limits { bytes_in_flight: 2 * LARGE + 8192, ..Limits::default() }).await;
    let unread = [ask(&desk, "one").await, ask(&desk, "two").await];
    assert!(unread.iter().all(|(status, _)| status == "200"));
    assert_eq!(ask(&desk, "three").await.0, "503");
    assert_eq!(desk.connect("three").await.get("/notes").await.status, 200);
}

/// What is read and not yet written as an answer is limited too: nobody knows how much a custom route reads, so it counts as the
/// largest page.
#[tokio::test]
async fn reads_of_a_tenant_wait_for_each_other_and_others_are_served() {
    let desk = Desk::open(Limits { tenant_bytes_in_flight: 2 * LARGEST_PAGE, ..Limits::default() }).await;
    let mut reading = hold(&desk, ["acme"; 4]).await;
    desk.wait_until_held(1).await;
    let mut other = desk.connect("other").await;
    for _ in 0..20 {
        assert_eq!(other.get("/notes").await.status, 200);
        desk.wait_until_held(1).await;
    }
    for _ in 0..4 {
        desk.wait_until_held(1).await;
        desk.release(1);
        assert_eq!(reading.join_next().await.expect("a request").expect("no panic"), 200);
    }
}

#[tokio::test]
async fn reads_of_all_tenants_wait_for_each_other_and_writes_go_on() {
    let desk = Desk::open(Limits { bytes_in_flight: 2 * LARGEST_PAGE, ..Limits::default() }).await;
    let mut reading = hold(&desk, ["one", "two", "three"]).await;
    desk.wait_until_held(1).await;
    let mut other = desk.connect("four").await;
    for at in 0..20 {
        assert_eq!(other.post("/notes", &json!({ "title": at.to_string() })).await.status, 201);
        desk.wait_until_held(1).await;
    }
    desk.release(3);
    while let Some(status) = reading.join_next().await {
        assert_eq!(status.expect("no panic"), 200);
    }
    assert_eq!(other.get("/notes").await.status, 200);
}

/// Requests that are held until the test releases them, once the server allows them to read.
async fn hold<const N: usize>(desk: &Desk, tenants: [&str; N]) -> JoinSet<u16> {
    let mut reading = JoinSet::new();
    for tenant in tenants {
        let mut client = desk.connect(tenant).await;
        reading.spawn(async move { client.get("/hold").await.status.as_u16() });
    }
    reading
}

/// A body with a long text, which the answer repeats.
fn long_note() -> serde_json::Value {
    json!({ "title": "Minutes", "text": "x".repeat(90_000) })
}

async fn patch(client: &mut Connection, path: &str) -> RawResponse {
    let json = [("content-type", "application/json")];
    client.send(Method::PATCH, path, &json, Body::from(r#"{"title":"Changed"}"#)).await
}

#[tokio::test]
async fn a_write_whose_answer_would_have_no_room_is_not_done() {
    let desk = Desk::open(Limits { tenant_bytes_in_flight: LARGE, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    let created = client.post("/notes", &json!({ "title": "Minutes" })).await.json();
    let path = format!("/notes/{}", created["data"]["noteId"].as_str().expect("an id"));
    let unread = ask(&desk, "acme").await;
    assert_eq!(unread.0, "200");
    for refused in [client.post("/notes", &long_note()).await, patch(&mut client, &path).await] {
        assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(client.get("/notes").await.json()["data"], json!([created["data"]]), "nothing was written");
    let small = client.post("/notes", &json!({ "title": "Agenda" })).await;
    assert_eq!(small.status, 201, "small answers need no room");
    assert_eq!(desk.connect("other").await.post("/notes", &long_note()).await.status, 201);
    // Room comes back with the connection.
    drop(unread);
    while patch(&mut client, &path).await.status != 200 {}
}

#[tokio::test]
async fn writes_of_all_tenants_have_room_for_their_answers_or_are_not_done() {
    let desk = Desk::open(Limits { bytes_in_flight: LARGE, ..Limits::default() }).await;
    let (status, _unread) = ask(&desk, "one").await;
    assert_eq!(status, "200");
    let mut client = desk.connect("two").await;
    let refused = client.post("/notes", &long_note()).await;
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(client.get("/notes").await.json()["data"], json!([]));
    assert_eq!(client.post("/notes", &json!({ "title": "Agenda" })).await.status, 201);
    let metrics = desk.server.metrics().await;
    assert!(metrics.contains(r#"nagaya_requests_rejected_total{reason="overload"} 1"#), "{metrics}");
}

/// A note may have 90,000 letters of four bytes: two of them and not three fit into a megabyte.
#[tokio::test]
async fn writes_at_the_same_time_have_room_for_all_of_their_answers() {
    let desk = Desk::open(Limits { tenant_bytes_in_flight: 1024 * 1024, ..Limits::default() }).await;
    let created = desk.connect("acme").await.post("/notes", &long_note()).await.json();
    let path = format!("/notes/{}", created["data"]["noteId"].as_str().expect("an id"));
    let release = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&release);
    desk.store.inject(
        Fault::run_before(move |_| {
            let held = Arc::clone(&held);
            async move { held.acquire().await.expect("it is open").forget() }
        })
        .matching(Call::is_write),
    );
    let mut writing = JoinSet::new();
    for _ in 0..5 {
        let (mut client, path) = (desk.connect("acme").await, path.clone());
        writing.spawn(async move { patch(&mut client, &path).await.status.as_u16() });
    }
    for _ in 0..3 {
        assert_eq!(writing.join_next().await.expect("a request").expect("no panic"), 429);
    }
    release.add_permits(100);
    assert_eq!(writing.join_all().await, [200, 200]);
}

/// Nobody knows what the handler of a custom route will answer.
#[tokio::test]
async fn an_answer_of_a_write_counts_whatever_its_size_is() {
    let desk = Desk::open(Limits { tenant_bytes_in_flight: LARGE / 2, ..Limits::default() }).await;
    let first = ask_by(&desk, "acme", "POST").await;
    assert_eq!(first.0, "200");
    assert_eq!(ask_by(&desk, "acme", "POST").await.0, "429");
    assert_eq!(ask(&desk, "acme").await.0, "429");
    drop(first);
    while ask_by(&desk, "acme", "POST").await.0 != "200" {}
}

/// Announces a body of this size, or none, and sends only its beginning.
async fn begin_body(desk: &Desk, tenant: &str, size: Option<usize>) -> TcpStream {
    let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
    let token = desk.server.token(Some(tenant), "ann", &[]);
    let length = size.map_or("transfer-encoding: chunked".to_owned(), |size| format!("content-length: {size}"));
    let head = format!(
        "POST /notes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

#[tokio::test]
async fn a_tenant_that_sends_no_body_to_the_end_is_refused_and_others_are_served() {
    let limits = Limits { tenant_bytes_in_flight: 2 * 100_000, body_bytes: 100_000, ..Limits::default() };
    for size in [Some(100_000), None] {
        let desk = Desk::open(limits.clone()).await;
        let unfinished = [begin_body(&desk, "acme", size).await, begin_body(&desk, "acme", size).await];
        let mut client = desk.connect("acme").await;
        // The two requests have their room as soon as their heads are read.
        let refused = loop {
            let answer = client.post("/notes", &long_note()).await;
            if answer.status != 201 {
                break answer;
            }
        };
        assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(client.post("/notes", &json!({ "title": "Agenda" })).await.status, 201, "small bodies need no room");
        assert_eq!(desk.connect("other").await.post("/notes", &long_note()).await.status, 201);
        // Room comes back with the connections.
        drop(unfinished);
        while client.post("/notes", &long_note()).await.status != 201 {}
    }
}

#[tokio::test]
async fn bodies_of_all_tenants_together_are_limited() {
    let limits = Limits { bytes_in_flight: 2 * 100_000, body_bytes: 100_000, ..Limits::default() };
    let desk = Desk::open(limits).await;
    let _unfinished = [begin_body(&desk, "one", None).await, begin_body(&desk, "two", None).await];
    let mut client = desk.connect("three").await;
    let refused = loop {
        let answer = client.post("/notes", &long_note()).await;
        if answer.status != 201 {
            break answer;
        }
    };
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert_eq!(client.post("/notes", &json!({ "title": "Agenda" })).await.status, 201);
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_cut() {
    let desk = Desk::open(Limits { concurrent: 1, tenant_concurrent: 1, ..Limits::default() }).await;
    let clock = PausedTokioClock::pause();
    let (status, mut slow) = ask(&desk, "acme").await;
    assert_eq!(status, "200");
    // Its request is one of its tenant until it has read the answer; the server goes on.
    let mut same_tenant = desk.connect("acme").await;
    assert_eq!(same_tenant.get("/notes").await.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(desk.connect("other").await.get("/notes").await.status, 200);
    while same_tenant.get("/notes").await.status != 200 {
        clock.advance(Duration::from_secs(1)).await;
    }
    let mut rest = Vec::new();
    assert!(slow.read_to_end(&mut rest).await.is_err() || rest.len() < LARGE, "{} bytes", rest.len());
}
