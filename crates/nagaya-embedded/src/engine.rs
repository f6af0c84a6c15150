//! The engine: opening, the threads, and the port.

use std::{
    collections::HashMap,
    fmt,
    path::Path,
    sync::{
        Arc, PoisonError, RwLock,
        mpsc::{Sender, channel},
    },
    thread::JoinHandle,
};

use nagaya_store::{
    Answer, Capabilities, Changes, Error, ErrorKind, From, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet,
    Written,
};
use tokio::sync::oneshot;

use crate::{
    backing::Backing,
    commit::{Committer, Request},
    layout::Space,
    lock::Lock,
    options::Options,
    plan, read,
    record::{self, FORMAT, FORMAT_KEY, Table},
};

/// A store in one directory, or in memory.
pub struct Embedded {
    shared: Arc<Shared>,
    /// `None` only while it is dropped: closing the channel ends the thread.
    requests: Option<Sender<Request>>,
    committer: Option<JoinHandle<()>>,
    _lock: Option<Lock>,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded")
    }
}

/// What readers and the committing thread share.
pub(crate) struct Shared {
    pub(crate) backing: Backing,
    pub(crate) tables: RwLock<HashMap<String, Arc<Table>>>,
    pub(crate) options: Options,
}

/// The directory was written by another version.
#[derive(Debug)]
struct UnknownFormat {
    found: u32,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the directory has format {}, and this version reads format {FORMAT}; use the version that wrote it",
            self.found
        )
    }
}

impl std::error::Error for UnknownFormat {}

impl Embedded {
    /// Opens a directory, or makes one.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let directory = directory.as_ref();
        let lock = Lock::take(directory)?;
        let backing = Backing::open(directory, options.cache_bytes)?;
        let format = backing.get(Space::Meta, FORMAT_KEY)?.map(|value| record::decode(&value)).transpose()?;
        match format {
            Some(FORMAT) => Embedded::start(backing, options, Some(lock)),
            Some(found) => Err(Error::engine(UnknownFormat { found })),
            None => Err(Error::engine("the directory does not say what format it has: it is not one of a store")),
        }
    }

    /// A store without a disk, for tests: the same behaviour, and gone when it is dropped.
    pub fn memory(options: Options) -> Result<Self, Error> {
        Embedded::start(Backing::memory(), options, None)
    }

    fn start(backing: Backing, options: Options, lock: Option<Lock>) -> Result<Self, Error> {
        let tables = read::tables(&backing.view())?;
        let shared = Arc::new(Shared { backing, tables: RwLock::new(tables), options });
        let (requests, incoming) = channel();
        let committer = Committer::new(Arc::clone(&shared))?;
        let thread = std::thread::Builder::new().name("nagaya-commit".to_owned());
        let committer = thread.spawn(move || committer.run(&incoming)).map_err(Error::engine)?;
        Ok(Embedded { shared, requests: Some(requests), committer: Some(committer), _lock: lock })
    }

    /// Sweeps expired items and changes older than the retention away, a bounded number of each; whether more are left.
    pub async fn sweep(&self) -> Result<bool, Error> {
        self.ask(Request::Sweep).await
    }

    /// Sends a request to the committing thread and waits for its answer.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request) -> Result<T, Error> {
        let stopped = || Error::engine("the committing thread has stopped");
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(stopped)?;
        requests.send(request(answer)).map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

impl Embedded {
    pub(crate) fn backing(&self) -> &Backing {
        &self.shared.backing
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
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // What has been sent is still committed; then the thread ends.
        drop(self.requests.take());
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
    }
}

impl Store for Embedded {
    fn capabilities(&self) -> Capabilities {
        Capabilities::ALL
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        Box::pin(self.ask(|answer| Request::Ensure(tables.to_vec(), answer)))
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
            let actions = plan::prepare(&self.shared, set)?;
            self.ask(|answer| Request::Write(actions, answer)).await
        })
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        Box::pin(async move { read::changes(&self.shared, table, &from, limit) })
    }
}
