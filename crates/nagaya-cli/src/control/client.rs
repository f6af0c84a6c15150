//! The client of the control socket.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read, Write as _},
    os::unix::net::UnixStream,
    path::Path,
};

use anyhow::{Context as _, bail};
use nagaya_embedded::BackupPosition;
use serde_json::{Value as Json, json};

use super::{AskError, PROTOCOL_VERSION, SOCKET_FILE};
use crate::hex::hex;

/// A connection to the process that has a directory open.
pub(crate) struct Connection {
    stream: BufReader<UnixStream>,
}

impl Connection {
    pub(crate) fn open(data: &Path) -> anyhow::Result<Self> {
        let path = data.join(SOCKET_FILE);
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Connection { stream: BufReader::with_capacity(256 * 1024, stream) }),
            Err(error) => {
                let why = match error.kind() {
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused => "nobody answers at",
                    ErrorKind::PermissionDenied => "this user may not use",
                    ErrorKind::InvalidInput => "this path is too long for a socket; use a shorter or relative one:",
                    _ => "the process cannot be asked at",
                };
                bail!("{why} {} ({error})", path.display())
            }
        }
    }

    /// Sends a request, and gives its answer.
    pub(crate) fn ask(mut self, request: &Json, progress: &mut dyn FnMut(u64)) -> Result<Json, AskError> {
        let mut request = request.clone();
        request["version"] = PROTOCOL_VERSION.into();
        if let Err(error) = self.send(&request) {
            // The server may have said why before it closed the connection.
            return Err(match self.read_line() {
                Err(refused) if !refused.may_be_done => refused,
                _ => AskError::not_done(error),
            });
        }
        loop {
            let line = self.read_line()?;
            if let Some(count) = line["progress"].as_u64() {
                progress(count);
            } else if let Some(answer) = line.get("answer") {
                return Ok(answer.clone());
            }
        }
    }

    /// Requests the store's part of a backup.
    pub(crate) fn stream(mut self, since: Option<&BackupPosition>) -> anyhow::Result<Box<dyn Read>> {
        let since = since.map(|since| {
            json!({
                "incarnation": since.incarnation.as_deref().map(hex),
                "sequence": since.sequence,
                "lastChange": since.last_change.map(|hash| hex(&hash)),
            })
        });
        self.send(&json!({ "version": PROTOCOL_VERSION, "do": "backup", "since": since }))?;
        match self.read_line()?.get("stream") {
            Some(_) => Ok(Box::new(self.stream)),
            None => bail!("the server does not send a backup"),
        }
    }

    fn send(&mut self, request: &Json) -> anyhow::Result<()> {
        self.stream
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())
            .context("no server is listening on the control socket")
    }

    fn read_line(&mut self) -> Result<Json, AskError> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        read.map_err(|error| AskError::unknown(format!("the server does not answer: {error}")))?;
        if !line.ends_with('\n') {
            return Err(AskError::unknown("the server ended before it had answered"));
        }
        let line: Json = serde_json::from_str(&line).map_err(|error| {
            AskError::unknown(format!(
                "the server has another version of the control protocol; use the same version of nagaya ({error})"
            ))
        })?;
        match line.get("error") {
            Some(error) => {
                Err(AskError::not_done(format!("the server refuses: {}", error.as_str().unwrap_or_default())))
            }
            None => Ok(line),
        }
    }
}
