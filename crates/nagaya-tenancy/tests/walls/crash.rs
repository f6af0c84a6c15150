//! A store that outlives the process which uses it, and that fails from a certain write on, as if the process had ended.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use nagaya_embedded::{Embedded, Options};
use nagaya_store::{
    Action, Answer, Capabilities, Changes, Error, From, Item, Key, Page, Query, Scan, Store, TableSpec, Value,
    WriteSet, Written,
};

/// When a process ends: before its next write is done, or after it, before it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    Before,
    After,
}

/// A store in memory that several processes use, one after the other or side by side.
#[derive(Clone)]
pub(crate) struct Shared {
    store: Arc<Embedded>,
    /// Writes until the process ends.
    left: Arc<AtomicUsize>,
    ends: Ends,
    /// When items were made, where indexes show them only some time later.
    lagging: Option<Arc<Mutex<HashMap<Key, Instant>>>>,
    /// How often other tasks get their turn before each call is done.
    turns: usize,
}

/// How long the indexes of a lagging store do not show what was made.
pub(crate) const LAG: Duration = Duration::from_millis(20);

impl Shared {
    pub(crate) fn new() -> Self {
        let store = Arc::new(Embedded::memory(Options::default()).expect("memory"));
        Shared { store, left: Arc::new(AtomicUsize::new(usize::MAX)), ends: Ends::Before, lagging: None, turns: 0 }
    }

    /// The store as a process sees it that ends after so many writes.
    pub(crate) fn ending(&self, ends: Ends, writes: usize) -> Self {
        Shared { left: Arc::new(AtomicUsize::new(writes)), ends, ..self.clone() }
    }

    /// The store with indexes that lag.
    pub(crate) fn lagging(&self) -> Self {
        Shared { lagging: Some(Arc::default()), ..self.clone() }
    }

    /// The store with calls that take their time, so that those of several tasks come in between each other.
    pub(crate) fn busy(&self) -> Self {
        Shared { turns: 5, ..self.clone() }
    }

    async fn wait(&self) {
        for _ in 0..self.turns {
            tokio::task::yield_now().await;
        }
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// Everything in a table.
    pub(crate) async fn all(&self, table: &str) -> Vec<Item> {
        let mut items = Vec::new();
        let mut after = None;
        loop {
            let page = self.store.scan(Scan { after, ..Scan::table(table) }).await.expect("a page");
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                return items;
            }
        }
    }
}

impl Store for Shared {
    fn capabilities(&self) -> Capabilities {
        Capabilities { consistent_indexes: self.lagging.is_none(), ..self.store.capabilities() }
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        self.store.ensure(tables)
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        Box::pin(async move {
            self.wait().await;
            self.store.get(table, key).await
        })
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        self.store.batch_get(keys)
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        let by_index = query.index.is_some();
        Box::pin(async move {
            self.wait().await;
            let mut page = self.store.query(query).await?;
            if let (true, Some(made)) = (by_index, &self.lagging) {
                let made = made.lock().expect("no panic");
                let shows = |item: &Item| made.get(&key(item)).is_none_or(|made| made.elapsed() > LAG);
                page.items.retain(shows);
            }
            Ok(page)
        })
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.store.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        Box::pin(async move {
            self.wait().await;
            if let Some(made) = &self.lagging {
                let puts = set.actions().iter().filter_map(|write| match &write.action {
                    Action::Put { item } => Some((key(item), Instant::now())),
                    _ => None,
                });
                made.lock().expect("no panic").extend(puts);
            }
            let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            match (left, self.ends) {
                (Ok(2..), _) => self.store.write(set).await,
                (Ok(_), Ends::After) => {
                    self.store.write(set).await?;
                    Err(Error::engine("the process has ended"))
                }
                _ => Err(Error::engine("the process has ended")),
            }
        })
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.store.changes(table, from, limit)
    }
}

fn key(item: &Item) -> Key {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Key::new(text("PK"), text("SK"))
}
