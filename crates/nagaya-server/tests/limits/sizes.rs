//! Requests that are too large or malformed.

use axum::{body::Body, http::Method};
use futures_util::stream;
use nagaya_server::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::desk::Desk;

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let body = json!({ "title": "Buy milk" }).to_string();
    let desk = Desk::open(Limits { body_bytes: body.len(), ..Limits::default() }).await;
    let json = [("content-type", "application/json")];
    let got = desk.connect("acme").await.send(Method::POST, "/notes", &json, body.clone().into()).await;
    assert_eq!(got.status, 201);

    let longer = format!("{body} ");
    let got = desk.connect("acme").await.send(Method::POST, "/notes", &json, longer.clone().into()).await;
    assert_eq!(got.problem(), (413, "too_large".to_owned()));

    // A body without a length is counted while it is read.
    let pieces: Vec<_> = longer.into_bytes().into_iter().map(|byte| Ok::<_, std::io::Error>(vec![byte])).collect();
    let body = Body::from_stream(stream::iter(pieces));
    let got = desk.connect("acme").await.send(Method::POST, "/notes", &json, body).await;
    assert_eq!(got.problem(), (413, "too_large".to_owned()));
}

#[tokio::test]
async fn a_head_over_the_limit_is_refused() {
    let desk = Desk::open(Limits { head_bytes: 16 * 1024, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    let most = "x".repeat(12 * 1024);
    assert_eq!(client.send(Method::GET, "/notes", &[("x-long", &most)], Body::empty()).await.status, 200);
    let more = "x".repeat(16 * 1024);
    assert_eq!(client.send(Method::GET, "/notes", &[("x-long", &more)], Body::empty()).await.status, 431);

    let names: Vec<_> = (0..200).map(|at| format!("x-{at}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let got = desk.connect("acme").await.send(Method::GET, "/notes", &many, Body::empty()).await;
    assert_eq!(got.status, 431);
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn input_that_is_not_http_is_refused_and_the_connection_closed() {
    let desk = Desk::open(Limits::default()).await;
    let check = async |sent: &str, expected: &str| {
        let mut stream = TcpStream::connect(desk.server.address).await.expect("it listens");
        stream.write_all(sent.as_bytes()).await.expect("sent");
        let mut got = String::new();
        stream.read_to_string(&mut got).await.expect("the connection ends");
        assert!(got.starts_with(expected), "{sent:?} got {got:?}");
    };
    check("\x16\x03\x01 this is TLS\r\n\r\n", "HTTP/1.1 400 ").await;
    check("GET /notes HTTP/1.1\r\nbad header\r\n\r\n", "HTTP/1.1 400 ").await;
    check("POST /notes HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx", "HTTP/1.1 400 ").await;
    check("POST /notes HTTP/1.1\r\ntransfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "HTTP/1.1 400 ").await;
    assert_eq!(desk.server.connect().await.get("/healthz").await.status, 200);
}
