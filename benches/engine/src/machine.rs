//! What the machine is, and what a process takes of it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) revision: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    pub(crate) filesystem: String,
    /// As [`sync`] says, before the run.
    pub(crate) sync: f64,
    /// Processes that wanted to run in the minute before.
    pub(crate) load: String,
    /// The libraries beside the engine.
    pub(crate) versions: String,
}

impl Machine {
    pub(crate) fn here(scratch: &Path) -> anyhow::Result<Self> {
        let processor = fs::read_to_string("/proc/cpuinfo")?;
        let processor = field(&processor, "model name").unwrap_or("unknown").to_owned();
        let memory = fs::read_to_string("/proc/meminfo")?;
        let dirty =
            if output("git", &["status", "--porcelain", "--", "crates"]).is_empty() { "" } else { " with changes" };
        let versions = ["fjall", "redb", "rusqlite"].map(|name| format!("{name} {}", version(name)));
        Ok(Machine {
            date: output("date", &["-u", "+%F"]),
            revision: output("git", &["rev-parse", "--short", "HEAD"]) + dirty,
            processor,
            cores: std::thread::available_parallelism()?.get(),
            memory_mib: kib(&memory, "MemTotal")? / 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            filesystem: output("stat", &["--file-system", "--format=%T", &scratch.display().to_string()]),
            sync: sync(scratch)?,
            load: fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default().to_owned(),
            versions: format!("{}, SQLite {}", versions.join(", "), rusqlite::version()),
        })
    }
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// The version of a package that this was built with.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let after = lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map_or("", |(_, after)| after);
    after.split('"').next().unwrap_or_default()
}

/// Microseconds of the median sync of 80 kB, about a group of 64 writes.
pub(crate) fn sync(scratch: &Path) -> anyhow::Result<f64> {
    let mut file = File::create(scratch.join("sync"))?;
    let mut times = Vec::new();
    for _ in 0..200 {
        file.write_all(&[7; 80_000])?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Resident memory of a process, in MiB.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) now: f64,
    pub(crate) peak: f64,
}

impl Memory {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let mib = |name| anyhow::Ok(kib(&status, name)? as f64 / 1024.0);
        Ok(Memory { now: mib("VmRSS")?, peak: mib("VmHWM")? })
    }
}

/// Processor time of this process so far.
pub(crate) fn cpu_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name in brackets may have spaces; user and system time are the 14th and 15th field, in hundredths.
    let (_, rest) = stat.rsplit_once(')').context("/proc/self/stat looks different")?;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / 100.0)
}

fn kib(text: &str, name: &str) -> anyhow::Result<u64> {
    let value = field(text, name).with_context(|| format!("there is no {name}"))?;
    Ok(value.trim_end_matches(" kB").parse()?)
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}
