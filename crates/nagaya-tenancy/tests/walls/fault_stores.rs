//! Stores that crash at a write, whose indexes lag, or whose calls interleave.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Error, Item, Key, Scan, Store, Value, Write, WriteAction};
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

/// A store on this one that refuses write sets of several partitions.
pub(crate) fn one_partition(store: &Arc<dyn Store>) -> Arc<InstrumentedStore> {
    let store = InstrumentedStore::new(Arc::clone(store));
    store.declare_one_partition_per_set();
    let spans_partitions = |call: &Call| {
        let partitions: HashSet<_> =
            call.writes().iter().map(|write| (write.table.clone(), key_of(write).partition)).collect();
        partitions.len() > 1
    };
    store.inject(Fault::fail_before(|| Error::invalid("several partitions")).matching(spans_partitions));
    store
}

/// Does this work before the first write set with a matching write: another process is faster.
pub(crate) fn meanwhile(
    store: &InstrumentedStore,
    matches: impl Fn(&Write) -> bool + Send + Sync + 'static,
    work: impl Future<Output = ()> + Send + 'static,
) -> InjectedFault {
    let work = Mutex::new(Some(work));
    let begin = move |_: &Call| {
        let work = work.lock().expect("no panic").take();
        async move {
            if let Some(work) = work {
                work.await;
            }
        }
    };
    store.inject(Fault::run_before(begin).matching(move |call| call.writes().iter().any(&matches)).once())
}

/// Whether a write deletes the item under this sort key.
pub(crate) fn deletes(sort: &'static str) -> impl Fn(&Write) -> bool {
    move |write| matches!(&write.action, WriteAction::Delete { key } if key.sort.to_string() == sort)
}

/// Whether a write updates the item under this sort key.
pub(crate) fn updates(sort: &'static str) -> impl Fn(&Write) -> bool {
    move |write| matches!(&write.action, WriteAction::Update { key, .. } if key.sort.to_string() == sort)
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

fn key_of(write: &Write) -> Key {
    match &write.action {
        WriteAction::Put { item } => key(item),
        WriteAction::Update { key, .. } | WriteAction::Delete { key } | WriteAction::ConditionCheck { key } => {
            key.clone()
        }
    }
}

fn key(item: &Item) -> Key {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Key::new(text("PK"), text("SK"))
}
