//! More concurrent requests than the limit.

use axum::{body::Body, http::Method};
use nagaya_server::Limits;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::desk::Desk;

#[tokio::test]
async fn over_the_limit_requests_get_503_and_probes_are_answered() {
    let desk = Desk::open(Limits { concurrent: 2, ..Limits::default() }).await;
    let (mut first, mut second) = (desk.connect("acme").await, desk.connect("acme").await);
    let held = tokio::spawn(async move { (first.get("/hold").await, second.get("/notes").await, first) });
    let mut third = desk.connect("acme").await;
    let also_held = tokio::spawn(async move { (third.get("/hold").await, third) });
    desk.wait_until_held(2).await;

    let mut late = desk.connect("acme").await;
    let got = late.get("/notes").await;
    assert_eq!(got.problem(), (503, "overloaded".to_owned()));
    assert_eq!(got.header("retry-after"), Some("1"));
    assert!(got.header("x-request-id").is_some());
    // Probes are still answered.
    assert_eq!(late.get("/healthz").await.text, r#"{"status":"ok"}"#);
    assert_eq!(late.get("/readyz").await.text, r#"{"status":"ready"}"#);
    let metrics = desk.server.metrics().await;
    assert!(metrics.contains("\nnagaya_requests_in_flight 2\n"), "{metrics}");
    assert!(metrics.contains("\nnagaya_requests_rejected_total{reason=\"overload\"} 1\n"), "{metrics}");

    // The accepted requests succeed, and release their permits.
    desk.release(2);
    let (got, after, _) = held.await.expect("no panic");
    assert_eq!((got.status.as_u16(), after.status.as_u16()), (200, 200));
    assert_eq!(also_held.await.expect("no panic").0.status, 200);
    assert_eq!(late.get("/notes").await.status, 200);
}

#[tokio::test]
async fn slow_requests_of_one_tenant_leave_capacity_for_others() {
    let desk = Desk::open(Limits { tenant_concurrent: 1, ..Limits::default() }).await;
    let mut slow = desk.connect("slow").await;
    let held = tokio::spawn(async move { slow.get("/hold").await });
    desk.wait_until_held(1).await;

    let got = desk.connect("slow").await.get("/notes").await;
    assert_eq!(got.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(got.header("retry-after"), Some("1"));
    assert_eq!(desk.connect("quick").await.get("/notes").await.status, 200);

    desk.release(1);
    assert_eq!(held.await.expect("no panic").status, 200);
    assert_eq!(desk.connect("slow").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_end_occupies_its_tenant_alone() {
    let desk = Desk::open(Limits { concurrent: 1, tenant_concurrent: 1, ..Limits::default() }).await;
    let token = desk.server.token(Some("slow"), "ann", &[]);
    let _unfinished = begin_body(&desk, &format!("authorization: Bearer {token}\r\n")).await;
    assert_eq!(desk.connect("slow").await.get("/notes").await.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(desk.connect("quick").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn a_body_without_a_token_occupies_nobody() {
    let desk = Desk::open(Limits { concurrent: 1, ..Limits::default() }).await;
    let _unfinished = begin_body(&desk, "").await;
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200);
}

/// A request whose body the server reads and which does not end.
async fn begin_body(desk: &Desk, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
    let head = "POST /notes HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n";
    let head = format!("{head}expect: 100-continue\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(answer, *b"HTTP/1.1 100", "it reads the body");
    stream
}

#[tokio::test]
async fn a_client_that_disconnects_releases_its_permit() {
    let desk = Desk::open(Limits { concurrent: 1, tenant_concurrent: 1, ..Limits::default() }).await;
    let mut gone = desk.connect("acme").await;
    let asking = tokio::spawn(async move { gone.try_send(Method::GET, "/hold", &[], Body::empty()).await.map(drop) });
    desk.wait_until_held(1).await;
    asking.abort();
    desk.wait_until_held(0).await;
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_closes_the_oldest_without_a_request() {
    let desk = Desk::open(Limits { connections: 2, ..Limits::default() }).await;
    let mut busy = desk.connect("acme").await;
    let held = tokio::spawn(async move { busy.get("/hold").await.status });
    desk.wait_until_held(1).await;
    let mut idle = desk.connect("acme").await;
    assert_eq!(idle.get("/notes").await.status, 200);

    let mut third = desk.connect("acme").await;
    assert_eq!(third.get("/notes").await.status, 200);
    idle.wait_until_closed().await;
    let metrics = desk.server.metrics().await;
    assert!(metrics.contains("\nnagaya_connections 2\n"), "{metrics}");
    desk.release(1);
    assert_eq!(held.await.expect("no panic"), 200, "a connection with a request stays");
}

/// Sockets that send a byte now and then keep nobody out, also from their own address.
#[tokio::test]
async fn connections_that_send_no_request_keep_nobody_out() {
    let limits = Limits { connections: 60, connections_per_address: 50, ..Limits::default() };
    let desk = Desk::open(limits).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
        // The server may have closed it already.
        let _ = stream.write_all(b"G").await;
        slow.push(stream);
        if slow.len() % 20 == 0 {
            assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200, "after {} of them", slow.len());
        }
    }
    let metrics = desk.server.metrics().await;
    let open = metrics.lines().find_map(|line| line.strip_prefix("nagaya_connections ")).expect("it is measured");
    assert!(open.parse::<u32>().expect("a number") <= 50, "{open}");
}

#[tokio::test]
async fn a_tenant_has_a_limited_number_of_streams() {
    let desk = Desk::open(Limits { tenant_streams: 1, streams: 2, concurrent: 2, ..Limits::default() }).await;
    let open = async |tenant| {
        let mut client = desk.connect(tenant).await;
        let response = client.begin(Method::GET, "/stream", &[], Body::empty()).await.expect("an answer");
        (response.status().as_u16(), response, client)
    };
    let first = open("acme").await;
    let second = open("acme").await;
    let other = open("other").await;
    let beyond = open("third").await;
    assert_eq!([first.0, second.0, other.0, beyond.0], [200, 429, 200, 503]);
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200, "streams take no place of requests");
    drop(first);
    while open("acme").await.0 != 200 {}
}
