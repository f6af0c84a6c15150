//! The child process: one engine with one open directory, controlled by the parent.

use std::{
    io::{BufRead as _, Write as _, stdin, stdout},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use bench_common::machine::{self, Memory};
use serde::{Deserialize, Serialize};

use crate::{
    engines::{Engine, Fjall, Nagaya, Name, Redb, Sqlite},
    histogram::Histogram,
    queue::GROUP,
    settings::Settings,
    workload::{DAY, Picks},
};

/// Concurrent writers.
pub(crate) const WRITERS: usize = 64;
/// The warm-up, as a part of a phase.
const WARM: f64 = 0.25;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Create the items below a number, quickly.
    Load {
        items: u64,
    },
    /// Many concurrent writers, each waiting until its item is on disk.
    Write {
        from: u64,
        seconds: f64,
    },
    /// One writer that commits 64 items at a time.
    Straight {
        from: u64,
        seconds: f64,
    },
    Read {
        items: u64,
        seed: u64,
        seconds: f64,
    },
    Query {
        items: u64,
        seed: u64,
        seconds: f64,
    },
    /// Wait until background work is done.
    Settle,
    Memory,
}

/// The result of a command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The directory is open; the milliseconds that it took.
    Open(f64),
    Done,
    Pace(Pace),
    Memory(Memory),
}

/// The result of a phase.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Processor time per operation in microseconds, background work included.
    pub(crate) cpu: f64,
    /// The number of the next item to create, after a phase that creates.
    pub(crate) next: u64,
}

pub(crate) fn run(name: Name, directory: &Path, settings: Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(async {
        match name {
            Name::Nagaya => serve::<Nagaya>(directory, settings).await,
            Name::Fjall => serve::<Fjall>(directory, settings).await,
            Name::Redb => serve::<Redb>(directory, settings).await,
            Name::Sqlite => serve::<Sqlite>(directory, settings).await,
        }
    })
}

async fn serve<E: Engine>(directory: &Path, settings: Settings) -> anyhow::Result<()> {
    let start = Instant::now();
    let engine = Arc::new(E::open(directory, settings).await?);
    answer(&Reply::Open(start.elapsed().as_secs_f64() * 1_000.0))?;
    for line in stdin().lock().lines() {
        let reply = match serde_json::from_str(&line?)? {
            Command::Load { items } => {
                load(&*engine, items).await?;
                Reply::Done
            }
            Command::Write { from, seconds } => Reply::Pace(write(&engine, from, seconds).await?),
            Command::Straight { from, seconds } => Reply::Pace(write_batches(&*engine, from, seconds).await?),
            Command::Read { items, seed, seconds } => {
                let mut picks = Picks::new(seed);
                let read = async || {
                    ensure!(engine.read(picks.below(items)).await?, "an item is missing");
                    Ok(())
                };
                Reply::Pace(repeat(read, seconds).await?)
            }
            Command::Query { items, seed, seconds } => {
                let mut picks = Picks::new(seed);
                let query = async || {
                    let found = engine.query(picks.below(items)).await?;
                    ensure!(found == DAY as usize, "a query found {found} items");
                    Ok(())
                };
                Reply::Pace(repeat(query, seconds).await?)
            }
            Command::Settle => {
                settle().await?;
                Reply::Done
            }
            Command::Memory => Reply::Memory(Memory::now()?),
        };
        answer(&reply)?;
    }
    Ok(())
}

fn answer(reply: &Reply) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::to_string(reply)?)?;
    Ok(out.flush()?)
}

async fn load<E: Engine>(engine: &E, items: u64) -> anyhow::Result<()> {
    const STEP: u64 = 5_000;
    let mut reported = Instant::now();
    for from in (0..items).step_by(STEP as usize) {
        engine.load(from..items.min(from + STEP)).await?;
        if reported.elapsed() > Duration::from_secs(10) {
            eprintln!("    {} of {items} items", from + STEP);
            reported = Instant::now();
        }
    }
    Ok(())
}

async fn write<E: Engine>(engine: &Arc<E>, from: u64, seconds: f64) -> anyhow::Result<Pace> {
    let next = Arc::new(AtomicU64::new(from));
    let start = Instant::now();
    let counted = start + Duration::from_secs_f64(seconds * WARM);
    let end = counted + Duration::from_secs_f64(seconds);
    let writer = |engine: Arc<E>, next: Arc<AtomicU64>| async move {
        let mut times = Histogram::new();
        loop {
            let began = Instant::now();
            if began >= end {
                return anyhow::Ok(times);
            }
            engine.create(next.fetch_add(1, Ordering::Relaxed)).await?;
            let ended = Instant::now();
            if ended >= counted && ended < end {
                times.add(ended - began);
            }
        }
    };
    let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(writer(Arc::clone(engine), Arc::clone(&next)))).collect();
    tokio::time::sleep_until(counted.into()).await;
    let cpu = machine::cpu_seconds(std::process::id())?;
    tokio::time::sleep_until(end.into()).await;
    let cpu = machine::cpu_seconds(std::process::id())? - cpu;
    let mut times = Histogram::new();
    for writer in writers {
        times.merge(&writer.await??);
    }
    Ok(pace(&times, seconds, cpu, next.load(Ordering::Relaxed)))
}

async fn write_batches<E: Engine>(engine: &E, from: u64, seconds: f64) -> anyhow::Result<Pace> {
    let mut next = from;
    let commit = async || {
        let first = next;
        next += GROUP as u64;
        engine.load(first..next).await
    };
    let pace = repeat(commit, seconds).await?;
    Ok(Pace { per_second: pace.per_second * GROUP as f64, cpu: pace.cpu / GROUP as f64, next, ..pace })
}

/// One caller that repeats its call.
async fn repeat(mut call: impl AsyncFnMut() -> anyhow::Result<()>, seconds: f64) -> anyhow::Result<Pace> {
    let counted = Instant::now() + Duration::from_secs_f64(seconds * WARM);
    while Instant::now() < counted {
        call().await?;
    }
    let mut times = Histogram::new();
    let (start, cpu) = (Instant::now(), machine::cpu_seconds(std::process::id())?);
    let end = start + Duration::from_secs_f64(seconds);
    let mut began = start;
    while began < end {
        call().await?;
        let ended = Instant::now();
        times.add(ended - began);
        began = ended;
    }
    Ok(pace(&times, (began - start).as_secs_f64(), machine::cpu_seconds(std::process::id())? - cpu, 0))
}

fn pace(times: &Histogram, seconds: f64, cpu: f64, next: u64) -> Pace {
    let count = times.count().max(1) as f64;
    Pace {
        per_second: times.count() as f64 / seconds,
        p50: times.quantile(0.5),
        p99: times.quantile(0.99),
        cpu: cpu * 1e6 / count,
        next,
    }
}

/// Waits until the process uses almost no processor time, at most half a minute.
async fn settle() -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    let mut before = machine::cpu_seconds(std::process::id())?;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(400)).await;
        let now = machine::cpu_seconds(std::process::id())?;
        if now - before < 0.03 {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}
