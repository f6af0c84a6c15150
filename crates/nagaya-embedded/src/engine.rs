//! The engine: opening, the threads, and the port.

use std::{
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
};

use nagaya_store::{
    Answer, Capabilities, ChangePosition, Changes, Error, ErrorKind, From, Health, Item, Key, Measurement, Page, Query,
    Scan, Store, TableSpec, WriteSet, Written,
};
use tokio::sync::oneshot;

use crate::{
    backing::Backing,
    commit::{Committer, Request},
    housekeeping::Housekeeping,
    layout::Space,
    lock::Lock,
    options::Options,
    plan, read,
    record::{INCARNATION_KEY, Table},
    space::FreeSpace,
    sweep::Swept,
    upgrade,
};

/// A store in one directory, or in memory.
pub struct Embedded {
    /// `None` only while it is dropped: closing the channel ends the thread.
    client: Option<Client>,
    shared: Arc<Shared>,
    committer: Option<JoinHandle<()>>,
    housekeeping: Option<Housekeeping>,
    _lock: Option<Lock>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded")
    }
}

/// What readers and the threads share.
pub(crate) struct Shared {
    pub(crate) backing: Backing,
    pub(crate) tables: RwLock<HashMap<String, Arc<Table>>>,
    pub(crate) options: Options,
    /// What tells this store from all others, in hexadecimal digits.
    incarnation: String,
    pub(crate) swept: Swept,
    pub(crate) space: FreeSpace,
    /// Set when the store is being dropped.
    stopping: AtomicBool,
    /// Set when nobody is left to commit.
    pub(crate) committer_died: AtomicBool,
}

/// Asks the committing thread.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    requests: Sender<Request>,
}

impl Client {
    /// Sends a request to the committing thread and waits for its answer.
    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> Result<T, Error> {
        let stopped = || Error::unavailable("the committing thread has stopped");
        let (reply, replied) = oneshot::channel();
        self.requests.send(request(reply)).map_err(|_| stopped())?;
        replied.await.map_err(|_| stopped())?
    }

    /// Ends long work when the store is being dropped.
    pub(crate) fn check_running(&self) -> Result<(), Error> {
        match self.shared.stopping.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::unavailable("the store is being closed")),
        }
    }
}

impl Embedded {
    /// Opens a directory, or makes one. A directory of an earlier format is brought up to date.
    ///
    /// An end of the journal that a crash has torn is cut off. A directory that has lost acknowledged commits, or that a
    /// restore has filled by half, is refused.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let directory = directory.as_ref();
        let lock = Lock::take(directory)?;
        let backing = Backing::open(directory, &options)?;
        upgrade::bring_up_to_date(&backing)?;
        Embedded::start(backing, options, Some(lock))
    }

    /// A store without a disk, for tests: the same behaviour, and gone when it is dropped.
    pub fn memory(options: Options) -> Result<Self, Error> {
        let backing = Backing::memory();
        upgrade::begin(&backing)?;
        Embedded::start(backing, options, None)
    }

    fn start(backing: Backing, options: Options, lock: Option<Lock>) -> Result<Self, Error> {
        let view = backing.view()?;
        let tables = read::tables(&view)?;
        let incarnation = view.get(Space::Meta, INCARNATION_KEY)?.unwrap_or_default();
        let incarnation = incarnation.iter().map(|byte| format!("{byte:02x}")).collect();
        drop(view);
        let shared = Arc::new(Shared {
            space: FreeSpace::of(&backing, &options),
            backing,
            tables: RwLock::new(tables),
            options,
            incarnation,
            swept: Swept::default(),
            stopping: AtomicBool::new(false),
            committer_died: AtomicBool::new(false),
        });
        let (requests, incoming) = channel();
        let committer = Committer::new(Arc::clone(&shared))?;
        let thread = std::thread::Builder::new().name("nagaya-commit".to_owned());
        let watched = Arc::clone(&shared);
        let run = move || {
            // A store that cannot commit must not be taken for one that can.
            if catch_unwind(AssertUnwindSafe(|| committer.run(&incoming))).is_err() {
                tracing::error!("the committing thread has panicked; the process has to be started again");
                watched.committer_died.store(true, Ordering::Release);
            }
        };
        let committer = thread.spawn(run).map_err(Error::engine)?;
        let client = Client { shared: Arc::clone(&shared), requests };
        let housekeeping = Housekeeping::start(&client)?;
        Ok(Embedded { client: Some(client), shared, committer: Some(committer), housekeeping, _lock: lock })
    }

    /// Does at once what is done every so often: removes all items that have expired and all changes that are older than the
    /// retention, and syncs what is not urgent.
    pub async fn sweep(&self) -> Result<(), Error> {
        self.shared.maintain();
        self.client()?.sweep().await
    }

    /// Builds the indexes of a table anew from its items: all, or the one with this name. Writes go on meanwhile; queries of
    /// an index that is being built fail as if it were not there yet.
    pub async fn reindex(&self, table: &str, index: Option<&str>) -> Result<(), Error> {
        let (table, index) = (table.to_owned(), index.map(str::to_owned));
        self.ask(|reply| Request::Reindex(table, index, reply)).await
    }

    pub(crate) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> Result<T, Error> {
        self.client()?.ask(request).await
    }

    fn client(&self) -> Result<&Client, Error> {
        self.client.as_ref().ok_or_else(|| Error::engine("the store has been closed"))
    }

    pub(crate) fn backing(&self) -> &Backing {
        &self.shared.backing
    }

    /// The tables, by name.
    pub(crate) fn sorted_tables(&self) -> Vec<Arc<Table>> {
        self.shared.sorted_tables()
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.shared.options.clock.millis()
    }
}

impl Shared {
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>, Error> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(name).map(Arc::clone).ok_or_else(|| ErrorKind::NoTable(name.to_owned()).into())
    }

    /// The tables, by name.
    pub(crate) fn sorted_tables(&self) -> Vec<Arc<Table>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut tables: Vec<_> = tables.values().map(Arc::clone).collect();
        tables.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
        tables
    }

    /// The position after a change.
    pub(crate) fn position(&self, sequence: u64) -> ChangePosition {
        ChangePosition(format!("{}:{sequence}", self.incarnation))
    }

    /// The sequence of a position that this store has given out.
    pub(crate) fn sequence_of(&self, position: &ChangePosition) -> Option<u64> {
        let (incarnation, sequence) = position.0.split_once(':')?;
        sequence.parse().ok().filter(|_| incarnation == self.incarnation)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        drop(self.housekeeping.take());
        // What has been sent is still committed; then the thread ends.
        drop(self.client.take());
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
        if let Some(disk) = self.shared.backing.disk() {
            disk.sync_mark();
        }
    }
}

impl Store for Embedded {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        Box::pin(async move { self.ask(|reply| Request::Ensure(tables.to_vec(), reply)).await })
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        Box::pin(async move { read::get(&self.shared, table, key) })
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        Box::pin(async move { read::batch_get(&self.shared, keys) })
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        Box::pin(async move { read::query(&self.shared, &query) })
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        Box::pin(async move { read::scan(&self.shared, &scan) })
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        Box::pin(async move {
            self.shared.space.check()?;
            let actions = plan::prepare(&self.shared, set)?;
            self.ask(|reply| Request::Write(actions, reply)).await
        })
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        Box::pin(async move { read::changes(&self.shared, table, &from, limit) })
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn measurements(&self) -> Vec<Measurement> {
        self.shared.measurements()
    }
}
