//! Building the list anew from many events, in a process of its own whose memory is looked at.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::{Context as _, ensure};
use bench_common::machine::{forget_peak, peak_mb, resident_mb};
use nagaya_events::{Processor, ProcessorOptions, Progress};
use nagaya_todo::projections;
use serde::{Deserialize, Serialize};

use crate::{
    callers::CALLERS,
    house::House,
    many::{Busy, EACH, Live},
};

/// One building of the list.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Rebuild {
    pub(crate) events: u64,
    pub(crate) aggregates: u64,
    /// Seconds of building, and of checking what was built.
    pub(crate) building: f64,
    pub(crate) checking: f64,
    /// Resident memory with only the directory open, and the most while it was built and checked, in MB.
    pub(crate) before: f64,
    pub(crate) peak: f64,
}

impl Rebuild {
    /// Events of a second, checking included.
    pub(crate) fn per_second(&self) -> f64 {
        self.events as f64 / (self.building + self.checking)
    }

    /// Events of a second while building.
    pub(crate) fn built_per_second(&self) -> f64 {
        self.events as f64 / self.building
    }
}

/// Makes so many events in a directory; how many of a second.
pub(crate) async fn fill(directory: &Path, events: u64) -> anyhow::Result<f64> {
    let house = Arc::new(House::open(directory).await?);
    let domain = house.events::<Busy>()?;
    let (next, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let caller = || {
        let (house, domain, next) = (Arc::clone(&house), domain.clone(), Arc::clone(&next));
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= events / EACH {
                    return anyhow::Ok(());
                }
                let title = format!("Buy milk, bread and {number:09} eggs");
                house.execute(&domain, number, &Live { title }).await?;
            }
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller())).collect();
    for caller in callers {
        caller.await??;
    }
    Ok(events as f64 / start.elapsed().as_secs_f64())
}

/// Builds the list anew in a process of its own.
pub(crate) fn measure(directory: &Path, rounds: u64) -> anyhow::Result<Vec<Rebuild>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("rebuild").arg(directory).arg(rounds.to_string()).stderr(std::process::Stdio::inherit());
    let output = command.output().context("the process that builds anew does not start")?;
    ensure!(output.status.success(), "the process that builds anew failed ({})", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What that process does.
pub(crate) fn child(directory: &Path, rounds: u64) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let house = House::open(directory).await?;
        let mut found = Vec::new();
        for _ in 0..rounds {
            found.push(once(&house).await?);
        }
        anyhow::Ok(found)
    })?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

async fn once(house: &House) -> anyhow::Result<Rebuild> {
    let [projection] = <[_; 1]>::try_from(projections()).map_err(|_| anyhow::anyhow!("there is more than one list"))?;
    let processor = Processor::new(&house.nagaya, projection, ProcessorOptions::default())?;
    let this = std::process::id();
    let before = resident_mb(this)?;
    forget_peak()?;
    // Building tells how far it is, and then checking: the last time that building does so, it is done.
    let (start, built) = (Instant::now(), Mutex::new(Instant::now()));
    let told = |progress: Progress| {
        if !progress.checking {
            *built.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    };
    let verified = processor.rebuild(&told).await?;
    let end = Instant::now();
    ensure!(verified.is_consistent(), "what was built is not what its events give: {verified:?}");
    let built = *built.lock().unwrap_or_else(PoisonError::into_inner);
    let (building, checking) = ((built - start).as_secs_f64(), (end - built).as_secs_f64());
    let rebuild = Rebuild {
        events: verified.events,
        aggregates: verified.aggregates,
        building,
        checking,
        before,
        peak: peak_mb(this)?,
    };
    eprintln!("    built in {building:.1} s, checked in {checking:.1} s, {:.0} events/s", rebuild.per_second());
    Ok(rebuild)
}
