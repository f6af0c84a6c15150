//! The engine: opening a store, its threads, and the store port.

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
    Capabilities, ChangePage, ChangePosition, Error, ErrorKind, Health, Item, Key, Measurement, Page, Query, Scan,
    StartPosition, Store, StoreFuture, TableSpec, WriteOutcome, WriteSet,
};
use tokio::sync::oneshot;

use crate::{
    background::BackgroundThread,
    bytes::hex,
    commit::{Committer, MaintenanceRequest, Reply, Request, WriteRequest},
    encryption::{self, ENCRYPTION_KEY, EncryptionKey, EncryptionRecord, EncryptionState, Keyring},
    free_space::FreeSpace,
    layout::Keyspace,
    lock::DirectoryLock,
    options::Options,
    prepare, read,
    record::{self, INCARNATION_KEY, Table},
    storage::{Disk, Op, Storage},
    sweep::SweepProgress,
    upgrade,
};

/// A store in one directory, or in memory.
pub struct EmbeddedStore {
    /// `None` only while it is dropped: closing the channel ends the committing thread.
    client: Option<CommitClient>,
    shared: Arc<Shared>,
    committer: Option<JoinHandle<()>>,
    background: Option<BackgroundThread>,
    _lock: Option<DirectoryLock>,
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded")
    }
}

/// The state that readers and the threads share.
pub(crate) struct Shared {
    pub(crate) storage: Storage,
    pub(crate) tables: RwLock<HashMap<String, Arc<Table>>>,
    pub(crate) options: Options,
    /// The identity of this store, in hexadecimal digits.
    incarnation: String,
    pub(crate) sweep_progress: SweepProgress,
    pub(crate) free_space: FreeSpace,
    /// Set when the store is being dropped.
    stopping: AtomicBool,
    /// Set when the committing thread has panicked.
    pub(crate) committer_died: AtomicBool,
}

/// Sends requests to the committing thread.
#[derive(Clone)]
pub(crate) struct CommitClient {
    pub(crate) shared: Arc<Shared>,
    requests: Sender<Request>,
}

impl CommitClient {
    /// Sends a request to the committing thread and waits for its result.
    pub(crate) async fn request<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let stopped = || Error::unavailable("the committing thread has stopped");
        let (reply, replied) = oneshot::channel();
        self.requests.send(request(reply)).map_err(|_| stopped())?;
        replied.await.map_err(|_| stopped())?
    }

    /// Sends a maintenance request and waits for its result.
    pub(crate) async fn maintain(&self, request: impl FnOnce(Reply<()>) -> MaintenanceRequest) -> Result<(), Error> {
        self.request(|reply| Request::Maintenance(request(reply))).await
    }

    /// Fails when the store is being closed, so that long work ends.
    pub(crate) fn check_running(&self) -> Result<(), Error> {
        match self.shared.stopping.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::unavailable("the store is being closed")),
        }
    }
}

impl EmbeddedStore {
    /// Opens a directory, or creates it. A directory of an older format is upgraded.
    ///
    /// An end of the journal that a crash has torn is cut off. A directory that has lost acknowledged commits, or in
    /// which a restore was interrupted, is refused. So is an encrypted one without its key.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let directory = directory.as_ref();
        let lock = DirectoryLock::acquire(directory)?;
        let mut storage = Storage::open(directory, &options)?;
        let key = options.encryption_key.as_ref();
        let record = encryption::unlock(&storage, directory, key)?;
        if let Some(record) = record.filter(|record| record.purges_journals) {
            drop(storage);
            Disk::purge_journals(directory, &options)?;
            storage = Storage::open(directory, &options)?;
            encryption::unlock(&storage, directory, key)?;
            let record = record.with_purged_journals();
            storage.commit(vec![Op::Put(Keyspace::Meta, ENCRYPTION_KEY.into(), record.encode()?.into())])?;
        }
        upgrade::to_current_format(&storage)?;
        EmbeddedStore::start(storage, options, Some(lock))
    }

    /// A store in memory, for tests: the same behaviour, but its data is lost when it is dropped.
    pub fn in_memory(options: Options) -> Result<Self, Error> {
        let storage = Storage::memory();
        upgrade::initialize(&storage)?;
        EmbeddedStore::start(storage, options, None)
    }

    fn start(storage: Storage, options: Options, lock: Option<DirectoryLock>) -> Result<Self, Error> {
        let view = storage.view()?;
        let tables = read::tables(&view)?;
        let incarnation = view.get(Keyspace::Meta, INCARNATION_KEY)?.unwrap_or_default();
        let incarnation = hex(&incarnation);
        drop(view);
        let shared = Arc::new(Shared {
            free_space: FreeSpace::new(&storage, &options),
            storage,
            tables: RwLock::new(tables),
            options,
            incarnation,
            sweep_progress: SweepProgress::default(),
            stopping: AtomicBool::new(false),
            committer_died: AtomicBool::new(false),
        });
        let (requests, incoming) = channel();
        let committer = Committer::new(Arc::clone(&shared))?;
        let thread = std::thread::Builder::new().name("nagaya-commit".to_owned());
        let watched = Arc::clone(&shared);
        let run = move || {
            // Health checks must show that the store cannot commit any more.
            if catch_unwind(AssertUnwindSafe(|| committer.run(&incoming))).is_err() {
                tracing::error!("the committing thread has panicked; restart the process");
                watched.committer_died.store(true, Ordering::Release);
            }
        };
        let committer = thread.spawn(run).map_err(Error::engine)?;
        let client = CommitClient { shared: Arc::clone(&shared), requests };
        let background = BackgroundThread::start(&client)?;
        Ok(EmbeddedStore { client: Some(client), shared, committer: Some(committer), background, _lock: lock })
    }

    /// Does the work of the background thread now: removes all expired items and all changes that are older than the
    /// retention, checks the disk, and syncs what is not urgent.
    pub async fn sweep(&self) -> Result<(), Error> {
        self.shared.run_periodic_checks();
        self.client()?.sweep().await
    }

    /// Rebuilds all indexes of a table from its items, or the one with this name. Writes continue meanwhile; queries of
    /// an index that is being built fail as if it did not exist.
    pub async fn reindex(&self, table: &str, index: Option<&str>) -> Result<(), Error> {
        let (table, index) = (table.to_owned(), index.map(str::to_owned));
        self.maintain(|reply| MaintenanceRequest::Reindex(table, index, reply)).await
    }

    /// Encrypts the store with this key from now on: one that is not encrypted yet, or one with another key. What is stored
    /// is encrypted again in the background, also after a restart with the new key. [`EmbeddedStore::encryption`] shows how
    /// far that is. The new key takes effect when this returns: the next start needs it.
    pub async fn change_key(&self, key: EncryptionKey) -> Result<(), Error> {
        self.maintain(|reply| MaintenanceRequest::ChangeKey(key, reply)).await
    }

    /// Records that a file exists beside the store, so that its loss is noticed. A restored copy does not have the record.
    pub async fn remember_file(&self, name: &str) -> Result<(), Error> {
        if self.remembers_file(name)? {
            return Ok(());
        }
        self.maintain(|reply| MaintenanceRequest::RememberFile(name.to_owned(), reply)).await
    }

    /// Whether [`EmbeddedStore::remember_file`] was called with this name.
    pub fn remembers_file(&self, name: &str) -> Result<bool, Error> {
        Ok(self.storage().view()?.get(Keyspace::Meta, &record::file_key(name))?.is_some())
    }

    /// The key of the store, and how far values are encrypted with it; `None` if the store is not encrypted.
    pub fn encryption(&self) -> Result<Option<EncryptionState>, Error> {
        Ok(EncryptionRecord::read(&self.storage().view()?)?.map(|record| record.state()))
    }

    /// What another process needs, beside the key, to decrypt the files beside the store: see [`Keyring::from_record`].
    pub fn encryption_record(&self) -> Result<Option<Vec<u8>>, Error> {
        EncryptionRecord::read(&self.storage().view()?)?.map(|record| record.encode()).transpose()
    }

    /// Encrypts and decrypts the files beside the store; leaves them as they are while the store is not encrypted.
    pub fn keyring(&self) -> Arc<Keyring> {
        self.storage().disk().map_or_else(Arc::default, |disk| Arc::clone(disk.keyring()))
    }

    pub(crate) async fn maintain(&self, request: impl FnOnce(Reply<()>) -> MaintenanceRequest) -> Result<(), Error> {
        self.client()?.maintain(request).await
    }

    fn client(&self) -> Result<&CommitClient, Error> {
        self.client.as_ref().ok_or_else(|| Error::engine("the store has been closed"))
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.shared.storage
    }

    /// The tables, sorted by name.
    pub(crate) fn sorted_tables(&self) -> Vec<Arc<Table>> {
        self.shared.sorted_tables()
    }

    /// The current time, in milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        self.shared.options.clock.millis()
    }
}

impl Shared {
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>, Error> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(name).map(Arc::clone).ok_or_else(|| ErrorKind::NoTable(name.to_owned()).into())
    }

    /// The tables, sorted by name.
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

    /// The sequence number of a position; `None` if the position belongs to another store.
    pub(crate) fn sequence_of(&self, position: &ChangePosition) -> Option<u64> {
        let (incarnation, sequence) = position.0.split_once(':')?;
        sequence.parse().ok().filter(|_| incarnation == self.incarnation)
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        drop(self.background.take());
        // The thread commits what has been sent, and then ends.
        drop(self.client.take());
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
        if let Some(disk) = self.shared.storage.disk() {
            disk.sync_acknowledged();
        }
    }
}

impl Store for EmbeddedStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn ensure_tables<'a>(&'a self, tables: &'a [TableSpec]) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.maintain(|reply| MaintenanceRequest::Ensure(tables.to_vec(), reply)).await })
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move { read::get(&self.shared, table, key) })
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> StoreFuture<'a, Vec<Option<Item>>> {
        Box::pin(async move { read::batch_get(&self.shared, keys) })
    }

    fn query(&self, query: Query) -> StoreFuture<'_, Page> {
        Box::pin(async move { read::query(&self.shared, &query) })
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(async move { read::scan(&self.shared, &scan) })
    }

    fn write(&self, set: WriteSet) -> StoreFuture<'_, WriteOutcome> {
        Box::pin(async move {
            self.shared.free_space.check()?;
            let actions = prepare::prepare_writes(&self.shared, set)?;
            self.client()?.request(|reply| Request::Write(WriteRequest { actions, reply })).await
        })
    }

    fn changes<'a>(&'a self, table: &'a str, from: StartPosition, limit: usize) -> StoreFuture<'a, ChangePage> {
        Box::pin(async move { read::changes(&self.shared, table, &from, limit) })
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn engine_metrics(&self) -> Vec<Measurement> {
        self.shared.measurements()
    }
}
