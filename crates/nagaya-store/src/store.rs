//! The store port.

use std::{future::Future, pin::Pin, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Item, Key, TableSpec,
    change::{ChangePage, StartPosition},
    health::{Health, Measurement},
    query::{Page, Query, Scan},
    write::{WriteOutcome, WriteSet},
};

/// The future of a store call.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A store of items, with the same semantics on every engine.
///
/// An acknowledged write is durable. Reads of tables see all writes acknowledged before. Expired items are never
/// returned, even before the engine has removed them.
pub trait Store: Send + Sync {
    /// What this engine supports.
    fn capabilities(&self) -> Capabilities;

    /// Creates missing tables and indexes. Never changes or removes existing ones. An engine can be set to leave out missing
    /// indexes of existing tables; it logs a warning then.
    fn ensure_tables<'a>(&'a self, tables: &'a [TableSpec]) -> StoreFuture<'a, ()>;

    /// The item with this key.
    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> StoreFuture<'a, Option<Item>>;

    /// The items with these keys, up to 100, in the order of the keys.
    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> StoreFuture<'a, Vec<Option<Item>>>;

    /// A page of a query.
    fn query(&self, query: Query) -> StoreFuture<'_, Page>;

    /// A page of a scan.
    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page>;

    /// Performs all actions or none.
    fn write(&self, set: WriteSet) -> StoreFuture<'_, WriteOutcome>;

    /// Changes of a table, at least once, in order for each item.
    ///
    /// A position of another store, or one that is older than the retained changes, fails with [`Gap`]: the reader has
    /// missed changes and must read the items themselves.
    ///
    /// [`Gap`]: crate::ErrorKind::Gap
    fn changes<'a>(&'a self, table: &'a str, from: StartPosition, limit: usize) -> StoreFuture<'a, ChangePage>;

    /// Whether the store can serve requests, as far as the engine knows without a call; ready unless the engine
    /// overrides this.
    fn health(&self) -> Health {
        Health::Ready
    }

    /// Metrics of the engine.
    fn engine_metrics(&self) -> Vec<Measurement> {
        Vec::new()
    }
}

/// A store that can be shared: an engine, or one that is behind an `Arc` already.
pub trait IntoShared {
    /// The store behind one `Arc`.
    fn into_shared(self) -> Arc<dyn Store>;
}

impl<S: Store + 'static> IntoShared for S {
    fn into_shared(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

impl<S: Store + 'static> IntoShared for Arc<S> {
    fn into_shared(self) -> Arc<dyn Store> {
        self
    }
}

impl IntoShared for Arc<dyn Store> {
    fn into_shared(self) -> Arc<dyn Store> {
        self
    }
}

/// What an engine supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// A write set may have several actions.
    pub transactions: bool,
    /// A write set may span partitions and tables.
    pub cross_partition: bool,
    /// Changes include the item before the change, and deletions.
    pub old_images: bool,
    /// Changes can be read.
    pub changes: bool,
    /// Numbers keep all 38 digits.
    pub exact_numbers: bool,
    /// Keys may be numbers and binaries.
    pub typed_keys: bool,
    /// A scan can be read in several segments in parallel.
    pub scan_segments: bool,
    /// Reads of indexes see every acknowledged write; otherwise indexes are eventually consistent.
    pub consistent_indexes: bool,
    /// Batches and pages show all actions of a write set or none; otherwise only single items are atomic.
    pub snapshot_reads: bool,
}

impl Capabilities {
    /// The capabilities of an engine that lacks nothing; others turn off what they lack.
    pub const ALL: Capabilities = Capabilities {
        transactions: true,
        cross_partition: true,
        old_images: true,
        changes: true,
        exact_numbers: true,
        typed_keys: true,
        scan_segments: true,
        consistent_indexes: true,
        snapshot_reads: true,
    };
}
