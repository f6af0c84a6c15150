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
