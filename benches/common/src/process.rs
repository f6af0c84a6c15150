//! A server as a process that does not outlive the benchmark, however that ends.

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

/// How long a server may take to start, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of ours. It ends when this goes out of scope.
///
/// Beside it runs a watchdog that reads from a pipe, of which this holds the other end and never writes. When the benchmark
/// is interrupted or killed, the pipe closes, and the watchdog ends the one process whose id it was told.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    watchdog: Child,
    /// What ends it.
    signal: &'static str,
    log: PathBuf,
}

impl Process {
    /// Starts a process that writes its output to a file.
    pub fn start(name: &'static str, command: Command, log: &Path) -> anyhow::Result<Self> {
        Process::start_with(name, command, log, "KILL")
    }

    /// Starts a process that is ended by another signal.
    pub fn start_with(
        name: &'static str,
        mut command: Command,
        log: &Path,
        signal: &'static str,
    ) -> anyhow::Result<Self> {
        let output = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // In a group of its own, the Ctrl-C of the terminal is not for it.
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

    /// Waits until a check of the server says that it is there, and looks every so often.
    pub fn wait_until(&mut self, every: Duration, is_there: impl Fn() -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !is_there() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || start.elapsed() > PATIENCE {
                let why = ended.map_or("does not answer".to_owned(), |status| format!("has stopped ({status})"));
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{} {why}. It said:\n{said}", self.name);
            }
            thread::sleep(every);
        }
        Ok(())
    }

    /// Waits until it has used next to no processor time for a while, at most ten seconds: what is left to do in the
    /// background is not to slow the next one.
    pub fn settle(&self) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(10);
        let mut before = cpu_seconds(self.id())?;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(400));
            let now = cpu_seconds(self.id())?;
            if now - before < 0.03 {
                return Ok(());
            }
            before = now;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: it is not to know an id that may soon be somebody else's. Nothing can be done about a process
        // that cannot be ended, and one that is gone already is fine.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        if self.signal != "KILL" && matches!(self.child.try_wait(), Ok(None)) {
            let _ = Command::new("sh")
                .args(["-c", "kill -s \"$1\" \"$0\"", &self.child.id().to_string(), self.signal])
                .status();
            let start = Instant::now();
            while start.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address of the loopback that nobody listens on.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of the loopback is free")?;
    Ok(listener.local_addr()?)
}
