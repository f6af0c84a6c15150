//! Stores that crash at a write, whose indexes lag, or whose calls interleave.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Error, Item, Key, Scan, Store, Value, WriteAction};
use nagaya_testing::{Call, Fault, InjectedFault, InstrumentedStore};

/// Whether a process crashes before its last write has an effect, or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    Before,
    After,
}

/// How long the indexes of a lagging store do not show new items.
pub(crate) const LAG: Duration = Duration::from_millis(20);

/// A store in memory.
pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::in_memory(Options::default()).expect("memory"))
}

/// A store in memory that logs calls.
pub(crate) fn logged() -> Arc<InstrumentedStore> {
    InstrumentedStore::new(memory())
}

/// The store of a process that crashes at this write, counted from one; and whether it has crashed.
pub(crate) fn crashing_at(
    store: &Arc<dyn Store>,
    ends: CrashPoint,
    write: u64,
) -> (Arc<InstrumentedStore>, InjectedFault) {
    let store = InstrumentedStore::new(Arc::clone(store));
    let fail = match ends {
        CrashPoint::Before => Fault::fail_before,
        CrashPoint::After => Fault::fail_after,
    };
    let ended = || Error::engine("the process has ended");
    let last = store.inject(fail(ended).matching(Call::is_write).skip(write - 1).once());
    store.inject(Fault::fail_before(ended).matching(Call::is_write).skip(write));
    (store, last)
}

/// A store in memory whose indexes lag.
pub(crate) fn lagging() -> Arc<dyn Store> {
    let store = logged();
    store.declare_lagging_indexes();
    let created = Arc::<Mutex<HashMap<Key, Instant>>>::default();
    let shown = Arc::clone(&created);
    let note = move |call: &Call| {
        let puts = call.writes().iter().filter_map(|write| match &write.action {
            WriteAction::Put { item } => Some((key(item), Instant::now())),
            _ => None,
        });
        created.lock().expect("no panic").extend(puts);
        std::future::ready(())
    };
    store.inject(Fault::run_before(note).matching(Call::is_write));
    store.rewrite_pages(move |query, mut page| {
        if query.index.is_some() {
            let created = shown.lock().expect("no panic");
            page.items.retain(|item| created.get(&key(item)).is_none_or(|created| created.elapsed() > LAG));
        }
        page
    });
    store
}

/// A store in memory whose calls let other tasks run first, so that the calls of several tasks interleave.
pub(crate) fn interleaving() -> Arc<dyn Store> {
    let store = logged();
    store.inject(Fault::run_before(|_| async {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    }));
    store
}

/// All items of a table.
pub(crate) async fn all(store: &Arc<dyn Store>, table: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let page = store.scan(Scan { after, ..Scan::table(table) }).await.expect("a page");
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            return items;
        }
    }
}

fn key(item: &Item) -> Key {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Key::new(text("PK"), text("SK"))
}
