//! Latencies, and background work between measurements.

use std::time::Duration;

use bench_common::process;

/// Times in microseconds, sorted.
pub(crate) struct Times(pub(crate) Vec<u32>);

impl Times {
    pub(crate) fn new(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        Times(times)
    }

    /// The quantile of the times.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied().map_or(f64::NAN, f64::from)
    }
}

pub(crate) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Waits until this process is idle, at most ten seconds.
pub(crate) fn settle() -> anyhow::Result<()> {
    process::settle(std::process::id(), Duration::from_secs(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_all_times_is_not_above_its_time() {
        let times = Times::new((1..=1_000).rev().collect());
        assert_eq!([0.5, 0.95, 0.99, 1.0].map(|part| times.quantile(part)), [500.0, 950.0, 990.0, 1_000.0]);
    }
}
