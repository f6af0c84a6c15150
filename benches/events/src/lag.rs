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

use anyhow::ensure;
use bench_common::callers::CALLERS;
use nagaya_events::{Feed, Processor, ProcessorOptions, refresh_generations};
use nagaya_todo::{AGGREGATE, Todo, projections};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    times::{Times, micros, settle},
    todo_app::{FAMILIES, TodoApp, create, id},
    unknown::{LaterTodo, UNKNOWN},
};

/// About how many events per second are sampled.
const SAMPLED: f64 = 200.0;
/// The time limit for a sampled event; it counts as this late then.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The first aggregate of unknown events: a number of the first family that no other aggregate has.
const UNKNOWN_START: u64 = FAMILIES << 32;
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

/// Appends first events of new aggregates at a rate, with the background work of `nagaya serve`; on request beside events of one
/// family that the projection does not know.
pub(crate) async fn measure(directory: &Path, rate: f64, seconds: f64, beside_unknown: bool) -> anyhow::Result<Lag> {
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
    let writing = beside_unknown.then(|| tokio::spawn(write_unknown(Arc::clone(&app))));
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller())).collect();
    let (mut times, mut took) = (Vec::new(), Duration::ZERO);
    for caller in callers {
        let (waiting, until) = caller.await??;
        took = took.max(until);
        for sample in waiting {
            times.push(sample.await??);
        }
    }
    if let Some(writing) = writing {
        writing.abort();
        let parked = processor(&app)?.dead_letters().await?.len();
        ensure!(parked as u64 >= UNKNOWN, "{parked} of the unknown events are parked");
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

/// Writes unknown events of one family, many at once, each second.
async fn write_unknown(app: Arc<TodoApp>) -> anyhow::Result<()> {
    let events = app.events::<LaterTodo>()?;
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    for first in (UNKNOWN_START..).step_by((UNKNOWN * FAMILIES) as usize) {
        every_second.tick().await;
        let numbers = (first..).step_by(FAMILIES as usize).take(UNKNOWN as usize);
        let written = numbers.map(|number| {
            let (app, events) = (Arc::clone(&app), events.clone());
            tokio::spawn(async move { app.execute(&events, number, &create(number)).await })
        });
        for written in written.collect::<Vec<_>>() {
            written.await??;
        }
    }
    Ok(())
}

fn processor(app: &TodoApp) -> anyhow::Result<Processor> {
    let options = ProcessorOptions { pause: PAUSE, ..ProcessorOptions::default() };
    let [projection] = <[_; 1]>::try_from(projections()).map_err(|_| anyhow::anyhow!("there is more than one list"))?;
    Ok(Processor::new(&app.nagaya, projection, options)?)
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
    let processor = processor(&app)?;
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
