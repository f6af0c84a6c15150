//! The parent: starts children, lets them work in rounds, and collects the results.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{self, ChildStdin, ChildStdout, Stdio},
    time::Instant,
};

use anyhow::{Context as _, bail};
use bench_common::{callers::Pace, machine::Memory};
use serde::{Deserialize, Serialize};

use crate::{
    child::{Command, Reply},
    engines::Name,
    settings::Settings,
};

/// Rounds; each measures all engines in turn.
const ROUNDS: u64 = 3;
/// How often the directory is opened.
const OPENINGS: u64 = 5;

/// The results for one size of the directory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) items: u64,
    pub(crate) settings: Settings,
    pub(crate) engines: BTreeMap<Name, Figures>,
}

/// The results of one engine, round by round.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Durable writes of 64 writers into an empty directory.
    pub(crate) writes: Vec<Pace>,
    /// The same with one caller that commits 64 at a time.
    pub(crate) straight: Vec<Pace>,
    pub(crate) load_seconds: f64,
    pub(crate) disk_mib: f64,
    /// Milliseconds.
    pub(crate) open: Vec<f64>,
    pub(crate) reads: Vec<Pace>,
    pub(crate) queries: Vec<Pace>,
    /// After reads and queries only.
    pub(crate) reading: Option<Memory>,
    /// Durable writes of 64 writers into the loaded directory.
    pub(crate) sustained: Vec<Pace>,
    /// After the writes too.
    pub(crate) writing: Option<Memory>,
}

pub(crate) fn size(directory: &Path, items: u64, seconds: f64, settings: Settings) -> anyhow::Result<Size> {
    fs::create_dir_all(directory)?;
    let mut engines: BTreeMap<Name, Figures> = Name::ALL.map(|name| (name, Figures::default())).into();
    let short = seconds / ROUNDS as f64;

    eprintln!("{items} items: durable writes into an empty directory");
    for round in 1..=ROUNDS {
        for (name, figures) in &mut engines {
            let fresh = directory.join(format!("{name}-fresh"));
            let pace = Child::start(*name, &fresh, settings)?.0.pace(&Command::Write { from: 0, seconds })?;
            eprintln!("  round {round}: {name} {:.0}/s", pace.per_second);
            figures.writes.push(pace);
            fs::remove_dir_all(&fresh)?;
            figures
                .straight
                .push(Child::start(*name, &fresh, settings)?.0.pace(&Command::Straight { from: 0, seconds: short })?);
            fs::remove_dir_all(&fresh)?;
        }
    }

    let place = |name: &Name| directory.join(name.to_string());
    for (name, figures) in &mut engines {
        eprintln!("{items} items: load {name}");
        let start = Instant::now();
        let (mut child, _) = Child::start(*name, &place(name), settings)?;
        child.ask(&Command::Load { items })?;
        figures.load_seconds = start.elapsed().as_secs_f64();
        child.ask(&Command::Settle)?;
        drop(child);
        figures.disk_mib = bytes(&place(name))? as f64 / 1024.0 / 1024.0;
    }

    eprintln!("{items} items: open");
    for _ in 0..OPENINGS {
        for (name, figures) in &mut engines {
            figures.open.push(Child::start(*name, &place(name), settings)?.1);
        }
    }

    let mut children = BTreeMap::new();
    for name in Name::ALL {
        children.insert(name, Child::start(name, &place(&name), settings)?.0);
    }
    children.values_mut().try_for_each(|child| child.ask(&Command::Settle).map(drop))?;
    // Read all files first, so that all of them are in the page cache, whichever were written last.
    Name::ALL.iter().try_for_each(|name| read_through(&place(name)))?;
    for round in 1..=ROUNDS {
        eprintln!("{items} items: reads and queries, round {round}");
        for (name, child) in &mut children {
            let figures = engines.entry(*name).or_default();
            figures.reads.push(child.pace(&Command::Read { items, seed: round, seconds: short })?);
            figures.queries.push(child.pace(&Command::Query { items, seed: round + ROUNDS, seconds: short })?);
        }
    }
    for (name, child) in &mut children {
        engines.entry(*name).or_default().reading = Some(child.memory()?);
    }

    eprintln!("{items} items: sustained durable writes");
    let mut next: BTreeMap<Name, u64> = Name::ALL.map(|name| (name, items)).into();
    for round in 1..=ROUNDS {
        for (name, child) in &mut children {
            let from = next.entry(*name).or_default();
            // Twice as long: flushes and compactions are periodic.
            let pace = child.pace(&Command::Write { from: *from, seconds: seconds * 2.0 })?;
            eprintln!("  round {round}: {name} {:.0}/s", pace.per_second);
            *from = pace.next;
            engines.entry(*name).or_default().sustained.push(pace);
            // Background work must not slow down the next measurement.
            child.ask(&Command::Settle)?;
        }
    }
    for (name, child) in &mut children {
        engines.entry(*name).or_default().writing = Some(child.memory()?);
    }
    Ok(Size { items, settings, engines })
}

struct Child {
    process: process::Child,
    /// `None` only while it is dropped: closing its input ends the child.
    commands: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a child; the milliseconds that opening took.
    fn start(name: Name, directory: &Path, settings: Settings) -> anyhow::Result<(Self, f64)> {
        let name = name.to_string().to_lowercase();
        // Not by its path: a later build may have replaced the file there.
        let mut process = process::Command::new("/proc/self/exe")
            .args(["child", &name])
            .arg(directory)
            .args(["--write-buffer", &settings.write_buffer.to_string(), "--journals", &settings.journals.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = process.stdin.take();
        let replies = BufReader::new(process.stdout.take().context("the child has no output")?);
        let mut child = Child { process, commands, replies };
        match child.reply()? {
            Reply::Open(millis) => Ok((child, millis)),
            other => bail!("the child says {other:?}"),
        }
    }

    fn ask(&mut self, command: &Command) -> anyhow::Result<Reply> {
        let commands = self.commands.as_mut().context("the child has no input")?;
        writeln!(commands, "{}", serde_json::to_string(command)?)?;
        self.reply()
    }

    fn reply(&mut self) -> anyhow::Result<Reply> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        serde_json::from_str(&line).context("the child has failed")
    }

    fn pace(&mut self, command: &Command) -> anyhow::Result<Pace> {
        match self.ask(command)? {
            Reply::Pace(pace) => Ok(pace),
            other => bail!("the child says {other:?}"),
        }
    }

    fn memory(&mut self) -> anyhow::Result<Memory> {
        match self.ask(&Command::Memory)? {
            Reply::Memory(memory) => Ok(memory),
            other => bail!("the child says {other:?}"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.process.wait();
    }
}

/// Reads every file below a directory once.
fn read_through(directory: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() {
            read_through(&entry.path())?;
        } else {
            io::copy(&mut fs::File::open(entry.path())?, &mut io::sink())?;
        }
    }
    Ok(())
}

/// The disk space of the files below a directory, in bytes.
fn bytes(directory: &Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(sum)
}
