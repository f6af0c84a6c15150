//! Concurrent callers, each with one call after another.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{histogram::Histogram, machine::cpu_seconds};

/// The number of concurrent callers.
pub const CALLERS: usize = 64;
/// The warm-up, as a part of a measurement.
const WARM: f64 = 0.25;

/// The result of a measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Pace {
    pub per_second: f64,
    /// Microseconds.
    pub p50: f64,
    pub p99: f64,
    /// Processor time of this process per call in microseconds, background work included.
    pub cpu: f64,
    /// The next unused number.
    pub next: u64,
}

impl Pace {
    fn from_times(times: &Histogram, seconds: f64, cpu: f64, next: u64) -> Self {
        let count = times.count() as f64;
        let (p50, p99) = (times.quantile(0.5), times.quantile(0.99));
        Pace { per_second: count / seconds, p50, p99, cpu: cpu * 1e6 / count.max(1.0), next }
    }
}

/// Lets all callers call with unique numbers for some seconds, or until the numbers reach the end.
pub async fn busy<F, W>(seconds: f64, numbers: std::ops::Range<u64>, call: F) -> anyhow::Result<Pace>
where
    F: Fn(u64) -> W + Send + Sync + 'static,
    W: Future<Output = anyhow::Result<()>> + Send,
{
    let (call, next) = (Arc::new(call), Arc::new(AtomicU64::new(numbers.start)));
    let counted = Instant::now() + Duration::from_secs_f64(seconds * WARM);
    let end = counted + Duration::from_secs_f64(seconds);
    let caller = |call: Arc<F>, next: Arc<AtomicU64>| async move {
        let mut times = Histogram::new();
        loop {
            let began = Instant::now();
            if began >= end {
                return anyhow::Ok((times, end));
            }
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return Ok((times, began));
            }
            call(number).await?;
            let ended = Instant::now();
            if ended >= counted && ended < end {
                times.add(ended - began);
            }
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller(Arc::clone(&call), Arc::clone(&next)))).collect();
    tokio::time::sleep_until(counted.into()).await;
    let cpu = cpu_seconds(std::process::id())?;
    let (mut times, mut last) = (Histogram::new(), counted);
    for caller in callers {
        let (some, until) = caller.await??;
        times.merge(&some);
        last = last.max(until);
    }
    let cpu = cpu_seconds(std::process::id())? - cpu;
    anyhow::ensure!(times.count() > 0, "all was done before it counted");
    let next = next.load(Ordering::Relaxed).min(numbers.end);
    Ok(Pace::from_times(&times, (last - counted).as_secs_f64(), cpu, next))
}

/// One caller that repeats its call.
pub async fn repeat(mut call: impl AsyncFnMut() -> anyhow::Result<()>, seconds: f64) -> anyhow::Result<Pace> {
    let counted = Instant::now() + Duration::from_secs_f64(seconds * WARM);
    while Instant::now() < counted {
        call().await?;
    }
    let mut times = Histogram::new();
    let (start, cpu) = (Instant::now(), cpu_seconds(std::process::id())?);
    let end = start + Duration::from_secs_f64(seconds);
    let mut began = start;
    while began < end {
        call().await?;
        let ended = Instant::now();
        times.add(ended - began);
        began = ended;
    }
    Ok(Pace::from_times(&times, (began - start).as_secs_f64(), cpu_seconds(std::process::id())? - cpu, 0))
}
