//! The control socket: how commands talk to the process that has the directory open.
//!
//! One connection is one request: a line of JSON. The answer is lines of JSON, `progress` any number of times and then `answer`
//! or `error`; an answer that ends without either is incomplete. A backup is answered by the line `stream` and then the
//! framed stream of the store, which marks its own end. Objects and keys are files in the same directory, and the client
//! reads them itself.

use std::path::Path;

use serde_json::json;

mod ask_error;
#[cfg(unix)]
mod client;
#[cfg(unix)]
mod server;
mod server_store;
mod store_call;
#[cfg(not(unix))]
mod unsupported;

#[cfg(not(unix))]
pub(super) use self::unsupported::{Connection, listen};
#[cfg(unix)]
pub(super) use self::{client::Connection, server::listen};

pub(super) use self::{ask_error::AskError, server_store::ServerStore};

/// Which of these key files the store once had, by the process that has its directory open.
pub(super) fn remembered_files<'n>(data: &Path, names: &[&'n str]) -> anyhow::Result<Vec<&'n str>> {
    let answer = Connection::open(data)?.ask(&json!({ "do": "remembers", "files": names }), &mut |_| {})?;
    let known = answer["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(names.iter().copied().filter(|name| known.iter().any(|known| known == name)).collect())
}

/// The socket's name in the data directory.
#[cfg(unix)]
const SOCKET_FILE: &str = "control.sock";

/// The version of the protocol.
#[cfg(unix)]
const PROTOCOL_VERSION: u64 = 4;
