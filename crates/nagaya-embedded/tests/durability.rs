//! An acknowledged write survives `kill -9`, and no write set is ever applied partially.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nagaya_embedded::{Embedded, Options};
use nagaya_store::{Condition, Item, Key, KeySchema, Query, Store as _, TableSpec, Update, Value, Write, WriteSet};

const TABLE: &str = "pairs";
const WRITERS: i64 = 8;
const ROUNDS: u64 = 50;
/// Makes this test binary the process that is killed.
const CHILD: &str = "NAGAYA_KILL_TEST_DIRECTORY";

fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK")).with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
}

/// Not a test: the process that the test below starts and kills. It writes as fast as it can, and prints what was
/// acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_that_is_killed() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let store = Arc::new(Embedded::open(directory, Options::default()).expect("the directory opens"));
    store.ensure(&[spec()]).await.expect("the table is made");
    let writer = |writer: i64| {
        let store = Arc::clone(&store);
        async move {
            let mut n = stored(&store, writer).await.map_or(0, |(left, _)| left);
            loop {
                n += 1;
                store.write(pair(writer, n)).await.expect("no other writer writes this pair");
                println!("ack {writer} {n}");
            }
        }
    };
    let mut writers: Vec<_> = (0..WRITERS).map(|each| tokio::spawn(writer(each))).collect();
    let last = writers.pop().expect("there are writers");
    last.await.expect("a writer runs until it is killed");
}

/// Updates two items of different partitions that always have the same number, and their index entries.
fn pair(writer: i64, n: i64) -> WriteSet {
    let update = |side: &str| {
        let index = format!("N{n:010}");
        let update = Update::new().set("n", n).set("GSI1PK", format!("W{writer}")).set("GSI1SK", index);
        let expected = if n == 1 { Condition::absent("PK") } else { Condition::equal("n", n - 1) };
        Write::update(TABLE, Key::new(format!("{side}{writer}"), "pair"), update).when(expected)
    };
    WriteSet::new().and(update("L")).and(update("R"))
}

async fn stored(store: &Embedded, writer: i64) -> Option<(i64, i64)> {
    let keys = ["L", "R"].map(|side| (TABLE.to_owned(), Key::new(format!("{side}{writer}"), "pair")));
    let items = store.batch_get(&keys).await.expect("a read");
    let number = |item: &Option<Item>| -> Option<i64> { item.as_ref()?.get("n")?.as_number()?.try_into().ok() };
    match (number(&items[0]), number(&items[1])) {
        (Some(left), Some(right)) => Some((left, right)),
        (None, None) => None,
        half => panic!("only half of a write set is stored: {half:?}"),
    }
}

/// Kills a process under load, at a different time in each round.
///
/// Proves the engine's part of N9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_write_survives_being_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut acknowledged: BTreeMap<i64, i64> = BTreeMap::new();
    for round in 0..ROUNDS {
        // All phases of a process: opening, the first writes, many writes.
        let spread = (round * 37) % 160;
        let writes = if round % 3 == 0 { 0 } else { spread };
        kill_after(directory.path(), Duration::from_millis(5 + spread), writes, &mut acknowledged);
        let store = Embedded::open(directory.path(), Options::default()).expect("the directory opens after a kill");
        if store.ensure(&[spec()]).await.is_err() {
            panic!("round {round}: the table cannot be made");
        }
        for writer in 0..WRITERS {
            check_writer(&store, writer, acknowledged.get(&writer).copied().unwrap_or(0)).await;
        }
        if round % 5 == 4 {
            assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), [], "round {round}");
        }
    }
    let total: i64 = acknowledged.values().sum();
    assert!(total > 1_000, "only {total} writes were acknowledged in all rounds: the test tests nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_opens_after_a_kill_during_its_creation() {
    for millis in 0..40 {
        let directory = tempfile::tempdir().expect("a directory");
        let mut acknowledged = BTreeMap::new();
        kill_after(directory.path(), Duration::from_millis(millis / 2), 0, &mut acknowledged);
        let store = Embedded::open(directory.path(), Options::default()).expect("the directory opens after a kill");
        store.ensure(&[spec()]).await.expect("the table is made");
        for writer in 0..WRITERS {
            check_writer(&store, writer, acknowledged.get(&writer).copied().unwrap_or(0)).await;
        }
    }
}

async fn check_writer(store: &Embedded, writer: i64, acknowledged: i64) {
    let Some((left, right)) = stored(store, writer).await else {
        assert_eq!(acknowledged, 0, "writer {writer} lost everything");
        return;
    };
    assert_eq!(left, right, "writer {writer} has only half of a write set");
    assert!(left >= acknowledged, "writer {writer} lost {} acknowledged writes", acknowledged - left);
    let indexed = store.query(Query::index(TABLE, "GSI1", format!("W{writer}"))).await.expect("a query").items;
    let numbers: Vec<_> = indexed.iter().filter_map(|item| item.get("n").and_then(Value::as_number)).collect();
    assert_eq!(numbers, [left.into(), left.into()], "the index of writer {writer} has other entries than its items");
}

/// Starts a process that writes, kills it after some time and some writes, and records what was acknowledged.
fn kill_after(directory: &Path, delay: Duration, writes: u64, acknowledged: &mut BTreeMap<i64, i64>) {
    let mut child = Command::new(std::env::current_exe().expect("this test has a path"))
        .args(["--exact", "the_process_that_is_killed", "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the process starts");
    let output = child.stdout.take().expect("its output is piped");
    let written = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&written);
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let acknowledged = lines.filter(|line| line.starts_with("ack "));
        let count = |_: &String| {
            counter.fetch_add(1, Ordering::SeqCst);
        };
        acknowledged.inspect(count).collect::<Vec<_>>()
    });
    std::thread::sleep(delay);
    while written.load(Ordering::SeqCst) < writes && child.try_wait().expect("the process can be asked").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("the process can be killed");
    child.wait().expect("the process ends");
    for line in reader.join().expect("the output is read") {
        let mut words = line.split(' ').skip(1).map(str::parse::<i64>);
        // The kill may have cut the last line; a cut number can only be smaller.
        if let (Some(Ok(writer)), Some(Ok(n))) = (words.next(), words.next()) {
            let highest = acknowledged.entry(writer).or_default();
            *highest = n.max(*highest);
        }
    }
}

#[tokio::test]
async fn the_error_of_a_locked_directory_names_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Embedded::open(directory.path(), Options::default()).expect("the directory opens");
    let error = Embedded::open(directory.path(), Options::default()).expect_err("it is open already");
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert!(text.contains(&directory.path().display().to_string()), "{text}");
    drop(store);
    Embedded::open(directory.path(), Options::default()).expect("it is unlocked again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_are_all_applied() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Embedded::open(directory.path(), Options::default()).expect("the directory opens"));
    store.ensure(&[spec()]).await.expect("the table is made");
    let key = Key::new("counter", "one");
    let increment = |store: Arc<Embedded>, key: Key| async move {
        loop {
            let found = store.get(TABLE, &key).await.expect("a read");
            let n: i64 = found.as_ref().and_then(|item| item.get("n")?.as_number()?.try_into().ok()).unwrap_or(0);
            let expected = if found.is_none() { Condition::absent("PK") } else { Condition::equal("n", n) };
            let write = Write::update(TABLE, key.clone(), Update::new().set("n", n + 1)).when(expected);
            match store.write(write.into()).await {
                Ok(written) => return written.item.expect("a single update gives the item"),
                Err(error) => assert_eq!(error.code(), "condition_failed"),
            }
        }
    };
    let tasks: Vec<_> = (0..100).map(|_| tokio::spawn(increment(Arc::clone(&store), key.clone()))).collect();
    let mut seen = Vec::new();
    for task in tasks {
        let item = task.await.expect("an increment");
        seen.push(i64::try_from(item.get("n").and_then(Value::as_number).expect("a number")).expect("a whole one"));
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=100).collect::<Vec<_>>(), "each value was written exactly once");
}
