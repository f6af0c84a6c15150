//! Many connections for a while: only valid responses and declared refusals, and bounded memory.
//!
//! `NAGAYA_LOAD_SECONDS` sets the duration (default 20), and `NAGAYA_LOAD_CONNECTIONS` the number of connections (default
//! 500).

#[path = "../limits/desk.rs"]
#[expect(dead_code, reason = "other test programs use the rest")]
mod desk;
mod process;

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use axum::{body::Body, http::Method};
use nagaya_testing::Connection;
use serde_json::json;
use tokio::{net::TcpStream, task::JoinSet};

use self::process::Server;

/// Tenants that share the connections.
const TENANTS: usize = 10;
/// Notes that a connection keeps: it deletes further ones, so that memory has no reason to grow.
const KEPT: usize = 5;
/// How much the memory of the server may grow after the first third: by then all connections exist, and most of the
/// store's cache of 8 MiB is full.
const GROWTH: u64 = 16 * 1024 * 1024;
/// Further growth per write: the item, its entries and the change record stay in memory until they are flushed to a
/// file.
const PER_WRITE: u64 = 2 * 1024;
/// The amount that triggers a flush: 16 MiB in each of the store's keyspaces. Most requests are reads, so a leak of a
/// kilobyte per read would exceed this by far.
const UNFLUSHED: u64 = 64 * 1024 * 1024;

/// The number of responses by status.
type Answers = BTreeMap<u16, u64>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_connections_get_valid_answers_with_bounded_memory() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let time = Duration::from_secs(number("NAGAYA_LOAD_SECONDS", 20));
    let connections = usize::try_from(number("NAGAYA_LOAD_CONNECTIONS", 500)).expect("a number of connections");
    let server = Server::start(TENANTS).await;

    let mut users = JoinSet::new();
    let end = Instant::now() + time;
    for at in 0..connections {
        let stream = TcpStream::connect(server.address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let client = Connection::over(stream).await.with_token(server.tokens[at % TENANTS].clone());
        users.spawn(work(client, at, end));
    }
    let mut watcher = server.connect_admin().await;
    tokio::time::sleep(time / 3).await;
    let early = resident_bytes(&mut watcher).await;

    let mut answers = Answers::new();
    while let Some(user) = users.join_next().await {
        for (status, count) in user.expect("no connection breaks") {
            *answers.entry(status).or_default() += count;
        }
    }
    let late = resident_bytes(&mut watcher).await;
    let total: u64 = answers.values().sum();
    println!("{total} answers in {time:?}: {answers:?}; {} MiB, then {} MiB", early >> 20, late >> 20);
    assert!(total >= connections as u64, "each connection is answered");
    assert!(answers.keys().all(|status| matches!(status, 200..=299 | 429 | 503)), "{answers:?}");
    assert!(answers.keys().any(|status| (200..=299).contains(status)), "{answers:?}");
    let written: u64 = [201, 204].iter().filter_map(|status| answers.get(status)).sum();
    let allowed = GROWTH + (written * PER_WRITE).min(UNFLUSHED);
    assert!(late <= early + allowed, "{early} bytes after a third, {late} at the end, {allowed} more allowed");
    drop(watcher);
    server.stop().await;
}

/// Creates, reads, lists and deletes notes until the end.
async fn work(mut client: Connection, at: usize, end: Instant) -> Answers {
    let mut answers = Answers::new();
    let mut kept: VecDeque<String> = VecDeque::new();
    let mut turn = at;
    while Instant::now() < end {
        turn += 1;
        let got = match (turn % 10, kept.front().cloned()) {
            (0, _) | (_, None) => {
                let got = client.post("/notes", &json!({ "title": format!("Note {turn} of {at}") })).await;
                if got.status == 201 {
                    kept.push_back(got.json()["data"]["noteId"].as_str().expect("an id").to_owned());
                }
                got
            }
            (1, Some(oldest)) if kept.len() > KEPT => {
                let got = client.send(Method::DELETE, &format!("/notes/{oldest}"), &[], Body::empty()).await;
                if got.status == 204 {
                    kept.pop_front();
                }
                got
            }
            (1..=3, _) => client.get("/notes?limit=20").await,
            (_, Some(_)) => client.get(&format!("/notes/{}", kept[turn % kept.len()])).await,
        };
        if matches!(got.status.as_u16(), 429 | 503) {
            assert!(got.header("retry-after").is_some(), "{got:?}");
        }
        *answers.entry(got.status.as_u16()).or_default() += 1;
    }
    answers
}

/// The resident memory of the server; 0 where it is unknown.
async fn resident_bytes(client: &mut Connection) -> u64 {
    let metrics = client.get("/metrics").await.text;
    let figure = metrics.lines().find_map(|line| line.strip_prefix("nagaya_process_resident_memory_bytes "));
    figure.expect("it is among the figures").parse().expect("a number")
}
