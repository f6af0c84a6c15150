//! A store that is watched: a second handle on it, and what was asked of it.

use std::sync::{Arc, Mutex};

use nagaya_store::{
    Answer, Capabilities, Changes, From, Item, Key, Page, Query, Scan, Store, TableSpec, Write, WriteSet, Written,
};

/// A store that is watched.
#[derive(Clone)]
pub(crate) struct Spy {
    store: Arc<dyn Store>,
    written: Arc<Mutex<Vec<Write>>>,
    asked: Arc<Mutex<Vec<Query>>>,
}

impl Spy {
    pub(crate) fn new(store: impl Store + 'static) -> Self {
        Spy { store: Arc::new(store), written: Arc::default(), asked: Arc::default() }
    }

    /// The writes since the last time.
    pub(crate) fn written(&self) -> Vec<Write> {
        std::mem::take(&mut self.written.lock().expect("nobody panics with it"))
    }

    /// The queries since the last time.
    pub(crate) fn asked(&self) -> Vec<Query> {
        std::mem::take(&mut self.asked.lock().expect("nobody panics with it"))
    }
}

impl Store for Spy {
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
        self.store.batch_get(keys)
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        self.asked.lock().expect("nobody panics with it").push(query.clone());
        self.store.query(query)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.store.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        self.written.lock().expect("nobody panics with it").extend(set.actions().iter().cloned());
        self.store.write(set)
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.store.changes(table, from, limit)
    }
}
