//! A server that cannot be reached or does not work: calls fail as unavailable, unless a write may have happened.

use std::time::Duration;

use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{Condition, Error, Item, Key, Query, Store as _, Write};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// What a server does with every request for items.
#[derive(Clone, Copy)]
enum Server {
    /// It is not there.
    Absent,
    /// It answers with an error of its own.
    Failing,
    /// It takes the request and says nothing.
    Silent,
}

/// The table, as the server describes it: that much it can do, so that a write gets as far as being sent.
const DESCRIBED: &str = r#"{"Table":{"TableName":"notes","TableStatus":"ACTIVE","KeySchema":[
    {"AttributeName":"PK","KeyType":"HASH"},{"AttributeName":"SK","KeyType":"RANGE"}],"AttributeDefinitions":[
    {"AttributeName":"PK","AttributeType":"S"},{"AttributeName":"SK","AttributeType":"S"}]}}"#;

async fn open(server: Server, described: bool) -> Dynamodb {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    match server {
        Server::Absent => drop(listener),
        _ => drop(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, server, described));
            }
        })),
    }
    let options = Options {
        attempts: 2,
        attempt_timeout: Duration::from_millis(300),
        first_backoff: Duration::from_millis(1),
        ..Options::default()
    };
    Dynamodb::open(&Settings::local(endpoint), options).await.expect("nothing is asked yet")
}

async fn answer(mut stream: TcpStream, server: Server, described: bool) {
    let mut buffer = vec![0; 65_536];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let head = String::from_utf8_lossy(&buffer[..read]).to_lowercase();
        let (status, body) = if described && head.contains(".describetable") {
            ("200 OK", DESCRIBED)
        } else if described && head.contains(".describetimetolive") {
            ("200 OK", r#"{"TimeToLiveDescription":{"TimeToLiveStatus":"DISABLED"}}"#)
        } else if matches!(server, Server::Silent) {
            continue;
        } else {
            ("500 Internal Server Error", r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}"#)
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn codes(store: &Dynamodb) -> [&'static str; 4] {
    let code = |error: Error| error.code();
    let key = Key::new("a", "b");
    let create = Write::put("notes", Item::new().with("PK", "a").with("SK", "b")).when(Condition::absent("PK"));
    [
        store.get("notes", &key).await.map_or_else(code, |_| "fine"),
        store.query(Query::table("notes", "a")).await.map_or_else(code, |_| "fine"),
        store.batch_get(&[("notes".to_owned(), key)]).await.map_or_else(code, |_| "fine"),
        store.write(create.into()).await.map_or_else(code, |_| "fine"),
    ]
}

#[tokio::test]
async fn what_has_surely_not_happened_is_unavailable() {
    for server in [Server::Absent, Server::Failing, Server::Silent] {
        // Not even the table is described: nothing was written.
        assert_eq!(codes(&open(server, false).await).await, ["unavailable"; 4]);
    }
}

#[tokio::test]
async fn a_write_without_an_answer_may_have_happened() {
    for server in [Server::Failing, Server::Silent] {
        let expected = ["unavailable", "unavailable", "unavailable", "unanswered"];
        let store = open(server, true).await;
        assert_eq!(codes(&store).await, expected);
        let measured = store.measurements();
        let value = |name| measured.iter().find(|each| each.name == name).map(|each| each.value);
        assert_eq!(value("unanswered"), Some(1.0));
        assert!(value("retries").is_some_and(|retries| retries > 0.0), "{measured:?}");
    }
}

#[tokio::test]
async fn an_address_where_nobody_is_is_named_with_its_setting() {
    let error = open(Server::Absent, false).await.get("notes", &Key::new("a", "b")).await.expect_err("nobody is there");
    assert!(error.to_string().contains("DYNAMODB_ENDPOINT"), "{error}");
}
