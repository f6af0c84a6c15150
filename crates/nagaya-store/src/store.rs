//! The port itself.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::{
    Error, Item, Key, TableSpec,
    change::{Changes, From},
    health::{Health, Measurement},
    query::{Page, Query, Scan},
    write::{WriteSet, Written},
};

/// The result of a call, to be awaited.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A store of items, in the semantics that all engines keep.
///
/// An acknowledged write is durable. Reads of tables see all writes acknowledged before. Expired items are never returned,
/// whatever the engine's sweep has done.
pub trait Store: Send + Sync {
    /// What this engine can do.
    fn capabilities(&self) -> Capabilities;

    /// Creates tables and indexes that are missing. Never changes or removes what is there.
    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()>;

    /// The item with this key.
    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>>;

    /// The items with these keys, up to 100, in the order of the keys.
    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>>;

    /// A page of a query.
    fn query(&self, query: Query) -> Answer<'_, Page>;

    /// A page of a scan.
    fn scan(&self, scan: Scan) -> Answer<'_, Page>;

    /// Does all actions or none.
    fn write(&self, set: WriteSet) -> Answer<'_, Written>;

    /// Changes of a table, at least once, in order for each item.
    ///
    /// A position that this store did not give out, or whose changes are not kept any more, is a [`Gap`]: the reader has
    /// missed changes and must read the items themselves.
    ///
    /// [`Gap`]: crate::ErrorKind::Gap
    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes>;

    /// Whether the store can serve, as far as the engine knows without a call. An engine that knows nothing about itself
    /// is ready.
    fn health(&self) -> Health {
        Health::Ready
    }

    /// What the engine measures about itself.
    fn measurements(&self) -> Vec<Measurement> {
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

/// What an engine can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// A write set may have several actions.
    pub transactions: bool,
    /// A write set may span partitions and tables.
    pub cross_partition: bool,
    /// Changes carry the item as it was before, and deletions.
    pub old_images: bool,
    /// Changes can be read at all.
    pub changes: bool,
    /// Numbers keep all 38 digits.
    pub exact_numbers: bool,
    /// Keys may be numbers and bytes.
    pub typed_keys: bool,
    /// The pages of a scan can be read in several segments side by side.
    pub scan_segments: bool,
    /// Indexes show every write that was acknowledged before; otherwise they follow soon.
    pub consistent_indexes: bool,
    /// Batches and pages show a write set wholly or not at all; otherwise only single items are never seen by half.
    pub snapshot_reads: bool,
}

impl Capabilities {
    /// Everything that the port knows.
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
