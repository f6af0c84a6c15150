//! Start time and idle memory of the release binary.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    machine::resident_mb,
    process::{Process, free_address},
};

const STARTS: usize = 7;
/// In how many of them the idle memory is measured.
const RESTS: usize = 3;
const REST: Duration = Duration::from_secs(3);

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Milliseconds from the start of the process to the first successful readiness probe.
    pub(crate) ready: Vec<f64>,
    /// Resident memory after an idle period, in MB.
    pub(crate) rest: Vec<f64>,
}

/// Starts the binary with all systems, each time on an empty directory.
pub(crate) fn measure(binary: &Path, scratch: &Path) -> anyhow::Result<Start> {
    let mut start = Start::default();
    for at in 0..STARTS {
        let folder = scratch.join(format!("start-{at}"));
        fs::create_dir_all(&folder)?;
        let address = free_address()?;
        let mut serve = Command::new(binary);
        serve.args(["serve", "--listen", &address.to_string(), "--data"]).arg(folder.join("data"));
        let began = Instant::now();
        let mut process = Process::start("nagaya", serve, &folder.join("log"))?;
        process.wait_until(Duration::from_millis(1), || is_ready(address).unwrap_or(false))?;
        start.ready.push(began.elapsed().as_secs_f64() * 1_000.0);
        if at < RESTS {
            thread::sleep(REST);
            start.rest.push(resident_mb(process.id())?);
        }
        drop(process);
        fs::remove_dir_all(&folder)?;
    }
    eprintln!("  ready after {:.0?} ms, {:.0?} MB at rest", start.ready, start.rest);
    Ok(start)
}

/// Sends one request, without the overhead of a client.
fn is_ready(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    Ok(&status == b"HTTP/1.1 200")
}
