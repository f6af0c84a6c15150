//! A child process that ends with the benchmark, however that ends.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::machine::cpu_seconds;

/// The time limit of a server's start and end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A child process. It ends when this goes out of scope.
///
/// A watchdog runs beside it and reads from a pipe whose other end this holds and never writes. When the benchmark is
/// interrupted or killed, the pipe closes, and the watchdog ends the one process whose id it was given.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    watchdog: Child,
    /// The signal that ends it.
    signal: &'static str,
    log: PathBuf,
}

impl Process {
    /// Starts a process that writes its output to a file.
    pub fn start(name: &'static str, command: Command, log: &Path) -> anyhow::Result<Self> {
        Process::start_with(name, command, log, "KILL")
    }

    /// Starts a process that ends by another signal.
    pub fn start_with(
        name: &'static str,
        mut command: Command,
        log: &Path,
        signal: &'static str,
    ) -> anyhow::Result<Self> {
        let output = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // A separate process group does not get the Ctrl-C of the terminal.
        let mut child = command.process_group(0).spawn().with_context(|| format!("{name} does not start"))?;
        let watchdog = Command::new("sh")
            .args(["-c", "cat >/dev/null; kill -s \"$1\" \"$0\"", &child.id().to_string(), signal])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn();
        match watchdog {
            Ok(watchdog) => Ok(Process { name, child, watchdog, signal, log: log.to_owned() }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error).context("sh does not start")
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Polls a check until it succeeds.
    pub fn wait_until(&mut self, every: Duration, is_there: impl Fn() -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !is_there() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || start.elapsed() > TIMEOUT {
                let why = ended.map_or("does not answer".to_owned(), |status| format!("has stopped ({status})"));
                let output = fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{} {why}. Its output:\n{output}", self.name);
            }
            thread::sleep(every);
        }
        Ok(())
    }

    /// Waits until it is idle, at most ten seconds.
    pub fn settle(&self) -> anyhow::Result<()> {
        settle(self.id(), Duration::from_secs(10))
    }
}

/// Waits until a process uses almost no processor time, at most this long: background work must not slow down the next
/// measurement.
pub fn settle(pid: u32, at_most: Duration) -> anyhow::Result<()> {
    let end = Instant::now() + at_most;
    let mut before = cpu_seconds(pid)?;
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(400));
        let now = cpu_seconds(pid)?;
        if now - before < 0.03 {
            break;
        }
        before = now;
    }
    Ok(())
}

impl Drop for Process {
    fn drop(&mut self) {
        // Stop the watchdog first: the process id may be reused soon. A process that cannot be ended is ignored, and so is one
        // that has already ended.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        if self.signal != "KILL" && matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("sh")
                .args(["-c", "kill -s \"$1\" \"$0\"", &self.child.id().to_string(), self.signal])
                .status();
            let start = Instant::now();
            while start.elapsed() < TIMEOUT && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A free address on the loopback interface.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of the loopback is free")?;
    Ok(listener.local_addr()?)
}
