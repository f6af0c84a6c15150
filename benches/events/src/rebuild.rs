//! Rebuilds of the projection from many events, in a separate process whose memory is measured.

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
use bench_common::{
    callers::CALLERS,
    machine::{forget_peak, peak_mb, resident_mb},
};
use nagaya_events::{Processor, ProcessorOptions, Progress};
use nagaya_todo::projections;
use serde::{Deserialize, Serialize};

use crate::{
    many::{EACH, ManyEventsTodo, RunThroughStates},
    todo_app::TodoApp,
};

/// The result of one rebuild.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Rebuild {
    pub(crate) events: u64,
    pub(crate) aggregates: u64,
    /// Seconds of building, and of checking.
    pub(crate) building: f64,
    pub(crate) checking: f64,
    /// Resident memory with only the directory open, and the peak during the rebuild, in MB.
    pub(crate) before: f64,
    pub(crate) peak: f64,
}

impl Rebuild {
    /// Events per second, checking included.
    pub(crate) fn per_second(&self) -> f64 {
        self.events as f64 / (self.building + self.checking)
    }

    /// Events per second while building.
    pub(crate) fn built_per_second(&self) -> f64 {
        self.events as f64 / self.building
    }
}

/// Creates so many events in a directory; events per second.
pub(crate) async fn fill(directory: &Path, events: u64) -> anyhow::Result<f64> {
    let app = Arc::new(TodoApp::open(directory).await?);
    let domain = app.events::<ManyEventsTodo>()?;
    let (next, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let caller = || {
        let (app, domain, next) = (Arc::clone(&app), domain.clone(), Arc::clone(&next));
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= events / EACH {
                    return anyhow::Ok(());
                }
                let title = format!("Buy milk, bread and {number:09} eggs");
                app.execute(&domain, number, &RunThroughStates { title }).await?;
            }
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller())).collect();
    for caller in callers {
        caller.await??;
    }
    Ok(events as f64 / start.elapsed().as_secs_f64())
}

/// Rebuilds in a separate process.
pub(crate) fn measure(directory: &Path, rounds: u64) -> anyhow::Result<Vec<Rebuild>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("rebuild").arg(directory).arg(rounds.to_string()).stderr(std::process::Stdio::inherit());
    let output = command.output().context("the rebuild process does not start")?;
    ensure!(output.status.success(), "the rebuild process failed ({})", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The separate process.
pub(crate) fn child(directory: &Path, rounds: u64) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(async {
        let app = TodoApp::open(directory).await?;
        let mut found = Vec::new();
        for _ in 0..rounds {
            found.push(once(&app).await?);
        }
        anyhow::Ok(found)
    })?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

async fn once(app: &TodoApp) -> anyhow::Result<Rebuild> {
    let [projection] = <[_; 1]>::try_from(projections()).map_err(|_| anyhow::anyhow!("there is more than one list"))?;
    let processor = Processor::new(&app.nagaya, projection, ProcessorOptions::default())?;
    let this = std::process::id();
    let before = resident_mb(this)?;
    forget_peak()?;
    // Progress is reported while building and then while checking: the last report of building is its end.
    let (start, built) = (Instant::now(), Mutex::new(Instant::now()));
    let report_progress = |progress: Progress| {
        if !progress.checking {
            *built.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    };
    let verified = processor.rebuild(&report_progress).await?;
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
