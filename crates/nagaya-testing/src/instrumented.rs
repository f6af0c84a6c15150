//! A store that logs calls and injects faults.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{
    Capabilities, ChangePage, Error, Health, Item, Key, Measurement, Page, Query, Scan, StartPosition, Store,
    StoreFuture, TableSpec, Write, WriteOutcome, WriteSet,
};
use tokio::sync::watch;

use crate::ManualClock;

/// A call to a store.
#[derive(Debug, Clone)]
pub enum Call {
    /// [`Store::ensure_tables`] of tables.
    Ensure(Vec<TableSpec>),
    /// [`Store::get`] from a table.
    Get(String, Key),
    /// [`Store::batch_get`].
    BatchGet(Vec<(String, Key)>),
    /// [`Store::query`].
    Query(Box<Query>),
    /// [`Store::scan`].
    Scan(Scan),
    /// [`Store::write`].
    Write(WriteSet),
    /// [`Store::changes`] of a table.
    Changes(String),
}

impl Call {
    /// Whether it is a write set.
    pub fn is_write(&self) -> bool {
        matches!(self, Call::Write(_))
    }

    /// Whether it reads changes.
    pub fn is_changes(&self) -> bool {
        matches!(self, Call::Changes(_))
    }

    /// The actions of a write set; none of other calls.
    pub fn writes(&self) -> &[Write] {
        match self {
            Call::Write(set) => set.actions(),
            _ => &[],
        }
    }
}

/// What happens at calls that match. A fault without a condition matches all calls.
pub struct Fault {
    stage: Stage,
    effect: Effect,
    matches: Box<dyn Fn(&Call) -> bool + Send + Sync>,
    skip: u64,
    times: u64,
}

/// When a fault takes place: before the call has its effect, or after it has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    After,
}

/// What runs before a call.
type Hook = Box<dyn Fn(&Call) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

enum Effect {
    Fail(Box<dyn Fn() -> Error + Send + Sync>),
    Crash,
    Pause,
    Hook(Hook),
}

impl Fault {
    fn new(stage: Stage, effect: Effect) -> Self {
        Fault { stage, effect, matches: Box::new(|_| true), skip: 0, times: u64::MAX }
    }

    /// The call fails and has no effect.
    pub fn fail_before(error: impl Fn() -> Error + Send + Sync + 'static) -> Self {
        Fault::new(Stage::Before, Effect::Fail(Box::new(error)))
    }

    /// The call has its effect and fails.
    pub fn fail_after(error: impl Fn() -> Error + Send + Sync + 'static) -> Self {
        Fault::new(Stage::After, Effect::Fail(Box::new(error)))
    }

    /// The process ends before the call: neither this call nor any later one returns. See
    /// [`InstrumentedStore::until_crash`].
    pub fn crash_before() -> Self {
        Fault::new(Stage::Before, Effect::Crash)
    }

    /// The process ends after the call had its effect, before it returns.
    pub fn crash_after_effect() -> Self {
        Fault::new(Stage::After, Effect::Crash)
    }

    /// The call has its effect and returns when [`InjectedFault::remove`] is called.
    pub fn pause_after() -> Self {
        Fault::new(Stage::After, Effect::Pause)
    }

    /// Runs this before the call.
    pub fn run_before<F>(hook: impl Fn(&Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Fault::new(Stage::Before, Effect::Hook(Box::new(move |call| Box::pin(hook(call)))))
    }

    /// Only calls that match.
    #[must_use]
    pub fn matching(self, matches: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        Fault { matches: Box::new(matches), ..self }
    }

    /// Skips the first `calls` matching calls.
    #[must_use]
    pub fn skip(self, calls: u64) -> Self {
        Fault { skip: calls, ..self }
    }

    /// Only one call.
    #[must_use]
    pub fn once(self) -> Self {
        Fault { times: 1, ..self }
    }
}

/// A fault that was injected.
#[derive(Clone)]
pub struct InjectedFault(Arc<Active>);

struct Active {
    fault: Fault,
    /// Calls that matched.
    matched: AtomicU64,
    /// Calls that the fault took place at.
    hits: watch::Sender<u64>,
    removed: watch::Sender<bool>,
}

impl InjectedFault {
    /// How many calls it took place at.
    pub fn hits(&self) -> u64 {
        *self.0.hits.borrow()
    }

    /// Waits until it takes place.
    pub async fn wait_for_hit(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.hits.subscribe().wait_for(|hits| *hits > 0).await;
    }

    /// It takes place no more; calls that it has paused return.
    pub fn remove(&self) {
        self.0.removed.send_replace(true);
    }
}

impl Active {
    /// Whether it takes place at this call.
    fn applies(&self, stage: Stage, call: &Call) -> bool {
        if self.fault.stage != stage || *self.removed.borrow() || !(self.fault.matches)(call) {
            return false;
        }
        let n = self.matched.fetch_add(1, Ordering::SeqCst);
        let applies = n.checked_sub(self.fault.skip).is_some_and(|n| n < self.fault.times);
        if applies {
            self.hits.send_modify(|hits| *hits += 1);
        }
        applies
    }
}

/// Rewrites the pages of queries.
type RewritePage = Box<dyn Fn(&Query, Page) -> Page + Send + Sync>;

/// A store that logs calls and injects faults. Several of them can wrap the same store, as processes share one.
pub struct InstrumentedStore {
    inner: Arc<dyn Store>,
    log: Mutex<Vec<Call>>,
    calls: AtomicU64,
    faults: Mutex<Vec<Arc<Active>>>,
    crashed: watch::Sender<bool>,
    health: Mutex<Option<Health>>,
    rewrite_page: Mutex<Option<RewritePage>>,
    lagging_indexes: AtomicBool,
    single_partition_sets: AtomicBool,
}

impl InstrumentedStore {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(InstrumentedStore {
            inner,
            log: Mutex::default(),
            calls: AtomicU64::new(0),
            faults: Mutex::default(),
            crashed: watch::Sender::new(false),
            health: Mutex::default(),
            rewrite_page: Mutex::default(),
            lagging_indexes: AtomicBool::new(false),
            single_partition_sets: AtomicBool::new(false),
        })
    }

    /// Injects a fault. Faults take place in the order in which they were injected.
    pub fn inject(&self, fault: Fault) -> InjectedFault {
        let (hits, removed) = (watch::Sender::new(0), watch::Sender::new(false));
        let active = Arc::new(Active { fault, matched: AtomicU64::new(0), hits, removed });
        lock(&self.faults).push(Arc::clone(&active));
        InjectedFault(active)
    }

    /// Runs work until it is done; `None` when a fault ended the process before.
    pub async fn until_crash<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut crashed = self.crashed.subscribe();
        tokio::select! {
            biased;
            _ = crashed.wait_for(|crashed| *crashed) => None,
            done = work => Some(done),
        }
    }

    /// How many calls were made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// The writes since the last call of this method.
    pub fn take_writes(&self) -> Vec<Write> {
        self.take(Call::is_write).iter().flat_map(Call::writes).cloned().collect()
    }

    /// The queries since the last call of this method.
    pub fn take_queries(&self) -> Vec<Query> {
        let query = |call| match call {
            Call::Query(query) => Some(*query),
            _ => None,
        };
        self.take(|call| matches!(call, Call::Query(_))).into_iter().filter_map(query).collect()
    }

    /// The calls since the last time that match.
    pub fn take(&self, matches: impl Fn(&Call) -> bool) -> Vec<Call> {
        lock(&self.log).extract_if(.., |call| matches(call)).collect()
    }

    /// The store reports this health from now on.
    pub fn set_health(&self, health: Health) {
        *lock(&self.health) = Some(health);
    }

    /// Queries return what this makes of their pages from now on.
    pub fn rewrite_pages(&self, rewrite: impl Fn(&Query, Page) -> Page + Send + Sync + 'static) {
        *lock(&self.rewrite_page) = Some(Box::new(rewrite));
    }

    /// The store says from now on that its indexes do not show every write at once.
    pub fn declare_lagging_indexes(&self) {
        self.lagging_indexes.store(true, Ordering::SeqCst);
    }

    /// The store says from now on that a write set cannot span partitions.
    pub fn declare_single_partition_sets(&self) {
        self.single_partition_sets.store(true, Ordering::SeqCst);
    }

    async fn run<'a, T>(
        &'a self,
        call: Call,
        effect: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, T>,
    ) -> Result<T, Error> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        lock(&self.log).push(call.clone());
        self.apply_faults(Stage::Before, &call).await?;
        let answer = effect(&*self.inner).await?;
        self.apply_faults(Stage::After, &call).await?;
        Ok(answer)
    }

    async fn apply_faults(&self, stage: Stage, call: &Call) -> Result<(), Error> {
        if *self.crashed.borrow() {
            return pending().await;
        }
        let faults: Vec<_> = lock(&self.faults).iter().filter(|fault| fault.applies(stage, call)).cloned().collect();
        for active in faults {
            match &active.fault.effect {
                Effect::Fail(error) => return Err(error()),
                Effect::Crash => {
                    self.crashed.send_replace(true);
                    return pending().await;
                }
                Effect::Pause => {
                    // The sender lives as long as `active`.
                    let _ = active.removed.subscribe().wait_for(|removed| *removed).await;
                }
                Effect::Hook(hook) => hook(call).await,
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for InstrumentedStore {
    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.capabilities();
        let lagging = self.lagging_indexes.load(Ordering::SeqCst);
        let single = self.single_partition_sets.load(Ordering::SeqCst);
        Capabilities {
            consistent_indexes: inner.consistent_indexes && !lagging,
            cross_partition: inner.cross_partition && !single,
            ..inner
        }
    }

    fn ensure_tables<'a>(&'a self, tables: &'a [TableSpec]) -> StoreFuture<'a, ()> {
        Box::pin(self.run(Call::Ensure(tables.to_vec()), |store| store.ensure_tables(tables)))
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> StoreFuture<'a, Option<Item>> {
        Box::pin(self.run(Call::Get(table.to_owned(), key.clone()), |store| store.get(table, key)))
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> StoreFuture<'a, Vec<Option<Item>>> {
        Box::pin(self.run(Call::BatchGet(keys.to_vec()), |store| store.batch_get(keys)))
    }

    fn query(&self, query: Query) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            let page = self.run(Call::Query(Box::new(query.clone())), |store| store.query(query.clone())).await?;
            Ok(match &*lock(&self.rewrite_page) {
                Some(rewrite) => rewrite(&query, page),
                None => page,
            })
        })
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(self.run(Call::Scan(scan.clone()), |store| store.scan(scan)))
    }

    fn write(&self, set: WriteSet) -> StoreFuture<'_, WriteOutcome> {
        Box::pin(self.run(Call::Write(set.clone()), |store| store.write(set)))
    }

    fn changes<'a>(&'a self, table: &'a str, from: StartPosition, limit: usize) -> StoreFuture<'a, ChangePage> {
        Box::pin(self.run(Call::Changes(table.to_owned()), move |store| store.changes(table, from, limit)))
    }

    fn health(&self) -> Health {
        lock(&self.health).clone().unwrap_or_else(|| self.inner.health())
    }

    fn engine_metrics(&self) -> Vec<Measurement> {
        self.inner.engine_metrics()
    }
}

/// A store in memory.
pub fn memory_store(clock: &ManualClock) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::in_memory(Options { clock: clock.clock(), ..Options::default() }).expect("memory"))
}
