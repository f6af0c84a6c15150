//! The load generator for every HTTP server: `wrk`, with prepared requests.

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::servers::{Call, Counted};

/// Threads that send requests, also of `pgbench`.
pub(crate) const THREADS: u64 = 2;

/// `wrk` against one server.
#[derive(Debug)]
pub(crate) struct Wrk {
    address: SocketAddr,
    token: String,
    connections: u64,
    /// The folder with the script and the requests.
    folder: PathBuf,
}

/// The summary that the script prints at the end.
#[derive(Debug, Deserialize)]
struct WrkSummary {
    requests: u64,
    micros: u64,
    bytes: u64,
    p50: f64,
    p99: f64,
    statuses: u64,
    broken: u64,
}

impl Wrk {
    /// A load generator without prepared requests.
    pub(crate) fn new(folder: &Path, address: SocketAddr, token: &str, connections: u64) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("load.lua"), include_str!("../load.lua"))?;
        Ok(Wrk { address, token: token.to_owned(), connections, folder: folder.to_owned() })
    }

    /// Prepares `GET`s of these paths.
    pub(crate) fn gets(&self, call: Call, paths: impl Iterator<Item = String>) -> anyhow::Result<()> {
        self.prepare(call, paths.map(|path| self.head("GET", &path, "")))
    }

    /// Prepares `POST`s of these bodies.
    pub(crate) fn posts(&self, call: Call, path: &str, bodies: impl Iterator<Item = Json>) -> anyhow::Result<()> {
        let post = |body: String| {
            let content = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
            self.head("POST", path, &content) + &body
        };
        self.prepare(call, bodies.map(|body| post(body.to_string())))
    }

    fn head(&self, method: &str, path: &str, content: &str) -> String {
        let Wrk { address, token, .. } = self;
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{content}\r\n")
    }

    /// Writes requests in the format of the script: the number of bytes, then the bytes.
    fn prepare(&self, call: Call, requests: impl Iterator<Item = String>) -> anyhow::Result<()> {
        let mut file = std::io::BufWriter::new(fs::File::create(self.requests(call))?);
        for request in requests {
            write!(file, "{}\n{request}", request.len())?;
        }
        Ok(file.flush()?)
    }

    fn requests(&self, call: Call) -> PathBuf {
        self.folder.join(format!("{call:?}"))
    }

    /// Sends the prepared requests of a call repeatedly.
    pub(crate) fn run(&self, call: Call, seconds: u64) -> anyhow::Result<Counted> {
        let mut command = Command::new("wrk");
        command.args(["--threads", &THREADS.to_string(), "--connections", &self.connections.to_string()]);
        // Slower responses count as errors.
        command.args(["--duration", &format!("{seconds}s"), "--timeout", "10s", "--latency"]);
        command.arg("--script").arg(self.folder.join("load.lua"));
        command.arg(format!("http://{}/", self.address)).arg("--").arg(self.requests(call));
        let output = command.output().context("wrk does not start")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = || format!("wrk failed: {text}{}", String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), failed());
        let summary: WrkSummary =
            text.lines().last().and_then(|line| serde_json::from_str(line).ok()).with_context(failed)?;
        ensure!(summary.requests > 0, "{call:?}: nothing was answered");
        ensure!(summary.statuses == 0, "{call:?}: {} of {} answers were refusals", summary.statuses, summary.requests);
        ensure!(summary.broken == 0, "{call:?}: {} requests came to nothing", summary.broken);
        Ok(Counted {
            requests: summary.requests,
            seconds: summary.micros as f64 / 1e6,
            p50: summary.p50,
            p99: summary.p99,
            bytes: Some(summary.bytes as f64 / summary.requests as f64),
        })
    }
}
