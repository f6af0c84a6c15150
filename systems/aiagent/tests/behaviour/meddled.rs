//! A store that tests meddle with.

use std::sync::atomic::{AtomicBool, Ordering};

use nagaya_embedded::{Embedded, Options};
use nagaya_store::{
    Action, Answer, Capabilities, Changes, Clock, Error, From, Item, Key, Page, Query, Scan, Store, TableSpec,
    WriteSet, Written,
};
use tokio::sync::Notify;

/// A store in memory that breaks off or holds on when it is told to, once each time.
pub(crate) struct Meddled {
    store: Embedded,
    /// The next write that makes a tenant fails, as if the process had ended before it.
    pub(crate) before: AtomicBool,
    /// The next write that makes a tenant happens, as if the process had ended before it knew.
    pub(crate) after: AtomicBool,
    /// The next batch is read, and given out when it is released.
    pub(crate) hold: AtomicBool,
    pub(crate) held: Notify,
    pub(crate) release: Notify,
}

impl Meddled {
    pub(crate) fn new(clock: Clock) -> Self {
        Meddled {
            store: Embedded::memory(Options { clock, ..Options::default() }).expect("memory"),
            before: AtomicBool::new(false),
            after: AtomicBool::new(false),
            hold: AtomicBool::new(false),
            held: Notify::new(),
            release: Notify::new(),
        }
    }
}

impl Store for Meddled {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        self.store.ensure(tables)
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        self.store.get(table, key)
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        Box::pin(async move {
            let items = self.store.batch_get(keys).await;
            if self.hold.swap(false, Ordering::SeqCst) {
                self.held.notify_one();
                self.release.notified().await;
            }
            items
        })
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        self.store.query(query)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.store.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        let is_tenant = |item: &Item| item.get("GSI1PK").and_then(|value| value.as_str()) == Some("TENANT");
        let makes = set.actions().iter().any(|write| matches!(&write.action, Action::Put { item } if is_tenant(item)));
        let ended = move |flag: &AtomicBool| makes && flag.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            if ended(&self.before) {
                return Err(Error::engine("the process has ended"));
            }
            let written = self.store.write(set).await;
            if ended(&self.after) { Err(Error::engine("the process has ended")) } else { written }
        })
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.store.changes(table, from, limit)
    }
}
