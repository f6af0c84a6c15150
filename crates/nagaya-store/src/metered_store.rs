//! A wrapper that counts the calls of a store, their durations and their errors, for every engine alike.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{
    Capabilities, ChangePage, ConsumedCapacity, Error, Health, Item, Key, Measurement, Page, Query, Scan,
    StartPosition, Store, StoreFuture, TableSpec, WriteOutcome, WriteSet, measure_capacity,
};

/// The operations, by their names in metrics.
const OPERATIONS: [&str; 7] = ["ensure", "get", "batch_get", "query", "scan", "write", "changes"];
/// The codes of errors. Failed conditions are counted separately, not as errors.
const CODES: [&str; 12] = [
    "invalid",
    "limit",
    "no_table",
    "no_index",
    "gap",
    "unsupported",
    "busy",
    "out_of_space",
    "unavailable",
    "unanswered",
    "engine",
    "other",
];
/// The upper bounds of the duration buckets, in seconds.
pub const DURATION_BUCKETS: [f64; 13] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
/// Capacity units are counted in thousandths, because engines charge half units.
const UNIT_SCALE: f64 = 1_000.0;

/// A store that counts its calls.
///
/// Each call costs two readings of the clock, a few additions and one boxed future.
pub struct MeteredStore {
    store: Arc<dyn Store>,
    operations: [OperationCounters; OPERATIONS.len()],
    conflicts: AtomicU64,
    errors: [AtomicU64; CODES.len()],
    read_units: AtomicU64,
    write_units: AtomicU64,
}

#[derive(Debug, Default)]
struct OperationCounters {
    /// The last bucket counts the calls that took longer than every bound.
    buckets: [AtomicU64; DURATION_BUCKETS.len() + 1],
    nanos: AtomicU64,
}

/// The calls of a store since it was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoreUsage {
    /// The operations with at least one call.
    pub operations: Vec<OperationUsage>,
    /// Writes whose conditions failed.
    pub conflicts: u64,
    /// Calls that failed for another reason, by error code; only codes that occurred.
    pub errors_by_code: Vec<(&'static str, u64)>,
    /// The capacity that the calls consumed.
    pub consumed: ConsumedCapacity,
}

/// The calls of one operation, and how long they took.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationUsage {
    /// The operation, such as `get`.
    pub name: &'static str,
    /// The number of calls in each of [`DURATION_BUCKETS`], not cumulative; the last counts the calls that took longer
    /// than every bound.
    pub buckets: [u64; DURATION_BUCKETS.len() + 1],
    /// The total duration, in seconds.
    pub seconds: f64,
}

impl OperationUsage {
    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl std::fmt::Debug for MeteredStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Measured")
    }
}

impl MeteredStore {
    /// Wraps a store and counts its calls.
    pub fn new(store: Arc<dyn Store>) -> Self {
        MeteredStore {
            store,
            operations: Default::default(),
            conflicts: AtomicU64::new(0),
            errors: Default::default(),
            read_units: AtomicU64::new(0),
            write_units: AtomicU64::new(0),
        }
    }

    /// The calls so far.
    pub fn usage(&self) -> StoreUsage {
        let operations = OPERATIONS.iter().zip(&self.operations).map(|(name, operation)| OperationUsage {
            name,
            buckets: operation.buckets.each_ref().map(|bucket| bucket.load(Relaxed)),
            seconds: Duration::from_nanos(operation.nanos.load(Relaxed)).as_secs_f64(),
        });
        let errors = CODES.iter().zip(&self.errors).map(|(code, count)| (*code, count.load(Relaxed)));
        StoreUsage {
            operations: operations.filter(|operation| operation.calls() > 0).collect(),
            conflicts: self.conflicts.load(Relaxed),
            errors_by_code: errors.filter(|(_, count)| *count > 0).collect(),
            consumed: ConsumedCapacity { read_units: units(&self.read_units), write_units: units(&self.write_units) },
        }
    }

    /// Counts a call when it ends.
    fn call<'a, T: Send + 'a>(&'a self, operation: usize, call: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let began = Instant::now();
            let (result, consumed) = measure_capacity(call).await;
            if let Some(operation) = self.operations.get(operation) {
                operation.count_call(began.elapsed());
            }
            if let Err(error) = &result {
                self.count_error(error);
            }
            add(&self.read_units, consumed.read_units);
            add(&self.write_units, consumed.write_units);
            result
        })
    }

    fn count_error(&self, error: &Error) {
        if error.is_conflict() {
            self.conflicts.fetch_add(1, Relaxed);
            return;
        }
        let code = error.code();
        let at = CODES.iter().position(|known| *known == code).unwrap_or(CODES.len() - 1);
        if let Some(count) = self.errors.get(at) {
            count.fetch_add(1, Relaxed);
        }
    }
}

impl OperationCounters {
    fn count_call(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = DURATION_BUCKETS.partition_point(|end| *end < seconds);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Relaxed);
        }
        self.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

fn units(parts: &AtomicU64) -> f64 {
    parts.load(Relaxed) as f64 / UNIT_SCALE
}

fn add(parts: &AtomicU64, units: f64) {
    // On engines that charge nothing this is always zero.
    if units > 0.0 {
        parts.fetch_add((units * UNIT_SCALE).round() as u64, Relaxed);
    }
}

impl Store for MeteredStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn ensure_tables<'a>(&'a self, tables: &'a [TableSpec]) -> StoreFuture<'a, ()> {
        self.call(0, self.store.ensure_tables(tables))
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> StoreFuture<'a, Option<Item>> {
        self.call(1, self.store.get(table, key))
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> StoreFuture<'a, Vec<Option<Item>>> {
        self.call(2, self.store.batch_get(keys))
    }

    fn query(&self, query: Query) -> StoreFuture<'_, Page> {
        self.call(3, self.store.query(query))
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        self.call(4, self.store.scan(scan))
    }

    fn write(&self, set: WriteSet) -> StoreFuture<'_, WriteOutcome> {
        self.call(5, self.store.write(set))
    }

    fn changes<'a>(&'a self, table: &'a str, from: StartPosition, limit: usize) -> StoreFuture<'a, ChangePage> {
        self.call(6, self.store.changes(table, from, limit))
    }

    fn health(&self) -> Health {
        self.store.health()
    }

    fn engine_metrics(&self) -> Vec<Measurement> {
        self.store.engine_metrics()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{Future as _, ready},
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;
    use crate::{ErrorKind, FailedCondition, Write, report_consumed_capacity};

    /// Reads cost half a unit; each write fails with another error.
    struct Engine(AtomicU64);

    impl Store for Engine {
        fn capabilities(&self) -> Capabilities {
            Capabilities::ALL
        }

        fn ensure_tables<'a>(&'a self, _: &'a [TableSpec]) -> StoreFuture<'a, ()> {
            Box::pin(ready(Ok(())))
        }

        fn get<'a>(&'a self, _: &'a str, _: &'a Key) -> StoreFuture<'a, Option<Item>> {
            Box::pin(async {
                report_consumed_capacity(ConsumedCapacity { read_units: 0.5, write_units: 0.0 });
                Ok(None)
            })
        }

        fn batch_get<'a>(&'a self, _: &'a [(String, Key)]) -> StoreFuture<'a, Vec<Option<Item>>> {
            Box::pin(ready(Ok(Vec::new())))
        }

        fn query(&self, _: Query) -> StoreFuture<'_, Page> {
            Box::pin(ready(Ok(Page::default())))
        }

        fn scan(&self, _: Scan) -> StoreFuture<'_, Page> {
            Box::pin(ready(Ok(Page::default())))
        }

        fn write(&self, _: WriteSet) -> StoreFuture<'_, WriteOutcome> {
            let error = match self.0.fetch_add(1, Relaxed) {
                0 => ErrorKind::ConditionFailed(vec![FailedCondition { action: 0, current: None }]).into(),
                1 => Error::unavailable("down"),
                _ => ErrorKind::Busy.into(),
            };
            Box::pin(ready(Err(error)))
        }

        fn changes<'a>(&'a self, _: &'a str, _: StartPosition, _: usize) -> StoreFuture<'a, ChangePage> {
            Box::pin(ready(Err(ErrorKind::Gap.into())))
        }
    }

    fn run<T>(call: StoreFuture<'_, T>) -> Result<T, Error> {
        match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("the engine completes at once"),
        }
    }

    #[test]
    fn calls_are_counted_with_their_failures_and_what_they_consumed() {
        let store = MeteredStore::new(Arc::new(Engine(AtomicU64::new(0))));
        assert_eq!(store.usage(), StoreUsage::default());
        let key = Key::new("a", "b");
        for _ in 0..3 {
            assert_eq!(run(store.get("t", &key)).expect("it answers"), None);
        }
        for code in ["condition_failed", "unavailable", "busy", "busy"] {
            let write = Write::delete("t", key.clone());
            assert_eq!(run(store.write(write.into())).expect_err("it fails").code(), code);
        }
        let usage = store.usage();
        let calls: Vec<_> = usage.operations.iter().map(|each| (each.name, each.calls())).collect();
        assert_eq!(calls, [("get", 3), ("write", 4)], "operations without calls are left out");
        assert_eq!(usage.conflicts, 1);
        assert_eq!(usage.errors_by_code, [("busy", 2), ("unavailable", 1)]);
        assert_eq!(usage.consumed, ConsumedCapacity { read_units: 1.5, write_units: 0.0 });
    }

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_is_not_shorter() {
        let bucket = |nanos: u64| {
            let operation = OperationCounters::default();
            operation.count_call(Duration::from_nanos(nanos));
            operation.buckets.iter().position(|bucket| bucket.load(Relaxed) == 1)
        };
        assert_eq!(bucket(0), Some(0));
        assert_eq!(bucket(100_000), Some(0));
        assert_eq!(bucket(100_001), Some(1));
        assert_eq!(bucket(60_000_000_000), Some(DURATION_BUCKETS.len()));
    }
}
