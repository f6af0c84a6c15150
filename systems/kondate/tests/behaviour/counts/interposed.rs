//! A store in which something happens just before a save is counted.

use std::sync::{Arc, Mutex};

use nagaya_store::{
    Action, Answer, Capabilities, Changes, ErrorKind, From, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet,
    Written,
};

/// What happens.
pub(super) type Event = Box<dyn FnOnce() -> Answer<'static, ()> + Send>;

/// A store in which something happens just before a save is counted, once.
#[derive(Clone)]
pub(super) struct Interposed {
    store: Arc<dyn Store>,
    event: Arc<Mutex<Option<Event>>>,
    refused: Arc<Mutex<Option<String>>>,
}

impl Interposed {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Interposed { store, event: Arc::default(), refused: Arc::default() }
    }

    /// What happens next time.
    pub(super) fn before_counting(&self, event: Event) {
        *self.event.lock().expect("nobody panics with it") = Some(event);
    }

    /// Counts nothing from now on whose key has this in it.
    pub(super) fn refuse(&self, part: Option<&str>) {
        *self.refused.lock().expect("nobody panics with it") = part.map(str::to_owned);
    }

    pub(super) fn has_happened(&self) -> bool {
        self.event.lock().expect("nobody panics with it").is_none()
    }
}

/// The key of the item that counts, if a set changes one.
fn counting(set: &WriteSet) -> Option<String> {
    set.actions().iter().find_map(|write| match &write.action {
        Action::Update { key, .. } => Some(format!("{key:?}")).filter(|key| key.contains("CATALOG_RECIPE#")),
        _ => None,
    })
}

impl Store for Interposed {
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
        self.store.query(query)
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.store.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        let counting = counting(&set);
        let event = counting.as_ref().and_then(|_| self.event.lock().expect("nobody panics with it").take());
        let refused = self.refused.lock().expect("nobody panics with it").clone();
        Box::pin(async move {
            if let Some(event) = event {
                event().await?;
            }
            if counting.zip(refused).is_some_and(|(key, part)| key.contains(&part)) {
                return Err(ErrorKind::Busy.into());
            }
            self.store.write(set).await
        })
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.store.changes(table, from, limit)
    }
}
