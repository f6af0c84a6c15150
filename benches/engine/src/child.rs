//! The child process: one engine with one open directory, controlled by the parent.

use std::{
    io::{BufRead as _, Write as _, stdin, stdout},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use bench_common::{
    callers::{Pace, busy, repeat},
    machine::Memory,
    process,
};
use serde::{Deserialize, Serialize};

use crate::{
    engines::{Engine, Fjall, Nagaya, Name, Redb, Sqlite},
    queue::GROUP,
    settings::Settings,
    workload::{ITEMS_PER_DAY, Picks},
};

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
                    ensure!(found == ITEMS_PER_DAY as usize, "a query found {found} items");
                    Ok(())
                };
                Reply::Pace(repeat(query, seconds).await?)
            }
            Command::Settle => {
                process::settle(std::process::id(), Duration::from_secs(30))?;
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
    let engine = Arc::clone(engine);
    let create = move |number| {
        let engine = Arc::clone(&engine);
        async move { engine.create(number).await }
    };
    busy(seconds, from..u64::MAX, create).await
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
