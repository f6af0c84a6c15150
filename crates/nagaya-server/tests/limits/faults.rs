//! A store that fails when the test says so.

use std::sync::{Arc, Mutex};

use nagaya_embedded::Embedded;
use nagaya_store::{
    Answer, Capabilities, Changes, Error, From, Health, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet,
    Written,
};

/// What goes wrong.
#[derive(Default)]
pub(crate) struct Faults {
    health: Mutex<Option<Health>>,
    error: Mutex<Option<fn() -> Error>>,
}

impl Faults {
    /// What the store says about itself from now on.
    pub(crate) fn say(&self, health: Health) {
        *self.health.lock().expect("no panic") = Some(health);
    }

    /// How every call fails from now on; `None`: none does.
    pub(crate) fn fail(&self, error: Option<fn() -> Error>) {
        *self.error.lock().expect("no panic") = error;
    }

    fn check(&self) -> Result<(), Error> {
        self.error.lock().expect("no panic").map_or(Ok(()), |error| Err(error()))
    }
}

/// A store with these faults.
pub(crate) struct Faulty {
    pub(crate) store: Arc<Embedded>,
    pub(crate) faults: Arc<Faults>,
}

impl Faulty {
    fn unless<'a, T: Send + 'a>(&'a self, call: impl FnOnce(&'a Embedded) -> Answer<'a, T>) -> Answer<'a, T> {
        match self.faults.check() {
            Ok(()) => call(&self.store),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl Store for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        self.unless(|store| store.ensure(tables))
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        self.unless(|store| store.get(table, key))
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        self.unless(|store| store.batch_get(keys))
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        self.unless(|store| store.query(query))
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.unless(|store| store.scan(scan))
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        self.unless(|store| store.write(set))
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.unless(|store| store.changes(table, from, limit))
    }

    fn health(&self) -> Health {
        self.faults.health.lock().expect("no panic").clone().unwrap_or(Health::Ready)
    }
}
