//! The store of a directory that another process has open, asked over the control socket.

use std::path::{Path, PathBuf};

use nagaya_store::{
    Capabilities, ChangePage, Error, Item, Key, Page, Query, Scan, StartPosition, Store, StoreFuture, TableSpec,
    WriteOutcome, WriteSet,
};
use serde_json::json;

use super::{
    AskError, Connection,
    store_call::{StoreAnswer, StoreCall},
};

/// The store of a running server. Each call is a connection of its own, so that a command may wait for its user.
#[derive(Debug)]
pub(crate) struct ServerStore {
    data: PathBuf,
    capabilities: Capabilities,
}

impl ServerStore {
    /// Connects to the process that has a directory open.
    pub(crate) fn connect(data: &Path) -> anyhow::Result<Self> {
        let answer = ask(data, &StoreCall::Capabilities)?;
        let StoreAnswer::Capabilities(capabilities) = answer else { anyhow::bail!(UNEXPECTED) };
        Ok(ServerStore { data: data.to_owned(), capabilities })
    }

    async fn call(&self, call: StoreCall) -> Result<StoreAnswer, Error> {
        let is_write = matches!(call, StoreCall::Write(_));
        let data = self.data.clone();
        let answered = match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(move || ask(&data, &call)).await.map_err(Error::engine)?,
            // A thread of its own may block.
            Err(_) => ask(&data, &call),
        };
        match answered {
            Ok(StoreAnswer::Failed(failure)) => Err(failure.into()),
            Ok(answer) => Ok(answer),
            // The server may have ended after it had written.
            Err(error) if is_write && error.may_be_done => Err(Error::outcome_unknown(error)),
            Err(error) => Err(Error::unavailable(error)),
        }
    }
}

const UNEXPECTED: &str = "the server answers something else; use the same version of nagaya";

fn ask(data: &Path, call: &StoreCall) -> Result<StoreAnswer, AskError> {
    // As text: the numbers of a store have more digits than those of a JSON value.
    let call = serde_json::to_string(call).map_err(AskError::not_done)?;
    let connection = Connection::open(data).map_err(AskError::not_done)?;
    let answer = connection.ask(&json!({ "do": "store", "call": call }), &mut |_| {})?;
    serde_json::from_str(answer.as_str().unwrap_or_default()).map_err(|_| AskError::unknown(UNEXPECTED))
}

/// The content of an answer of the expected kind.
macro_rules! expect {
    ($answer:expr, $kind:ident) => {
        match $answer {
            StoreAnswer::$kind(content) => Ok(content),
            _ => Err(Error::engine(UNEXPECTED)),
        }
    };
}

impl Store for ServerStore {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn ensure_tables<'a>(&'a self, tables: &'a [TableSpec]) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.call(StoreCall::EnsureTables(tables.to_vec())).await.map(drop) })
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move { expect!(self.call(StoreCall::Get(table.to_owned(), key.clone())).await?, Item) })
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> StoreFuture<'a, Vec<Option<Item>>> {
        Box::pin(async move { expect!(self.call(StoreCall::BatchGet(keys.to_vec())).await?, Items) })
    }

    fn query(&self, query: Query) -> StoreFuture<'_, Page> {
        Box::pin(async move { expect!(self.call(StoreCall::Query(Box::new(query))).await?, Page) })
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(async move { expect!(self.call(StoreCall::Scan(scan)).await?, Page) })
    }

    fn write(&self, set: WriteSet) -> StoreFuture<'_, WriteOutcome> {
        Box::pin(async move { expect!(self.call(StoreCall::Write(set)).await?, Written) })
    }

    fn changes<'a>(&'a self, table: &'a str, from: StartPosition, limit: usize) -> StoreFuture<'a, ChangePage> {
        Box::pin(async move { expect!(self.call(StoreCall::Changes(table.to_owned(), from, limit)).await?, Changes) })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::{Arc, Mutex};

    use nagaya_contract::{Engine, RETENTION};
    use nagaya_embedded::{EmbeddedStore, Options};
    use nagaya_store::{Clock, ErrorKind};
    use tempfile::TempDir;

    use super::*;

    /// Stores in directories, each behind the control socket of the process that has it open.
    #[derive(Default)]
    struct BehindSocket(Mutex<Vec<(TempDir, Arc<EmbeddedStore>)>>);

    impl Engine for BehindSocket {
        type Store = ServerStore;

        fn open(&self, clock: Clock) -> StoreFuture<'_, ServerStore> {
            Box::pin(async {
                let directory = TempDir::new().map_err(Error::engine)?;
                let options = Options { clock, sweep_interval: None, retention: RETENTION, ..Options::default() };
                let store = Arc::new(EmbeddedStore::open(directory.path(), options)?);
                crate::control::listen(directory.path(), &store);
                let path = directory.path().to_owned();
                self.0.lock().expect("no panic").push((directory, store));
                let connected = tokio::task::spawn_blocking(move || ServerStore::connect(&path)).await;
                connected.map_err(Error::engine)?.map_err(|error| Error::engine(format!("{error:#}")))
            })
        }
    }

    fn key_and_write() -> (Key, WriteSet) {
        let (key, item) = (Key::new("a", "b"), Item::new().with("PK", "a").with("SK", "b"));
        (key, nagaya_store::Write::put("notes", item).into())
    }

    /// A store behind the socket of a process that reads this much of a request, and ends.
    fn behind(reads_request: bool) -> (TempDir, ServerStore) {
        use std::io::{BufRead as _, BufReader};
        let directory = TempDir::new().expect("a directory");
        let listener = std::os::unix::net::UnixListener::bind(directory.path().join("control.sock")).expect("a socket");
        if reads_request {
            std::thread::spawn(move || {
                let (stream, _) = listener.accept().expect("a connection");
                BufReader::new(stream).read_line(&mut String::new()).expect("a request");
            });
        }
        let capabilities = EmbeddedStore::in_memory(Options::default()).expect("a store").capabilities();
        let store = ServerStore { data: directory.path().to_owned(), capabilities };
        (directory, store)
    }

    /// Who repeats a write that was never sent does it once; only an answer that is missing leaves the outcome open.
    #[tokio::test]
    async fn a_write_that_was_not_sent_has_a_known_outcome() {
        let (_directory, store) = behind(false);
        let (_, write) = key_and_write();
        let error = store.write(write).await.expect_err("nobody answers");
        assert!(matches!(error.kind(), ErrorKind::Unavailable(_)), "{error}");

        let (_directory, store) = behind(true);
        let (_, write) = key_and_write();
        let error = store.write(write).await.expect_err("the process ends");
        assert!(matches!(error.kind(), ErrorKind::OutcomeUnknown(_)), "{error}");
        let (_directory, store) = behind(true);
        let error = store.get("notes", &key_and_write().0).await.expect_err("the process ends");
        assert!(matches!(error.kind(), ErrorKind::Unavailable(_)), "{error}");
    }

    /// Proves the part of N2 that a store behind a server is one.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_store_of_a_running_server_keeps_the_contract() {
        nagaya_contract::run(&BehindSocket::default()).await.assert();
    }
}
