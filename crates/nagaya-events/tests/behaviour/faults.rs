//! A store whose n-th call goes wrong.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use nagaya_store::{
    Answer, Capabilities, Changes, Error, From, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet, Written,
};
use tokio::sync::Notify;

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails, and nothing has happened.
    Refused,
    /// It fails, and has happened.
    Unanswered,
    /// The process dies before it.
    KilledBefore,
    /// The process dies after it has happened, and before it knows.
    KilledAfter,
}

pub(crate) const FAULTS: [Fault; 4] = [Fault::Refused, Fault::Unanswered, Fault::KilledBefore, Fault::KilledAfter];

/// A store whose n-th call goes wrong.
pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    calls: AtomicU64,
    /// Which call goes wrong, and how.
    fault: Mutex<Option<(u64, Fault)>>,
    died: Notify,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Faulty { inner, calls: AtomicU64::new(0), fault: Mutex::new(None), died: Notify::new() })
    }

    /// Lets the n-th call from now on go wrong.
    pub(crate) fn arm(&self, n: u64, fault: Fault) {
        self.calls.store(0, Ordering::SeqCst);
        *self.fault.lock().expect("nobody panics with it") = Some((n, fault));
    }

    /// How many calls there have been since.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Does something, until it is done or the process dies; `None`: it died.
    pub(crate) async fn live<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.died.notified() => None,
            done = work => Some(done),
        }
    }

    async fn call<T>(&self, real: Answer<'_, T>) -> Result<T, Error> {
        let n = self.calls.fetch_add(1, Ordering::SeqCst);
        let fault = *self.fault.lock().expect("nobody panics with it");
        let dead = fault.is_some_and(|(at, fault)| at < n && matches!(fault, Fault::KilledBefore | Fault::KilledAfter));
        match fault.filter(|(at, _)| *at == n).map(|(_, fault)| fault) {
            // Who is dead asks for nothing any more.
            _ if dead => std::future::pending().await,
            None => real.await,
            Some(Fault::Refused) => Err(Error::engine("the disk is gone for a moment")),
            Some(Fault::Unanswered) => {
                real.await?;
                Err(Error::unanswered("the line was cut"))
            }
            Some(fault) => {
                if fault == Fault::KilledAfter {
                    real.await?;
                }
                self.died.notify_one();
                std::future::pending().await
            }
        }
    }
}

impl Store for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        Box::pin(self.call(self.inner.ensure(tables)))
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        Box::pin(self.call(self.inner.get(table, key)))
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        Box::pin(self.call(self.inner.batch_get(keys)))
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        Box::pin(self.call(self.inner.query(query)))
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        Box::pin(self.call(self.inner.scan(scan)))
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        Box::pin(self.call(self.inner.write(set)))
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        Box::pin(self.call(self.inner.changes(table, from, limit)))
    }
}
