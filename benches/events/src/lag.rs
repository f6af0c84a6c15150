//! The lag of the projection behind an acknowledged event, while others are appended at a constant rate.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bench_common::callers::CALLERS;
use nagaya_events::{Feed, Processor, ProcessorOptions, refresh_generations};
use nagaya_todo::{AGGREGATE, Todo, projections};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    times::{Times, micros, settle},
    todo_app::{TodoApp, create, id},
};

/// About how many events per second are sampled.
const SAMPLED: f64 = 200.0;
/// The time limit for a sampled event; it counts as this late then.
const TIMEOUT: Duration = Duration::from_secs(30);
/// As in `nagaya serve`.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Lag {
    /// The target rate of appends per second, and the actual one.
    pub(crate) wanted: f64,
    pub(crate) appended: f64,
    /// The number of sampled events.
    pub(crate) samples: usize,
    /// Milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) most: f64,
}

/// Appends first events of new aggregates at a rate, with the background work of `nagaya serve`.
pub(crate) async fn measure(directory: &Path, rate: f64, seconds: f64) -> anyhow::Result<Lag> {
    let app = Arc::new(TodoApp::open(directory).await?);
    let (stop, stopped) = watch::channel(false);
    let background = tokio::spawn(background(Arc::clone(&app), stopped));
    // Wait until the processor has started.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let events = app.events::<Todo>()?;
    let every = (rate / SAMPLED).round().max(1.0) as u64;
    let total = (rate * seconds) as u64;
    // The first quarter is the warm-up.
    let counted = total / 4;
    let (next, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let caller = || {
        let (app, events, next) = (Arc::clone(&app), events.clone(), Arc::clone(&next));
        async move {
            let mut waiting = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return anyhow::Ok((waiting, start.elapsed()));
                }
                tokio::time::sleep_until((start + Duration::from_secs_f64(number as f64 / rate)).into()).await;
                let event = app.execute(&events, number, &create(number)).await?;
                if number >= counted && number.is_multiple_of(every) {
                    waiting.push(tokio::spawn(listed(Arc::clone(&app), number, event.id, Instant::now())));
                }
            }
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller())).collect();
    let (mut times, mut took) = (Vec::new(), Duration::ZERO);
    for caller in callers {
        let (waiting, until) = caller.await??;
        took = took.max(until);
        for sample in waiting {
            times.push(sample.await??);
        }
    }
    stop.send_replace(true);
    background.await??;
    drop(app);
    fs::remove_dir_all(directory)?;
    settle()?;
    let times = Times::new(times);
    let at = |part| times.quantile(part) / 1_000.0;
    let appended = total as f64 / took.as_secs_f64();
    Ok(Lag { wanted: rate, appended, samples: times.0.len(), p50: at(0.5), p99: at(0.99), most: at(1.0) })
}

/// Waits until the projection has an event; microseconds since it was acknowledged.
async fn listed(app: Arc<TodoApp>, number: u64, event: String, acknowledged: Instant) -> anyhow::Result<u32> {
    let id = id(number);
    loop {
        let found = app.family(number).get("todo", &[&id]).await;
        match found {
            Ok(item) if item.text("lastEventId").is_some_and(|last| last >= event.as_str()) => {
                return Ok(micros(acknowledged.elapsed()));
            }
            Err(error) if !matches!(error.kind(), nagaya_tenancy::ErrorKind::NotFound { .. }) => {
                return Err(error.into());
            }
            _ => {}
        }
        if acknowledged.elapsed() >= TIMEOUT {
            return Ok(micros(TIMEOUT));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The background work of `nagaya serve`.
async fn background(app: Arc<TodoApp>, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let nagaya = &app.nagaya;
    let feed = Feed::new(nagaya.design(), AGGREGATE)?;
    let stopped_signal = || {
        let mut stop = stop.clone();
        // A dropped sender means stop, too.
        async move { drop(stop.wait_for(|stop| *stop).await) }
    };
    let options = ProcessorOptions { pause: PAUSE, ..ProcessorOptions::default() };
    let [projection] = <[_; 1]>::try_from(projections()).map_err(|_| anyhow::anyhow!("there is more than one list"))?;
    let processor = Processor::new(nagaya, projection, options)?;
    let generations = async {
        loop {
            if let Err(error) = refresh_generations(nagaya).await {
                eprintln!("generations cannot be read: {error}");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::join!(processor.run(stopped_signal()), feed.run(nagaya, PAUSE, stopped_signal()), async {
        tokio::select! {
            () = generations => {}
            () = stopped_signal() => {}
        }
    });
    Ok(())
}
