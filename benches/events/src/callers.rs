//! Concurrent callers, each with one call after another.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bench_common::machine::cpu_seconds;
use serde::{Deserialize, Serialize};

/// The number of concurrent callers.
pub(crate) const CALLERS: usize = 64;
/// The warm-up, as a part of a measurement.
const WARM: f64 = 0.25;

/// The result of a measurement.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Pace {
    pub(crate) per_second: f64,
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Processor time of this process per call in microseconds, background work included.
    pub(crate) cpu: f64,
    /// The next unused number.
    pub(crate) next: u64,
}

/// Lets all callers call with unique numbers for some seconds, or until the numbers reach `limit`.
pub(crate) async fn busy<F, W>(seconds: f64, limit: u64, call: F) -> anyhow::Result<Pace>
where
    F: Fn(u64) -> W + Send + Sync + 'static,
    W: Future<Output = anyhow::Result<()>> + Send,
{
    let (call, next) = (Arc::new(call), Arc::new(AtomicU64::new(0)));
    let counted = Instant::now() + Duration::from_secs_f64(seconds * WARM);
    let end = counted + Duration::from_secs_f64(seconds);
    let caller = |call: Arc<F>, next: Arc<AtomicU64>| async move {
        let mut times = Vec::new();
        loop {
            let began = Instant::now();
            if began >= end {
                return anyhow::Ok((times, end));
            }
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= limit {
                return Ok((times, began));
            }
            call(number).await?;
            let ended = Instant::now();
            if ended >= counted && ended < end {
                times.push(micros(ended - began));
            }
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller(Arc::clone(&call), Arc::clone(&next)))).collect();
    tokio::time::sleep_until(counted.into()).await;
    let cpu = cpu_seconds(std::process::id())?;
    let (mut times, mut last) = (Vec::new(), counted);
    for caller in callers {
        let (some, until) = caller.await??;
        times.extend(some);
        last = last.max(until);
    }
    let cpu = cpu_seconds(std::process::id())? - cpu;
    let next = next.load(Ordering::Relaxed).min(limit);
    anyhow::ensure!(!times.is_empty(), "all was done before it counted");
    let seconds = (last - counted).as_secs_f64();
    let times = Times::of(times);
    let count = times.0.len() as f64;
    Ok(Pace { per_second: count / seconds, p50: times.at(0.5), p99: times.at(0.99), cpu: cpu * 1e6 / count, next })
}

/// Times in microseconds, sorted.
pub(crate) struct Times(pub(crate) Vec<u32>);

impl Times {
    pub(crate) fn of(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        Times(times)
    }

    /// The quantile of the times.
    pub(crate) fn at(&self, part: f64) -> f64 {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied().map_or(f64::NAN, f64::from)
    }
}

pub(crate) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Waits until this process uses almost no processor time, at most some seconds: background work must not slow down the
/// next measurement.
pub(crate) async fn settle() -> anyhow::Result<()> {
    let mut before = cpu_seconds(std::process::id())?;
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = cpu_seconds(std::process::id())?;
        if now - before < 0.02 {
            break;
        }
        before = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_all_times_is_not_above_its_time() {
        let times = Times::of((1..=1_000).rev().collect());
        assert_eq!([0.5, 0.95, 0.99, 1.0].map(|part| times.at(part)), [500.0, 950.0, 990.0, 1_000.0]);
    }
}
