//! Changes from a stream whose shards split, are trimmed and disappear.

use nagaya_dynamodb::Dynamodb;
use nagaya_store::{ChangePosition, ChangeRecord, StartPosition, Store as _};

use crate::stream_server::{StreamServer, TABLE};

/// All changes after a position as `item=n`, read with this limit, and the position after them.
async fn all(store: &Dynamodb, mut from: StartPosition, limit: usize) -> (Vec<String>, ChangePosition) {
    let mut found = Vec::new();
    loop {
        let page = store.changes(TABLE, from, limit).await.expect("changes");
        assert!(page.records.len() <= limit, "{} records with a limit of {limit}", page.records.len());
        found.extend(page.records.iter().map(summary));
        if page.records.is_empty() {
            return (found, page.next);
        }
        from = StartPosition::After(page.next);
    }
}

fn summary(record: &ChangeRecord) -> String {
    let n = record.new.as_ref().and_then(|item| item.get("n")).and_then(|n| n.as_number());
    format!("{}={}", record.key.sort, n.map_or_else(String::new, |n| n.to_string()))
}

async fn code(store: &Dynamodb, position: &ChangePosition) -> &'static str {
    let answer = store.changes(TABLE, StartPosition::After(position.clone()), 10).await;
    answer.map_or_else(|error| error.code(), |_| "fine")
}

/// The changes of one item.
fn of<'a>(found: &'a [String], item: &str) -> Vec<&'a str> {
    found.iter().filter_map(|change| change.strip_prefix(item)?.strip_prefix('=')).collect()
}

#[tokio::test]
async fn children_are_read_after_their_parents() {
    for limit in [1, 2, 3, 100] {
        let server = StreamServer::start(&["a"]).await;
        {
            let mut stream = server.stream();
            for n in 0..5 {
                stream.write("a", "x", n);
                stream.write("a", "y", n);
            }
            stream.open("b", Some("a"));
            stream.open("c", Some("a"));
            stream.write("b", "x", 5);
            stream.write("c", "y", 5);
            stream.open("d", Some("b"));
            stream.write("d", "x", 6);
        }
        let (found, end) = all(&server.store().await, StartPosition::Oldest, limit).await;
        assert_eq!(of(&found, "x"), ["0", "1", "2", "3", "4", "5", "6"], "limit {limit}");
        assert_eq!(of(&found, "y"), ["0", "1", "2", "3", "4", "5"], "limit {limit}");
        assert_eq!(found.len(), 13, "nothing comes twice");

        // A position names only the shards that are not read to their end, and another process can continue from it.
        assert!(!end.0.contains("a>") && !end.0.contains("b>"), "{}", end.0);
        server.stream().open("e", Some("c"));
        server.stream().write("e", "y", 6);
        server.stream().write("d", "x", 7);
        let (more, _) = all(&server.store().await, StartPosition::After(end), limit).await;
        assert_eq!((of(&more, "x"), of(&more, "y")), (vec!["7"], vec!["6"]), "limit {limit}");
    }
}

#[tokio::test]
async fn a_busy_shard_does_not_starve_the_others() {
    let names: Vec<String> = (0..10).map(|shard| format!("s{shard}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = StreamServer::start(&names).await;
    for shard in &names {
        (0..3).for_each(|n| server.stream().write(shard, shard, n));
    }
    let store = server.store().await;
    let mut from = StartPosition::Oldest;
    let mut found = Vec::new();
    for round in 0..60 {
        (0..2).for_each(|n| server.stream().write("s9", "s9", 10 + round * 2 + n));
        let page = store.changes(TABLE, from, 2).await.expect("changes");
        found.extend(page.records.iter().map(summary));
        from = StartPosition::After(page.next);
    }
    for shard in &names[..9] {
        assert_eq!(of(&found, shard), ["0", "1", "2"], "{shard}");
    }
}

#[tokio::test]
async fn a_poll_is_one_call_for_each_open_shard() {
    let server = StreamServer::start(&["a", "b", "c"]).await;
    server.stream().write("b", "x", 1);
    let store = server.store().await;
    let (_, mut position) = all(&store, StartPosition::Oldest, 100).await;
    for _ in 0..3 {
        server.stream().calls.clear();
        let page = store.changes(TABLE, StartPosition::After(position.clone()), 100).await.expect("changes");
        assert_eq!(server.stream().calls, ["GetRecords"; 3]);
        assert_eq!(page.next, position, "without changes the position stays the same");
        position = page.next;
    }
}

#[tokio::test]
async fn expired_iterators_are_renewed() {
    let server = StreamServer::start(&["a", "b"]).await;
    server.stream().write("a", "x", 1);
    let store = server.store().await;
    let (_, mut position) = all(&store, StartPosition::Oldest, 100).await;
    for n in 2..5 {
        server.stream().write("a", "x", n);
        server.stream().write("b", "y", n);
        server.stream().expire();
        let (found, next) = all(&store, StartPosition::After(position), 100).await;
        assert_eq!((of(&found, "x"), of(&found, "y")), (vec![n.to_string().as_str()], vec![n.to_string().as_str()]));
        position = next;
    }
}

#[tokio::test]
async fn records_trimmed_before_they_were_read_are_a_gap() {
    let server = StreamServer::start(&["a", "b"]).await;
    for n in 0..4 {
        server.stream().write("a", "x", n);
        server.stream().write("b", "y", n);
    }
    let store = server.store().await;
    // Only one record of one shard is read, but the position also names the first record of the other shard.
    let position = store.changes(TABLE, StartPosition::Oldest, 1).await.expect("changes").next;
    assert_eq!(code(&store, &position).await, "fine");
    for shard in ["a", "b"] {
        server.stream().trim(shard, 3);
        assert_eq!(code(&store, &position).await, "gap", "{shard}");
        assert_eq!(code(&server.store().await, &position).await, "gap", "{shard}");
        server.stream().trim(shard, 0);
    }
    server.stream().trim("a", 3);
    server.stream().trim("b", 3);
    let (found, _) = all(&store, StartPosition::Oldest, 10).await;
    assert_eq!((of(&found, "x"), of(&found, "y")), (vec!["3"], vec!["3"]), "the oldest that is kept is never a gap");
}

#[tokio::test]
async fn a_missing_shard_or_stream_is_a_gap() {
    let server = StreamServer::start(&["a"]).await;
    server.stream().write("a", "x", 1);
    let (_, position) = all(&server.store().await, StartPosition::Oldest, 10).await;
    server.stream().open("b", Some("a"));
    server.stream().write("b", "x", 2);
    server.stream().remove("a");
    assert_eq!(code(&server.store().await, &position).await, "gap");

    let (found, position) = all(&server.store().await, StartPosition::Oldest, 10).await;
    assert_eq!(found, ["x=2"]);
    server.stream().replace();
    server.stream().open("b", None);
    assert_eq!(code(&server.store().await, &position).await, "gap");
}

#[tokio::test]
async fn no_change_after_now_is_missed() {
    let server = StreamServer::start(&["a", "b"]).await;
    server.stream().write_before("a", "x", 1, 3_600);
    server.stream().write_before("a", "x", 2, 3_600);
    let store = server.store().await;
    let now = store.changes(TABLE, StartPosition::Latest, 10).await.expect("a position").next;
    server.stream().write("a", "x", 3);
    server.stream().open("c", Some("b"));
    server.stream().write("c", "y", 1);

    let (found, _) = all(&store, StartPosition::After(now.clone()), 10).await;
    assert_eq!((of(&found, "x"), of(&found, "y")), (vec!["3"], vec!["1"]));
    // A process without an iterator of that moment uses the time of the records; so does one whose iterators expired.
    for limit in [1, 10] {
        let (found, _) = all(&server.store().await, StartPosition::After(now.clone()), limit).await;
        assert_eq!((of(&found, "x"), of(&found, "y")), (vec!["3"], vec!["1"]), "limit {limit}");
    }
    server.stream().expire();
    let (found, end) = all(&store, StartPosition::After(now), 10).await;
    assert_eq!((of(&found, "x"), of(&found, "y")), (vec!["3"], vec!["1"]));
    server.stream().write("a", "x", 4);
    assert_eq!(all(&store, StartPosition::After(end), 10).await.0, ["x=4"]);
}

#[tokio::test]
async fn two_readers_that_begin_now_each_see_what_follows() {
    let server = StreamServer::start(&["a"]).await;
    let store = server.store().await;
    let first = store.changes(TABLE, StartPosition::Latest, 10).await.expect("a position").next;
    server.stream().write("a", "x", 1);
    let second = store.changes(TABLE, StartPosition::Latest, 10).await.expect("a position").next;
    server.stream().write("a", "x", 2);
    assert_eq!(all(&store, StartPosition::After(first), 10).await.0, ["x=1", "x=2"]);
    assert_eq!(all(&store, StartPosition::After(second), 10).await.0, ["x=2"]);
}

#[tokio::test]
async fn a_position_without_a_sequence_number_expires_with_the_retention() {
    let server = StreamServer::start(&["a"]).await;
    let store = server.store().await;
    let (_, position) = all(&store, StartPosition::Oldest, 10).await;
    assert_eq!(code(&store, &position).await, "fine");
    let parts: Vec<&str> = position.0.split('|').collect();
    let day_before = parts[2].parse::<i64>().expect("a second") - 24 * 3600;
    let old = ChangePosition(format!("{}|{}|{day_before}|{}", parts[0], parts[1], parts[3]));
    assert_eq!(code(&store, &old).await, "gap");
    // The sequence number of a record that was read does not expire here.
    server.stream().write("a", "x", 1);
    let (_, read) = all(&store, StartPosition::After(position.clone()), 10).await;
    let old = ChangePosition(read.0.replace(parts[2], &day_before.to_string()));
    assert_eq!(code(&store, &old).await, "fine");
}
