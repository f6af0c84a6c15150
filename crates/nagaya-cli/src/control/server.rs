//! The server of the control socket, on threads of its own.

use std::{
    fs::{self, Permissions},
    io::{BufRead as _, BufReader, BufWriter, ErrorKind, Read as _, Write},
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use anyhow::{Context as _, bail};
use nagaya_embedded::{BackupPosition, EmbeddedStore, EncryptionKey};
use nagaya_store::{
    Error, Store as _,
    files::{private_folder, unpredictable_number},
};
use serde_json::{Value as Json, json};
use tokio::{runtime::Handle, sync::Semaphore, time::timeout};

use super::{
    PROTOCOL_VERSION, SOCKET_FILE,
    store_call::{StoreAnswer, StoreCall},
};
use crate::{
    hex::{hex, unhex},
    store::{encrypt, repair, show},
};

/// What clients may take.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Bytes of the longest request.
    request_bytes: u64,
    /// How long a client may take to send its request or to read some of the answer. A snapshot is held meanwhile.
    client_time: Duration,
    /// Connections that are answered at the same time.
    connections: usize,
    /// How long a further one waits.
    wait: Duration,
}

const LIMITS: Limits = Limits {
    // A write set of 4 MiB as JSON. Only the owner of the directory can connect.
    request_bytes: 64 * 1024 * 1024,
    client_time: Duration::from_secs(60),
    connections: 32,
    wait: Duration::from_secs(5),
};

/// Bytes of an answer that are sent together.
const BUFFER_BYTES: usize = 256 * 1024;

/// Answers commands until the store is closed. Calls of the store run on the runtime of the caller. The directory's lock
/// is held, so an existing socket is a leftover of a process that has ended.
///
/// A failure is logged, and the process serves without the socket.
pub(crate) fn listen(data: &Path, store: &Arc<EmbeddedStore>) {
    if let Err(error) = listen_within(LIMITS, data, store) {
        let data = data.display();
        tracing::warn!(
            %error,
            %data,
            "no control socket: commands cannot use the directory while this process runs"
        );
    }
}

fn listen_within(limits: Limits, data: &Path, store: &Arc<EmbeddedStore>) -> std::io::Result<()> {
    let (listener, store, runtime) = (bind(data)?, Arc::downgrade(store), Handle::current());
    let thread = std::thread::Builder::new().name("nagaya-control".to_owned());
    thread.spawn(move || accept(limits, &listener, &store, &runtime)).map(drop)
}

/// Creates the socket in a private folder, restricts its permissions, and then moves it to its name: other users can
/// never connect.
fn bind(data: &Path) -> std::io::Result<UnixListener> {
    let socket = data.join(SOCKET_FILE);
    match socket.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(std::io::Error::new(ErrorKind::AlreadyExists, format!("{SOCKET_FILE} is not a socket")));
        }
        _ => {}
    }
    let folder = data.join(format!(".control-{:08x}", unpredictable_number() >> 32));
    private_folder().create(&folder)?;
    let beside = folder.join("s");
    let made = UnixListener::bind(&beside).and_then(|listener| {
        fs::set_permissions(&beside, Permissions::from_mode(0o600))?;
        fs::rename(&beside, &socket)?;
        Ok(listener)
    });
    let _ = fs::remove_dir_all(&folder);
    made
}

fn accept(limits: Limits, listener: &UnixListener, store: &Weak<EmbeddedStore>, runtime: &Handle) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Most likely too many open files: some will be closed.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let (store, slots, answering) = (store.clone(), Arc::clone(&slots), runtime.clone());
        runtime.spawn(async move {
            let Ok(Ok(slot)) = timeout(limits.wait, slots.acquire_owned()).await else {
                return refuse(limits, &stream);
            };
            let thread = std::thread::Builder::new().name("nagaya-control".to_owned());
            // Without a thread the client gets no answer, and tries again.
            let _ = thread.spawn(move || {
                let _slot = slot;
                answer(limits, &stream, &store, &answering);
            });
        });
    }
}

/// Says that too many others are being answered. Nothing of the request has been read.
fn refuse(limits: Limits, mut stream: &UnixStream) {
    let count = limits.connections;
    let error = format!("{count} commands use this directory at the same time; try again when one has ended");
    // A client that has gone needs no answer.
    let _ = send_line(&mut stream, &json!({ "error": error }));
}

async fn call_store(store: &EmbeddedStore, call: StoreCall) -> Result<StoreAnswer, Error> {
    Ok(match call {
        StoreCall::Capabilities => StoreAnswer::Capabilities(store.capabilities()),
        StoreCall::EnsureTables(tables) => {
            store.ensure_tables(&tables).await?;
            StoreAnswer::Done
        }
        StoreCall::Get(table, key) => StoreAnswer::Item(store.get(&table, &key).await?),
        StoreCall::BatchGet(keys) => StoreAnswer::Items(store.batch_get(&keys).await?),
        StoreCall::Query(query) => StoreAnswer::Page(store.query(*query).await?),
        StoreCall::Scan(scan) => StoreAnswer::Page(store.scan(scan).await?),
        StoreCall::Write(set) => StoreAnswer::Written(store.write(set).await?),
        StoreCall::Changes(table, from, limit) => StoreAnswer::Changes(store.changes(&table, from, limit).await?),
    })
}

/// Answers one request. A client that does not read loses the answer.
fn answer(limits: Limits, stream: &UnixStream, store: &Weak<EmbeddedStore>, runtime: &Handle) {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, stream);
    if let Err(error) = serve(limits, stream, &mut out, store, runtime) {
        let _ = send_line(&mut out, &json!({ "error": format!("{error:#}") }));
    }
    let _ = out.flush();
}

fn serve(
    limits: Limits,
    stream: &UnixStream,
    out: &mut impl Write,
    store: &Weak<EmbeddedStore>,
    runtime: &Handle,
) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(limits.client_time))?;
    stream.set_write_timeout(Some(limits.client_time))?;
    let mut line = String::new();
    BufReader::new(stream.take(limits.request_bytes)).read_line(&mut line)?;
    // A client whose request did not go out as a whole must be able to rely on it that nothing was done.
    if !line.ends_with('\n') {
        bail!("the request ended early");
    }
    let request: Json = serde_json::from_str(&line).context("the request is not JSON")?;
    if request["version"] != PROTOCOL_VERSION {
        bail!("this server has version {PROTOCOL_VERSION} of the control socket; use the same version of `nagaya`");
    }
    let store = store.upgrade().context("the store is being closed")?;
    match request["do"].as_str() {
        Some("stat") => send_line(out, &json!({ "answer": show::stats_json(&store.stats()?) })),
        Some("verify") => with_progress(out, |tell| Ok(show::findings_json(&store.verify(tell)?))),
        Some("reindex") => {
            let (table, index) = (request["table"].as_str(), request["index"].as_str());
            with_progress(out, |tell| repair::reindex_all(&store, table, index, tell))
        }
        Some("repair") => with_progress(out, |tell| repair::repair_all(&store, tell)),
        Some("store") => send_store_answer(out, &store, runtime, &request["call"]),
        Some("encryption") => {
            let record = store.encryption_record()?.map(|record| hex(&record));
            let state = store.encryption()?.as_ref().map(show::encryption_json);
            send_line(out, &json!({ "answer": { "record": record, "state": state } }))
        }
        Some("remembers") => {
            let mut files = Vec::new();
            for name in request["files"].as_array().into_iter().flatten().filter_map(Json::as_str) {
                if store.remembers_file(name)? {
                    files.push(name);
                }
            }
            send_line(out, &json!({ "answer": { "files": files } }))
        }
        Some("change-key") => {
            let key = request["key"].as_str().and_then(unhex).and_then(|key| EncryptionKey::parse(&key));
            let key = key.context("`key` is no key")?;
            with_progress(out, |tell| encrypt::change_key(&store, key, request["expected"].as_str(), tell))
        }
        Some("backup") => {
            let since = parse_since(&request["since"])?;
            send_line(out, &json!({ "stream": true }))?;
            // A failure is reported in the stream.
            let _ = store.export(since.as_ref(), out, &mut |_| {});
            Ok(())
        }
        _ => bail!("unknown request; use the same version of `nagaya` as the server"),
    }
}

/// Carries out a call of the store.
fn send_store_answer(out: &mut impl Write, store: &EmbeddedStore, runtime: &Handle, call: &Json) -> anyhow::Result<()> {
    let call = call.as_str().context("the call of the store is missing")?;
    let call = serde_json::from_str(call).context("the call of the store cannot be read")?;
    let answer = runtime.block_on(call_store(store, call));
    let answer = answer.unwrap_or_else(|error| StoreAnswer::Failed(error.into()));
    // An `error` would say that nothing was done.
    let unknown = |error: serde_json::Error| StoreAnswer::Failed(Error::outcome_unknown(error).into());
    let text = serde_json::to_string(&answer).or_else(|error| serde_json::to_string(&unknown(error)))?;
    send_line(out, &json!({ "answer": text }))
}

/// Runs something long, and sends its progress.
fn with_progress(
    out: &mut impl Write,
    work: impl FnOnce(&mut dyn FnMut(u64)) -> anyhow::Result<Json>,
) -> anyhow::Result<()> {
    let mut telling = Ok(());
    let mut tell = |count| {
        if telling.is_ok() {
            telling = send_line(out, &json!({ "progress": count }));
        }
    };
    let answer = work(&mut tell)?;
    telling?;
    send_line(out, &json!({ "answer": answer }))
}

fn parse_since(asked: &Json) -> anyhow::Result<Option<BackupPosition>> {
    if asked.is_null() {
        return Ok(None);
    }
    let incarnation = match &asked["incarnation"] {
        Json::Null => None,
        text => Some(text.as_str().and_then(unhex).context("`incarnation` is not hexadecimal")?),
    };
    let sequence = asked["sequence"].as_u64().context("`sequence` is not a number")?;
    let last_change = match &asked["lastChange"] {
        Json::Null => None,
        text => {
            let hash = text.as_str().and_then(unhex).and_then(|bytes| bytes.try_into().ok());
            Some(hash.context("`lastChange` is not a hash")?)
        }
    };
    Ok(Some(BackupPosition { incarnation, sequence, last_change }))
}

fn send_line(out: &mut impl Write, line: &Json) -> anyhow::Result<()> {
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use nagaya_embedded::{Keyring, Options};
    use nagaya_store::{
        Clock, ErrorKind as StoreError, Item, Key, KeySchema, TableSpec, Write as StoreWrite, WriteSet,
    };
    use nagaya_testing::eventually;
    use tempfile::TempDir;

    use super::*;
    use crate::control::{AskError, Connection, ServerStore, remembered_files};

    /// A store in a directory, which this process has open.
    fn opened() -> (TempDir, Arc<EmbeddedStore>) {
        let directory = TempDir::new().expect("a directory");
        let options = Options { clock: Clock::new(|| 1_700_000_000_000), ..Options::default() };
        let store = EmbeddedStore::open(directory.path(), options).expect("a store");
        (directory, Arc::new(store))
    }

    fn table() -> TableSpec {
        TableSpec::new("notes", KeySchema::strings("PK", "SK"))
            .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
    }

    fn note(id: &str, text: &str) -> WriteSet {
        let item = Item::new().with("PK", "a").with("SK", id).with("GSI1PK", text.len().to_string()).with("GSI1SK", id);
        StoreWrite::put("notes", item.with("text", text)).into()
    }

    fn ask(directory: &TempDir, request: Json) -> Result<Json, String> {
        let connection = Connection::open(directory.path()).expect("it listens");
        connection.ask(&request, &mut |_| {}).map_err(|error: AskError| error.to_string())
    }

    #[test]
    fn the_socket_is_private_and_replaces_only_the_one_of_an_ended_process() {
        let directory = TempDir::new().expect("a directory");
        let socket = directory.path().join(SOCKET_FILE);
        drop(bind(directory.path()).expect("a socket"));
        UnixStream::connect(&socket).expect_err("nobody listens");
        let listener = bind(directory.path()).expect("the one of before is replaced");
        UnixStream::connect(&socket).expect("somebody listens");
        drop(listener);
        assert_eq!(fs::metadata(&socket).expect("a socket").permissions().mode() & 0o777, 0o600);
        let names = fs::read_dir(directory.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        assert_eq!(names.collect::<Vec<_>>(), [SOCKET_FILE]);

        fs::remove_file(&socket).expect("it is there");
        fs::write(&socket, "a note of the operator").expect("a file");
        let refused = bind(directory.path()).expect_err("another file has the name");
        assert_eq!(refused.to_string(), "control.sock is not a socket");
        assert_eq!(fs::read_to_string(&socket).expect("it is there"), "a note of the operator");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn commands_use_the_store_of_a_running_server() {
        let (directory, store) = opened();
        listen(directory.path(), &store);
        let beside = ServerStore::connect(directory.path()).expect("it answers");
        beside.ensure_tables(&[table()]).await.expect("a table");
        beside.write(note("1", "milk")).await.expect("a put");
        let found = store.get("notes", &Key::new("a", "1")).await.expect("it answers").expect("a note");
        assert_eq!(found.get("text").and_then(|text| text.as_str()), Some("milk"));

        let ask = |request| ask(&directory, request);
        let stat = ask(json!({ "do": "stat" })).expect("an answer");
        assert_eq!((&stat["tables"][0]["name"], &stat["tables"][0]["items"]), (&json!("notes"), &json!(1)), "{stat}");
        let none = json!({ "ok": true, "findings": [] });
        assert_eq!(ask(json!({ "do": "verify" })), Ok(none.clone()));
        assert_eq!(ask(json!({ "do": "repair" })), Ok(json!({ "found": none, "remaining": none })));
        let mut counts = Vec::new();
        let rebuilt = Connection::open(directory.path())
            .expect("it listens")
            .ask(&json!({ "do": "reindex" }), &mut |count| counts.push(count));
        assert_eq!(rebuilt.expect("an answer"), json!({ "tables": ["notes"] }));
        assert_eq!(counts, [0], "none was done when the first one began");
        assert_eq!(
            ask(json!({ "do": "reindex", "table": "notes", "index": "GSI1" })),
            Ok(json!({ "tables": ["notes"] }))
        );
        store.remember_file("cursor.key").await.expect("it is noted");
        let remembered = remembered_files(directory.path(), &["audit.key", "cursor.key"]);
        assert_eq!(remembered.expect("an answer"), ["cursor.key"]);
        let refused = ask(json!({ "do": "reindex", "table": "notes", "index": "GSI7" })).expect_err("no such index");
        assert!(refused.contains("GSI7"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_key_of_a_running_server_is_changed() {
        let (directory, store) = opened();
        listen(directory.path(), &store);
        let change = |key: &str, expected: Option<&str>| {
            ask(&directory, json!({ "do": "change-key", "key": key, "expected": expected }))
        };
        let key = EncryptionKey::parse(&[7; 32]).expect("a key");
        for unknown in ["", "07", "a key"] {
            let refused = change(unknown, None).expect_err("that is no key");
            assert!(refused.contains("`key` is no key"), "{refused}");
        }
        let refused = change(&hex(key.bytes()), Some("k-1")).expect_err("there is no former key");
        assert!(refused.contains("is not encrypted"), "{refused}");
        let encryption = || ask(&directory, json!({ "do": "encryption" })).expect("an answer");
        assert_eq!(encryption(), json!({ "record": null, "state": null }));
        let state = json!({ "keyId": key.id(), "progress": null });
        assert_eq!(change(&hex(key.bytes()), None), Ok(state.clone()));
        assert_eq!(encryption()["state"], state);
        let record = encryption()["record"].as_str().and_then(unhex).expect("a record");
        Keyring::from_record(&record, &key).expect("the key is the one of the record");
        assert_eq!(store.encryption().expect("it answers").map(|state| state.key_id), Some(key.id()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_backup_of_a_running_server_is_what_the_store_exports() {
        let (directory, store) = opened();
        listen(directory.path(), &store);
        store.ensure_tables(&[table()]).await.expect("a table");
        store.write(note("1", "milk")).await.expect("a put");
        let stream = |since: Option<&BackupPosition>| {
            let mut sent = Vec::new();
            let connection = Connection::open(directory.path()).expect("it listens");
            connection.stream(since).expect("a stream").read_to_end(&mut sent).expect("it ends");
            sent
        };
        let mut exported = Vec::new();
        store.export(None, &mut exported, &mut |_| {}).expect("a memory takes all");
        assert!(stream(None) == exported && !exported.is_empty(), "{} bytes were exported", exported.len());
        let elsewhere = BackupPosition { incarnation: Some(vec![0]), sequence: 1, last_change: None };
        let refused = stream(Some(&elsewhere));
        assert!(String::from_utf8_lossy(&refused).contains("of another directory"));
    }

    #[test]
    fn the_position_of_a_backup_is_read_or_refused() {
        let position = |asked| parse_since(&asked).map_err(|error| error.to_string());
        assert_eq!(position(json!(null)), Ok(None));
        let since = json!({ "incarnation": "0a0b", "sequence": 7, "lastChange": "0c".repeat(32) });
        let expected = BackupPosition { incarnation: Some(vec![10, 11]), sequence: 7, last_change: Some([12; 32]) };
        assert_eq!(position(since), Ok(Some(expected)));
        let expected = BackupPosition { incarnation: None, sequence: 7, last_change: None };
        assert_eq!(position(json!({ "sequence": 7 })), Ok(Some(expected)));
        for (since, why) in [
            (json!({}), "`sequence` is not a number"),
            (json!({ "sequence": 7, "incarnation": "x" }), "`incarnation` is not hexadecimal"),
            (json!({ "sequence": 7, "lastChange": "0c" }), "`lastChange` is not a hash"),
        ] {
            assert_eq!(position(since), Err(why.to_owned()));
        }
    }

    /// Whoever gets no request through as a whole can rely on it that nothing was done.
    #[tokio::test]
    async fn a_request_that_is_cut_off_or_of_another_version_is_refused() {
        let (_directory, store) = opened();
        let ask = |store: &Weak<EmbeddedStore>, request: &str| {
            let (mut client, server) = UnixStream::pair().expect("two ends");
            client.write_all(request.as_bytes()).expect("it is short");
            client.shutdown(std::net::Shutdown::Write).expect("it is open");
            answer(Limits { request_bytes: 50, ..LIMITS }, &server, store, &Handle::current());
            drop(server);
            let mut answer = String::new();
            BufReader::new(client).read_line(&mut answer).expect("an answer");
            let answer: Json = serde_json::from_str(&answer).expect("one line of JSON");
            answer["error"].as_str().unwrap_or_default().to_owned()
        };
        let open = Arc::downgrade(&store);
        let request = json!({ "version": PROTOCOL_VERSION, "do": "stat" }).to_string();
        assert_eq!(ask(&open, &format!("{request}\n")), "");
        assert_eq!(ask(&open, &request), "the request ended early");
        assert_eq!(ask(&open, &format!("{request}{}\n", " ".repeat(50))), "the request ended early", "it is too long");
        let other = request.replace(&PROTOCOL_VERSION.to_string(), "3");
        let refused = ask(&open, &format!("{other}\n"));
        assert!(refused.contains("has version 4"), "{refused}");
        let refused = ask(&open, &format!("{}\n", request.replace("stat", "dance")));
        assert!(refused.contains("unknown request"), "{refused}");
        assert!(ask(&open, "stat\n").contains("is not JSON"));
        drop(store);
        assert_eq!(ask(&open, &format!("{request}\n")), "the store is being closed");
    }

    /// A refusal says that nothing was done.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_server_that_answers_too_many_refuses_with_the_reason() {
        let (directory, store) = opened();
        let limits = Limits { connections: 1, wait: Duration::from_millis(1), ..LIMITS };
        listen_within(limits, directory.path(), &store).expect("it listens");
        let beside = ServerStore::connect(directory.path()).expect("it answers");
        // The connection of before may not have ended yet.
        let (mut other, mut refused) = (None, None);
        while refused.is_none() {
            other = Some(UnixStream::connect(directory.path().join(SOCKET_FILE)).expect("it listens"));
            let error = beside.write(note("1", "milk")).await.expect_err("there is no table");
            refused = Some(error).filter(|error| !matches!(error.kind(), StoreError::NoTable(_)));
        }
        let refused = refused.expect("it was refused");
        let is_refused = matches!(refused.kind(), StoreError::Unavailable(_));
        assert!(is_refused && refused.to_string().contains("1 commands use this directory"), "{refused}");
        drop(other);
        eventually(|| ask(&directory, json!({ "do": "stat" })).map(drop));
    }

    /// With one connection at a time, the next one is answered when the one before has ended.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_client_that_neither_sends_nor_reads_is_not_waited_for() {
        let (directory, store) = opened();
        store.ensure_tables(&[table()]).await.expect("a table");
        let ids = ["1", "2", "3"];
        for id in ids {
            // More than the system keeps for a client that does not read.
            store.write(note(id, &"milk ".repeat(70_000))).await.expect("a put");
        }
        let limits = Limits { connections: 1, client_time: Duration::from_millis(100), ..LIMITS };
        listen_within(limits, directory.path(), &store).expect("it listens");
        let connect = || UnixStream::connect(directory.path().join(SOCKET_FILE)).expect("it listens");
        let sends_nothing = connect();
        eventually(|| ask(&directory, json!({ "do": "stat" })).map(drop));
        drop(sends_nothing);

        let keys = ids.map(|id| ("notes".to_owned(), Key::new("a", id)));
        let call = serde_json::to_string(&StoreCall::BatchGet(keys.to_vec())).expect("it can be sent");
        let mut reads_nothing = connect();
        let request = json!({ "version": PROTOCOL_VERSION, "do": "store", "call": call });
        // On a busy machine its time may be over already.
        let _ = send_line(&mut reads_nothing, &request);
        eventually(|| ask(&directory, json!({ "do": "stat" })).map(drop));
    }

    /// A client whose first line is lost, and that reads again afterwards.
    #[derive(Default)]
    struct LosesFirst {
        calls: usize,
        read: Vec<u8>,
    }

    impl Write for LosesFirst {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.calls += 1;
            if self.calls == 1 {
                return Err(ErrorKind::TimedOut.into());
            }
            self.read.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Each line would take the client's time again.
    #[test]
    fn the_work_goes_on_for_a_client_that_does_not_read_and_sends_it_nothing_more() {
        let work = |tell: &mut dyn FnMut(u64)| {
            (1..=3).for_each(tell);
            Ok(json!("done"))
        };
        let mut reads = Vec::new();
        with_progress(&mut reads, work).expect("it reads");
        let lines = "{\"progress\":1}\n{\"progress\":2}\n{\"progress\":3}\n{\"answer\":\"done\"}\n";
        assert_eq!(String::from_utf8(reads).expect("text"), lines);

        let mut client = LosesFirst::default();
        with_progress(&mut client, work).expect_err("a line was lost");
        assert_eq!((client.calls, client.read), (1, Vec::new()));
    }
}
