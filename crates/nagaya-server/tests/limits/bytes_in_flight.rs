//! Answers that clients do not read, and bodies that they do not send to the end.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Method, routing::get};
use http_body_util::BodyExt as _;
use nagaya_server::Limits;
use nagaya_store::KeyValue;
use nagaya_testing::{Call, Connection, Fault, InjectedFault, PausedTokioClock, RawResponse};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
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
    let in_flight = async || {
        let metrics = desk.server.metrics().await;
        assert!(metrics.contains("\nnagaya_reads_waiting 0.0\n"), "{metrics}");
        let bytes = metrics.lines().find_map(|line| line.strip_prefix("nagaya_bytes_in_flight "));
        bytes.and_then(|bytes| bytes.parse::<f64>().ok()).expect("it is measured") as usize
    };
    assert_eq!(in_flight().await, 0);
    let unread = [ask(&desk, "one").await, ask(&desk, "two").await];
    assert!(unread.iter().all(|(status, _)| status == "200"));
    assert!((2 * LARGE..2 * LARGE + 8192).contains(&in_flight().await));
    assert_eq!(ask(&desk, "three").await.0, "503");
    assert_eq!(desk.connect("three").await.get("/notes").await.status, 200);
}

/// Queries of a tenant's notes wait in the store.
fn pause_queries_of(desk: &Desk, tenant: &str) -> InjectedFault {
    let partition = KeyValue::from(format!("TENANT#{tenant}"));
    let is_theirs = move |call: &Call| matches!(call, Call::Query(query) if query.partition == partition);
    desk.store.inject(Fault::pause_after().matching(is_theirs))
}

/// Starts to list the notes of a tenant.
async fn list(desk: &Desk, tenant: &str) -> JoinHandle<RawResponse> {
    let mut client = desk.connect(tenant).await;
    tokio::spawn(async move { client.get("/notes").await })
}

/// The answer of a request for which only time is missing.
async fn in_time(request: JoinHandle<RawResponse>, clock: &PausedTokioClock) -> RawResponse {
    while !request.is_finished() {
        clock.advance(Duration::from_millis(100)).await;
    }
    request.await.expect("no panic")
}

/// A note may have 90,000 letters of four bytes, so each list of them counts as the largest page.
#[tokio::test]
async fn lists_of_a_tenant_wait_for_each_other_and_others_are_served() {
    let limits = Limits { tenant_bytes_in_flight: 2 * LARGEST_PAGE, time: Duration::MAX, ..Limits::default() };
    let desk = Desk::open(limits).await;
    let clock = PausedTokioClock::pause();
    let queries = pause_queries_of(&desk, "acme");
    let reading = list(&desk, "acme").await;
    queries.wait_for_hit().await;
    let refused = in_time(list(&desk, "acme").await, &clock).await;
    assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(queries.hits(), 1, "it has read nothing");
    assert_eq!(desk.connect("other").await.get("/notes").await.status, 200);
    let waiting = list(&desk, "acme").await;
    queries.remove();
    for read in [reading, waiting] {
        assert_eq!(read.await.expect("no panic").status, 200);
    }
}

#[tokio::test]
async fn lists_of_all_tenants_wait_for_each_other_and_writes_go_on() {
    let limits = Limits { bytes_in_flight: 2 * LARGEST_PAGE, time: Duration::MAX, ..Limits::default() };
    let desk = Desk::open(limits).await;
    let clock = PausedTokioClock::pause();
    let queries = pause_queries_of(&desk, "one");
    let reading = list(&desk, "one").await;
    queries.wait_for_hit().await;
    let waiting = list(&desk, "two").await;
    while !desk.server.metrics().await.contains("nagaya_reads_waiting 1.0") {}
    let created = desk.connect("three").await.post("/notes", &json!({ "title": "Agenda" })).await;
    assert_eq!(created.status, 201);
    let refused = in_time(waiting, &clock).await;
    assert_eq!(refused.problem(), (503, "overloaded".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    queries.remove();
    assert_eq!(reading.await.expect("no panic").status, 200);
    assert_eq!(desk.connect("two").await.get("/notes").await.status, 200);
}

/// The handler of a custom route may wait for anything, and must not keep others from reading meanwhile.
#[tokio::test]
async fn nobody_waits_for_a_custom_route_that_answers_no_page() {
    let desk = Desk::open(Limits { bytes_in_flight: 1024, tenant_bytes_in_flight: 1024, ..Limits::default() }).await;
    let mut waiting = JoinSet::new();
    for _ in 0..3 {
        let mut client = desk.connect("acme").await;
        waiting.spawn(async move { client.get("/hold").await.status.as_u16() });
    }
    desk.wait_until_held(3).await;
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200);
    desk.release(3);
    assert_eq!(waiting.join_all().await, [200; 3]);
}

/// Anybody may load it, and all answers share its bytes.
#[tokio::test]
async fn the_script_of_the_api_page_takes_no_room_from_others() {
    let desk = Desk::open(Limits { bytes_in_flight: LARGE, ..Limits::default() }).await;
    let mut unread = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
        stream.write_all(b"GET /docs/swagger-ui.js HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("sent");
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("an answer");
        assert_eq!(&head, b"HTTP/1.1 200");
        unread.push(stream);
    }
    assert_eq!(ask(&desk, "acme").await.0, "200");
}

/// Such as the keys of the local issuer: anybody may ask for them, and each answer has bytes of its own.
#[tokio::test]
async fn a_large_answer_of_the_server_itself_has_room_like_those_of_systems() {
    let limits = Limits { bytes_in_flight: LARGE, ..Limits::default() };
    let routes = Router::new()
        .route("/more", get(async || "x".repeat(40_000)))
        .route("/little", get(async || "x".repeat(10_000)));
    let desk = Desk::open_with(limits, |server| server.add_routes(routes)).await;
    let mut anybody = desk.server.connect().await;
    let unread = ask(&desk, "acme").await;
    assert_eq!(unread.0, "200");
    assert_eq!(anybody.get("/more").await.problem(), (503, "overloaded".to_owned()));
    assert_eq!(anybody.get("/little").await.status, 200, "small answers need no room");
    drop(unread);
    while anybody.get("/more").await.status != 200 {}
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

/// Announces a body of `size` bytes, or of any size, and sends only so many.
async fn begin_body(desk: &Desk, tenant: &str, size: Option<usize>, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
    let token = desk.server.token(Some(tenant), "ann", &[]);
    let length = size.map_or("transfer-encoding: chunked".to_owned(), |size| format!("content-length: {size}"));
    let head = format!(
        "POST /notes HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
    );
    let chunk = if size.is_none() && sent > 0 { format!("{sent:x}\r\n") } else { String::new() };
    stream.write_all((head + &chunk + &" ".repeat(sent)).as_bytes()).await.expect("sent");
    stream
}

/// The answer as soon as the large body of a note is refused.
async fn refusal(client: &mut Connection) -> RawResponse {
    loop {
        let answer = client.post("/notes", &long_note()).await;
        if answer.status != 201 {
            return answer;
        }
    }
}

#[tokio::test]
async fn a_tenant_that_sends_no_body_to_the_end_is_refused_and_others_are_served() {
    let limits = Limits { tenant_bytes_in_flight: 2 * 100_000, body_bytes: 100_000, ..Limits::default() };
    for size in [Some(100_000), None] {
        let desk = Desk::open(limits.clone()).await;
        let unfinished = [begin_body(&desk, "acme", size, 99_000).await, begin_body(&desk, "acme", size, 99_000).await];
        let mut client = desk.connect("acme").await;
        let refused = refusal(&mut client).await;
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
    let _unfinished = [begin_body(&desk, "one", None, 99_000).await, begin_body(&desk, "two", None, 99_000).await];
    let mut client = desk.connect("three").await;
    assert_eq!(refusal(&mut client).await.problem(), (503, "overloaded".to_owned()));
    assert_eq!(client.post("/notes", &json!({ "title": "Agenda" })).await.status, 201);
}

/// Whoever announces large bodies and sends little of them takes nothing from others.
#[tokio::test]
async fn a_body_takes_room_when_it_comes() {
    let limits = Limits { bytes_in_flight: 2 * 100_000, tenant_bytes_in_flight: 2 * 100_000, ..Limits::default() };
    let desk = Desk::open(limits).await;
    for size in [Some(100_000), None] {
        for sent in [0, 30_000] {
            let mut unfinished = Vec::new();
            for _ in 0..4 {
                unfinished.push(begin_body(&desk, "acme", size, sent).await);
            }
            for tenant in ["acme", "other"] {
                assert_eq!(desk.connect(tenant).await.post("/notes", &long_note()).await.status, 201);
            }
            drop(unfinished);
        }
    }
}

/// The body and the answer of a request have more than the limit together.
#[tokio::test]
async fn a_single_large_write_always_has_room() {
    let desk = Desk::open(Limits { tenant_bytes_in_flight: 1024, bytes_in_flight: 1024, ..Limits::default() }).await;
    assert_eq!(desk.connect("acme").await.post("/notes", &long_note()).await.status, 201);
}

/// The time for reading starts with the answer, not with the connection.
#[tokio::test]
async fn a_client_on_an_old_connection_has_the_whole_time_to_read_its_answer() {
    let desk = Desk::open(Limits::default()).await;
    let clock = PausedTokioClock::pause();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut client = Connection::over(socket.connect(desk.server.address).await.expect("it listens")).await;
    for _ in 0..3 {
        assert_eq!(client.get("/healthz").await.status, 200);
        clock.advance(Duration::from_secs(8)).await;
    }
    let mut client = client.with_token(desk.server.token(Some("acme"), "ann", &[]));
    let response = client.begin(Method::GET, "/large", &[], Body::empty()).await.expect("an answer");
    for _ in 0..5 {
        clock.advance(Duration::from_secs(1)).await;
        assert_eq!(desk.connect("other").await.get("/notes").await.status, 200);
    }
    assert!(response.into_body().collect().await.expect("the whole answer").to_bytes().len() > LARGE);
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
