//! Writers that update pairs of items with the same number, so that acknowledged writes can be found in the store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Condition, Item, Key, KeySchema, Query, Store as _, TableSpec, Update, Value, Write, WriteSet};

pub(crate) const TABLE: &str = "pairs";
/// Items that exist from the beginning, so that indexes, backups and compactions take some time.
pub(crate) const BALLAST: &str = "ballast";
pub(crate) const BALLAST_ITEMS: i64 = 1_500;
const WRITERS: i64 = 4;

/// The highest acknowledged number of each writer.
pub(crate) type Acknowledged = BTreeMap<i64, i64>;

/// The tables; the ballast has this many indexes.
pub(crate) fn specs(indexes: u32) -> Vec<TableSpec> {
    let spec = |name: &str| TableSpec::new(name, KeySchema::strings("PK", "SK"));
    let mut ballast = spec(BALLAST);
    for index in 0..indexes {
        ballast = ballast.with_index(format!("I{index}"), KeySchema::strings(&format!("I{index}PK"), "SK"));
    }
    vec![spec(TABLE).with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK")), ballast]
}

/// Fills the ballast.
pub(crate) async fn fill(store: &EmbeddedStore) {
    for first in (0..BALLAST_ITEMS).step_by(100) {
        let set = (first..BALLAST_ITEMS.min(first + 100)).map(|n| {
            let item = Item::new().with("PK", format!("B{}", n % 7)).with("SK", format!("{n:06}"));
            let names: Vec<_> = (0..4).map(|index| format!("I{index}PK")).collect();
            let item = names.iter().fold(item, |item, name| item.with(name, format!("{}", n % 5)));
            Write::put(BALLAST, item.with("text", "ballast ".repeat(20)))
        });
        store.write(set.collect()).await.expect("the ballast is written");
    }
}

/// The number of large writes after which memtables are flushed.
const FLUSHING_WRITES: u64 = 40;

/// Writes for ever, and prints what was acknowledged. With `large`, memtables are flushed, and `begun` is printed when
/// that is about to happen.
pub(crate) async fn write_for_ever(store: Arc<EmbeddedStore>, large: bool) {
    let written = Arc::new(AtomicU64::new(0));
    let writer = |writer: i64| {
        let (store, written) = (Arc::clone(&store), Arc::clone(&written));
        async move {
            let mut n = stored(&store, writer).await.map_or(0, |(left, _)| left);
            loop {
                n += 1;
                store.write(pair(writer, n, large)).await.expect("no other writer writes this pair");
                println!("ack {writer} {n}");
                if large && written.fetch_add(1, Ordering::SeqCst) == FLUSHING_WRITES {
                    println!("begun");
                }
            }
        }
    };
    let mut writers: Vec<_> = (0..WRITERS).map(|each| tokio::spawn(writer(each))).collect();
    let last = writers.pop().expect("there are writers");
    last.await.expect("a writer runs until it is killed");
}

fn pair(writer: i64, n: i64, large: bool) -> WriteSet {
    let update = |side: &str| {
        let update = Update::new().set("n", n).set("GSI1PK", format!("W{writer}")).set("GSI1SK", format!("N{n:010}"));
        let update = if large { update.set("text", noise(n)) } else { update };
        let expected = if n == 1 { Condition::absent("PK") } else { Condition::equal("n", n - 1) };
        Write::update(TABLE, Key::new(format!("{side}{writer}"), "pair"), update).when(expected)
    };
    WriteSet::new().and(update("L")).and(update("R"))
}

/// Random letters, which do not compress.
fn noise(n: i64) -> &'static str {
    static NOISE: LazyLock<String> = LazyLock::new(|| {
        let mut state = 1_u64;
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'a' + (state >> 59) as u8 % 26)
        };
        (0..200_000).map(|_| letter()).collect()
    });
    let start = n as usize * 7_919 % 100_000;
    &NOISE[start..start + 100_000]
}

async fn stored(store: &EmbeddedStore, writer: i64) -> Option<(i64, i64)> {
    let keys = ["L", "R"].map(|side| (TABLE.to_owned(), Key::new(format!("{side}{writer}"), "pair")));
    let items = store.batch_get(&keys).await.expect("a read");
    let number = |item: &Option<Item>| -> Option<i64> { item.as_ref()?.get("n")?.as_number()?.try_into().ok() };
    match (number(&items[0]), number(&items[1])) {
        (Some(left), Some(right)) => Some((left, right)),
        (None, None) => None,
        half => panic!("only half of a write set is stored: {half:?}"),
    }
}

/// Checks that all acknowledged writes are stored, and no write set partially.
pub(crate) async fn check(store: &EmbeddedStore, acknowledged: &Acknowledged) {
    for writer in 0..WRITERS {
        let expected = acknowledged.get(&writer).copied().unwrap_or(0);
        let Some((left, right)) = stored(store, writer).await else {
            assert_eq!(expected, 0, "writer {writer} lost everything");
            continue;
        };
        assert_eq!(left, right, "writer {writer} has only half of a write set");
        assert!(left >= expected, "writer {writer} lost {} acknowledged writes", expected - left);
        let indexed = store.query(Query::index(TABLE, "GSI1", format!("W{writer}"))).await.expect("a query").items;
        let numbers: Vec<_> = indexed.iter().filter_map(|item| item.get("n").and_then(Value::as_number)).collect();
        assert_eq!(
            numbers,
            [left.into(), left.into()],
            "the index of writer {writer} has other entries than its items"
        );
    }
}
