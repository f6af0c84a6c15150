//! A server that cannot be reached or fails: calls end as unavailable, and writes that may have happened as unanswered.

use std::time::Duration;

use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{Condition, Error, Item, Key, KeySchema, Query, Store as _, TableSpec, Write};
use tokio::net::TcpListener;

use crate::server::{self, Failure};

/// What a server does with every request for items.
#[derive(Clone, Copy)]
enum Server {
    /// Nothing listens at its address.
    Absent,
    /// It responds with an internal error.
    Failing,
    /// It reads the request and sends nothing.
    Silent,
}

/// A store on such a server. With `described`, the server describes its table, so that a write is sent.
async fn open(server: Server, described: bool) -> Dynamodb {
    let table = TableSpec::new("notes", KeySchema::strings("PK", "SK"));
    let endpoint = match server {
        Server::Absent => {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            format!("http://{}", listener.local_addr().expect("the port is bound"))
        }
        Server::Failing | Server::Silent => {
            let respond = move |operation: &str, _: &_| {
                let failure = Err(Failure { status: "500 Internal Server Error", code: "InternalServerError" });
                match server::describe(operation, &table).filter(|_| described) {
                    Some(description) => Some(Ok(description)),
                    None => Some(failure).filter(|_| matches!(server, Server::Failing)),
                }
            };
            server::start(respond).await
        }
    };
    let options = Options {
        max_attempts: 2,
        attempt_timeout: Duration::from_millis(300),
        initial_backoff: Duration::from_millis(1),
        ..Options::default()
    };
    Dynamodb::open(&Settings::local(endpoint), options).await.expect("opening sends no request")
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
async fn a_call_that_changed_nothing_is_unavailable() {
    for server in [Server::Absent, Server::Failing, Server::Silent] {
        // The table is not described, so no write is sent.
        assert_eq!(codes(&open(server, false).await).await, ["unavailable"; 4]);
    }
}

#[tokio::test]
async fn a_write_without_a_response_is_unanswered() {
    for server in [Server::Failing, Server::Silent] {
        let expected = ["unavailable", "unavailable", "unavailable", "unanswered"];
        let store = open(server, true).await;
        assert_eq!(codes(&store).await, expected);
        let measured = store.engine_metrics();
        let value = |name| measured.iter().find(|each| each.name == name).map(|each| each.value);
        assert_eq!(value("unanswered"), Some(1.0));
        assert!(value("retries").is_some_and(|retries| retries > 0.0), "{measured:?}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported_with_the_setting_of_its_address() {
    let error = open(Server::Absent, false).await.get("notes", &Key::new("a", "b")).await.expect_err("no server");
    assert!(error.to_string().contains("DYNAMODB_ENDPOINT"), "{error}");
}
