//! Counters of the engine: calls, capacity, throttles, retries, timeouts.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use aws_sdk_dynamodb::types;
use nagaya_store::ConsumedCapacity;

/// The counters of the engine since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Metrics {
    /// Single reads.
    pub get: Usage,
    /// Batch reads.
    pub batch_get: Usage,
    /// Pages of queries.
    pub query: Usage,
    /// Pages of scans.
    pub scan: Usage,
    /// Single puts.
    pub put: Usage,
    /// Single updates.
    pub update: Usage,
    /// Single deletes.
    pub delete: Usage,
    /// Transactions.
    pub transact: Usage,
    /// Batch writes.
    pub batch_write: Usage,
    /// Attempts that the server throttled.
    pub throttles: u64,
    /// Attempts after the first of a call.
    pub retries: u64,
    /// Attempts without a response in time.
    pub timeouts: u64,
    /// Keys and items of batches that the server left unprocessed.
    pub unprocessed: u64,
    /// Writes of which the engine does not know whether they happened.
    pub unanswered: u64,
}

/// The calls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Calls with a response.
    pub calls: u64,
    /// The capacity that they consumed.
    pub consumed: ConsumedCapacity,
}

/// Kinds of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    Get,
    BatchGet,
    Query,
    Scan,
    Put,
    Update,
    Delete,
    Transact,
    BatchWrite,
}

impl Call {
    fn is_write(self) -> bool {
        matches!(self, Call::Put | Call::Update | Call::Delete | Call::Transact | Call::BatchWrite)
    }
}

/// Collects the counters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    metrics: Mutex<Metrics>,
    calls: AtomicU64,
    attempts: AtomicU64,
}

impl Meter {
    pub(crate) fn metrics(&self) -> Metrics {
        let Counts { metrics, calls, attempts } = &*self.0;
        // A call is counted before its attempts. Loading in this order never gives more retries than there were.
        let attempts = attempts.load(Ordering::Acquire);
        let retries = attempts.saturating_sub(calls.load(Ordering::Acquire));
        Metrics { retries, ..*metrics.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Metrics)) {
        change(&mut self.0.metrics.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn count_call(&self) {
        self.0.calls.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn count_attempt(&self) {
        self.0.attempts.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts a call with a response and the capacity that it consumed, and reports the capacity to the caller.
    pub(crate) fn count_response(&self, call: Call, capacity: &[types::ConsumedCapacity]) {
        let consumed = capacity.iter().map(|capacity| consumed(call, capacity)).sum();
        nagaya_store::report_consumed_capacity(consumed);
        self.count(|metrics| {
            let usage = match call {
                Call::Get => &mut metrics.get,
                Call::BatchGet => &mut metrics.batch_get,
                Call::Query => &mut metrics.query,
                Call::Scan => &mut metrics.scan,
                Call::Put => &mut metrics.put,
                Call::Update => &mut metrics.update,
                Call::Delete => &mut metrics.delete,
                Call::Transact => &mut metrics.transact,
                Call::BatchWrite => &mut metrics.batch_write,
            };
            usage.calls += 1;
            usage.consumed = usage.consumed + consumed;
        });
    }
}

/// The capacity that a call consumed of one table. Most calls report only a total, which is of the call's kind.
fn consumed(call: Call, capacity: &types::ConsumedCapacity) -> ConsumedCapacity {
    let total = capacity.capacity_units().unwrap_or(0.0);
    match (capacity.read_capacity_units(), capacity.write_capacity_units()) {
        (None, None) if call.is_write() => ConsumedCapacity { read_units: 0.0, write_units: total },
        (None, None) => ConsumedCapacity { read_units: total, write_units: 0.0 },
        (read, write) => ConsumedCapacity { read_units: read.unwrap_or(0.0), write_units: write.unwrap_or(0.0) },
    }
}
