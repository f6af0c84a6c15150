//! The machine, and the resources that a process uses.

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
pub struct Machine {
    pub date: String,
    pub revision: String,
    pub processor: String,
    pub cores: usize,
    pub memory_mib: u64,
    pub kernel: String,
    pub filesystem: String,
    /// The result of [`sync`] before the run.
    pub sync: f64,
    /// The load average of the minute before.
    pub load: String,
    /// Versions of the other programs.
    pub versions: String,
}

impl Machine {
    /// The table rows about it, with the sync time after the run.
    pub fn rows(&self, sync_after: f64) -> String {
        format!(
            "| | |\n|---|---|\n| date | {} |\n| revision | {} |\n| processor | {}, {} cores |\n| memory | {} MiB |\n\
             | kernel, file system | Linux {}, {} |\n| sync of 80 kB before and after | {:.0} and {:.0} µs |\n\
             | load before | {} |\n| beside | {} |\n",
            self.date,
            self.revision,
            self.processor,
            self.cores,
            self.memory_mib,
            self.kernel,
            self.filesystem,
            self.sync,
            sync_after,
            self.load,
            self.versions,
        )
    }

    /// The description before a run.
    pub fn here(scratch: &Path, versions: &str) -> anyhow::Result<Self> {
        let processor = fs::read_to_string("/proc/cpuinfo")?;
        let processor = field(&processor, "model name").unwrap_or("unknown").to_owned();
        let memory = fs::read_to_string("/proc/meminfo")?;
        let changed = output("git", &["status", "--porcelain", "--", "crates", "systems", "Cargo.lock"]);
        let dirty = if changed.is_empty() { "" } else { " with changes" };
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
            versions: versions.to_owned(),
        })
    }
}

/// The output of a program; empty if it fails.
pub fn output(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// The version of a dependency of the benchmarks.
pub fn version(package: &str) -> &'static str {
    let lock = include_str!("../../Cargo.lock");
    let after = lock.split_once(&format!("name = \"{package}\"\nversion = \"")).map_or("", |(_, after)| after);
    after.split('"').next().unwrap_or_default()
}

/// Microseconds of the median sync of 80 kB, about a group of 64 writes.
pub fn sync(scratch: &Path) -> anyhow::Result<f64> {
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

/// Resident memory of this process, in MiB.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Memory {
    pub now: f64,
    pub peak: f64,
}

impl Memory {
    pub fn now() -> anyhow::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let mib = |name| anyhow::Ok(kib(&status, name)? as f64 / 1024.0);
        Ok(Memory { now: mib("VmRSS")?, peak: mib("VmHWM")? })
    }
}

/// Resident memory of a process, in MB.
pub fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    megabytes(pid, "VmRSS")
}

/// The peak resident memory of a process since the last [reset](forget_peak), in MB.
pub fn peak_mb(pid: u32) -> anyhow::Result<f64> {
    megabytes(pid, "VmHWM")
}

/// Resets the peak resident memory of this process.
pub fn forget_peak() -> anyhow::Result<()> {
    forget_peak_of(std::process::id())
}

/// Resets the peak resident memory of a process.
pub fn forget_peak_of(pid: u32) -> anyhow::Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

fn megabytes(pid: u32, name: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(kib(&status, name)? as f64 * 1024.0 / 1e6)
}

/// Processor time of a process and its children so far, in seconds.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    // Ended children are included in its own counters; running ones are read separately.
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let running = children.split_whitespace().filter_map(|child| ticks(child, 2).ok());
    Ok((ticks(&pid.to_string(), 4)? + running.sum::<f64>()) / 100.0)
}

/// The sum of the first `fields` of: user and system time, and those of ended children, in hundredths of a second.
fn ticks(pid: &str, fields: usize) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may contain spaces; the times are the 14th field and those after it.
    let (_, rest) = stat.rsplit_once(')').context("/proc/…/stat looks different")?;
    Ok(rest.split_whitespace().skip(11).take(fields).map(str::parse::<f64>).sum::<Result<f64, _>>()?)
}

fn kib(text: &str, name: &str) -> anyhow::Result<u64> {
    let value = field(text, name).with_context(|| format!("there is no {name}"))?;
    Ok(value.trim_end_matches(" kB").parse()?)
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}
