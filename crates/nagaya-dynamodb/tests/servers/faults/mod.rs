//! Calls that are lost, delayed, repeated and rejected: no acknowledged write is lost, and none is carried out twice.

mod proxy;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use nagaya_dynamodb::{Dynamodb, Options, SingleWriteMode};
use nagaya_store::{Condition, ErrorKind, Item, Key, KeySchema, Store as _, TableSpec, Update, Value, Write, WriteSet};
use tokio::task::JoinSet;

use self::proxy::{Fault, Proxy};
use crate::test_server::{Server, number, open, prefix, seed};

const TABLE: &str = "faults";
const TASKS: usize = 16;
const COUNTERS: usize = 6;
/// The engine's timeout here: long enough for a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A write and its result. Its marker is in the items that it wrote.
#[derive(Debug)]
struct Try {
    marker: String,
    kind: Kind,
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// An increment without a condition.
    Count(usize),
    /// An increment on the condition that it has not happened yet.
    CountOnce(usize),
    /// A create, also of items that other writers create.
    Create(String),
    /// Two increments and a create, all or none.
    Set(usize, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The condition failed, and the stored item has the marker of this very write.
    FailedOnItself,
    ConditionFailed,
    /// The engine reports that it has not happened.
    Failed,
    /// The engine reports that it may have happened.
    Unknown,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_and_none_is_done_twice() {
    through_faults(SingleWriteMode::Plain).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_for_every_write_leaves_less_unknown() {
    through_faults(SingleWriteMode::Transaction).await;
}

async fn through_faults(lone: SingleWriteMode) {
    let (seed, rounds) = (seed(), number("NAGAYA_OPERATIONS").unwrap_or(60));
    eprintln!("{TASKS} writers, {rounds} writes each; NAGAYA_SEED={seed} gives the same faults again");
    let endpoint = Server::DynamodbLocal.endpoint();
    let proxy = Proxy::start(&endpoint, seed, 3 * TIMEOUT).await.expect("a proxy");
    let options = Options { prefix: prefix(), single_write_mode: lone, ..Options::default() };
    let hurried = Options { attempt_timeout: TIMEOUT, call_timeout: 8 * TIMEOUT, ..options.clone() };
    let direct = open(&endpoint, options).await;
    let spec = TableSpec::new(TABLE, KeySchema::strings("PK", "SK"));
    direct.ensure_tables(&[spec]).await.expect("the table is made");
    let through = open(&format!("http://{}", proxy.address), hurried).await;

    let start = Instant::now();
    let store = Arc::new(through);
    let given = Arc::new(AtomicU64::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..TASKS {
        let (store, given) = (Arc::clone(&store), Arc::clone(&given));
        let mut rng = Rng::with_seed(seed.wrapping_add(writer as u64));
        writers.spawn(async move {
            let mut tries = Vec::new();
            for _ in 0..rounds {
                let marker = given.fetch_add(1, Ordering::Relaxed).to_string();
                tries.push(attempt(&store, &mut rng, marker).await);
            }
            tries
        });
    }
    let tries: Vec<Try> = writers.join_all().await.into_iter().flatten().collect();
    let took = start.elapsed();
    // Wait for calls that the proxy delays.
    tokio::time::sleep(4 * TIMEOUT).await;

    print_summary(&tries, &proxy, took);
    eprintln!("{:?}", store.metrics());
    let items = contents(&direct).await;
    check(&tries, &items, &proxy);
}

/// One write, of a random kind.
async fn attempt(store: &Dynamodb, rng: &mut Rng, marker: String) -> Try {
    let kind = match rng.u8(0..4) {
        0 => Kind::Count(rng.usize(0..COUNTERS)),
        1 => Kind::CountOnce(rng.usize(0..COUNTERS)),
        2 if rng.bool() => Kind::Create(format!("own-{marker}")),
        2 => Kind::Create(format!("wanted-{}", rng.u8(0..200))),
        _ => {
            let one = rng.usize(0..COUNTERS);
            Kind::Set(one, (one + rng.usize(1..COUNTERS)) % COUNTERS)
        }
    };
    let outcome = match store.write(writes(&kind, &marker)).await {
        Ok(_) => Outcome::Done,
        Err(error) => match error.kind() {
            ErrorKind::ConditionFailed(failed) => {
                let own = failed.iter().any(|failed| failed.current.as_ref().is_some_and(|item| has(item, &marker)));
                if own { Outcome::FailedOnItself } else { Outcome::ConditionFailed }
            }
            ErrorKind::Busy | ErrorKind::Unavailable(_) | ErrorKind::Engine(_) => Outcome::Failed,
            ErrorKind::OutcomeUnknown(_) => Outcome::Unknown,
            _ => panic!("{kind:?}: {error}"),
        },
    };
    Try { marker, kind, outcome }
}

fn writes(kind: &Kind, marker: &str) -> WriteSet {
    let count = |at: usize| {
        let marks = Value::StringSet(BTreeSet::from([mark(marker)]));
        Write::update(TABLE, counter(at), Update::new().add("count", 1).add("marks", marks))
    };
    let create = |sort: &str| {
        let item = Item::new().with("PK", "created").with("SK", sort).with("mark", mark(marker).as_str());
        Write::put(TABLE, item).when(Condition::absent("PK"))
    };
    match kind {
        Kind::Count(at) => count(*at).into(),
        Kind::CountOnce(at) => {
            let done = Condition::Contains("marks".into(), mark(marker).as_str().into());
            count(*at).when(Condition::Not(Box::new(done))).into()
        }
        Kind::Create(sort) => create(sort).into(),
        Kind::Set(one, other) => {
            WriteSet::new().and(count(*one)).and(count(*other)).and(create(&format!("of-set-{marker}")))
        }
    }
}

fn counter(at: usize) -> Key {
    Key::new(format!("counter-{at}"), "counter")
}

/// A marker as it is stored in items, and as the proxy finds it in calls.
fn mark(marker: &str) -> String {
    format!("~{marker}~")
}

fn has(item: &Item, marker: &str) -> bool {
    let mark = mark(marker);
    match (item.get("marks"), item.get("mark")) {
        (Some(Value::StringSet(marks)), _) => marks.contains(&mark),
        (_, Some(Value::String(found))) => *found == mark,
        _ => false,
    }
}

/// All items by sort key, the counters by their partition.
async fn contents(store: &Dynamodb) -> BTreeMap<String, Item> {
    let mut scan = nagaya_store::Scan::table(TABLE);
    let mut items = BTreeMap::new();
    loop {
        let page = store.scan(scan.clone()).await.expect("a scan without faults");
        for item in page.items {
            let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let name = if text("SK") == "counter" { text("PK") } else { text("SK") };
            items.insert(name, item);
        }
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return items,
        }
    }
}

fn check(tries: &[Try], items: &BTreeMap<String, Item>, proxy: &Proxy) {
    let stored = |name: &str, marker: &str| items.get(name).is_some_and(|item| has(item, marker));
    for each in tries {
        let marker = each.marker.as_str();
        let stored_in: Vec<bool> = match &each.kind {
            Kind::Count(at) | Kind::CountOnce(at) => vec![stored(&format!("counter-{at}"), marker)],
            Kind::Create(sort) => vec![stored(sort, marker)],
            Kind::Set(one, other) => vec![
                stored(&format!("counter-{one}"), marker),
                stored(&format!("counter-{other}"), marker),
                stored(&format!("of-set-{marker}"), marker),
            ],
        };
        let text = || format!("{each:?} with the faults {:?}", proxy.happened(marker));
        assert!(stored_in.iter().all(|is_stored| *is_stored == stored_in[0]), "partly done: {}", text());
        match each.outcome {
            Outcome::Done => assert!(stored_in[0], "acknowledged, but lost: {}", text()),
            Outcome::ConditionFailed | Outcome::Failed => assert!(!stored_in[0], "not done, but stored: {}", text()),
            Outcome::FailedOnItself => {
                // The engine cannot know that the network repeated a call: it got one response.
                let doubled = proxy.happened(marker).contains(&Fault::TwiceSecond);
                assert!(doubled, "failed on itself: {}", text());
            }
            Outcome::Unknown => {}
        }
    }
    for at in 0..COUNTERS {
        let Some(item) = items.get(&format!("counter-{at}")) else { continue };
        let count: i64 = item.get("count").and_then(Value::as_number).and_then(|n| n.try_into().ok()).expect("a count");
        let marks = item.get("marks").and_then(Value::length).unwrap_or(0);
        assert_eq!(count, marks as i64, "counter {at}: the count and the number of markers");
    }
    let done = tries.iter().filter(|each| each.outcome == Outcome::Done).count();
    assert!(done * 4 > tries.len(), "only {done} of {} writes were acknowledged", tries.len());
}

fn print_summary(tries: &[Try], proxy: &Proxy, took: Duration) {
    let count = |outcome| tries.iter().filter(|each| each.outcome == outcome).count();
    eprintln!(
        "{} writes in {took:.1?}: {} done, {} with a failed condition, {} failed on themselves, {} failed, {} unknown",
        tries.len(),
        count(Outcome::Done),
        count(Outcome::ConditionFailed),
        count(Outcome::FailedOnItself),
        count(Outcome::Failed),
        count(Outcome::Unknown),
    );
    for (fault, count) in proxy.counts() {
        eprintln!("{count:>6} calls: {fault:?}");
    }
}
