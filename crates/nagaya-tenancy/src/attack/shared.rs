//! A second handle on a store: the layer has one, and the suite plants and looks with the other.

use std::sync::Arc;

use nagaya_store::{
    Answer, Capabilities, Changes, From, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet, Written,
};

/// A store that several hold.
#[derive(Clone)]
pub(super) struct Shared(pub(super) Arc<dyn Store>);

impl Store for Shared {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        self.0.ensure(tables)
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        self.0.get(table, key)
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        self.0.batch_get(keys)
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        self.0.query(query)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.0.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        self.0.write(set)
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.0.changes(table, from, limit)
    }
}
