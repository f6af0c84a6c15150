//! Answers that clients do not read.

use std::time::Duration;

use nagaya_server::Limits;
use nagaya_testing::PausedTokioClock;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::desk::{Desk, LARGE};

/// Asks for a large answer, and reads nothing of it but the status. The buffer of the socket is small.
async fn ask(desk: &Desk, tenant: &str) -> (String, TcpStream) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(desk.server.address).await.expect("it listens");
    let token = desk.server.token(Some(tenant), "ann", &[]);
    let head = format!("GET /large HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.expect("an answer");
    (String::from_utf8_lossy(&head[9..]).into_owned(), stream)
}

#[tokio::test]
async fn a_tenant_that_reads_nothing_is_refused_and_others_are_served() {
    let desk = Desk::open(Limits { tenant_answer_bytes: 2 * LARGE + 1024, ..Limits::default() }).await;
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
    let desk = Desk::open(Limits { answer_bytes: 2 * LARGE + 8192, ..Limits::default() }).await;
    let unread = [ask(&desk, "one").await, ask(&desk, "two").await];
    assert!(unread.iter().all(|(status, _)| status == "200"));
    assert_eq!(ask(&desk, "three").await.0, "503");
    assert_eq!(desk.connect("three").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_is_cut() {
    let desk = Desk::open(Limits { concurrent: 1, ..Limits::default() }).await;
    let clock = PausedTokioClock::pause();
    let (status, mut slow) = ask(&desk, "acme").await;
    assert_eq!(status, "200");
    // Its request is in flight until it has read the answer.
    let mut other = desk.connect("other").await;
    assert_eq!(other.get("/notes").await.problem(), (503, "overloaded".to_owned()));
    while other.get("/notes").await.status != 200 {
        clock.advance(Duration::from_secs(1)).await;
    }
    let mut rest = Vec::new();
    assert!(slow.read_to_end(&mut rest).await.is_err() || rest.len() < LARGE, "{} bytes", rest.len());
}
