//! Latencies in buckets: constant memory, and an error of at most 2 %.

use std::time::Duration;

/// Buckets for each doubling of the time.
const STEPS: u64 = 64;

pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram { counts: vec![0; (STEPS * 40) as usize], total: 0 }
    }

    pub(crate) fn add(&mut self, time: Duration) {
        let at = bucket(time.as_nanos() as u64).min(self.counts.len() - 1);
        self.counts[at] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
    }

    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// The quantile in microseconds.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let rank = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank.max(1) {
                return upper(at as u64) / 1_000.0;
            }
        }
        0.0
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let doublings = u64::from(nanos.ilog2() - STEPS.ilog2());
    (doublings * STEPS + (nanos >> doublings)) as usize
}

fn upper(bucket: u64) -> f64 {
    if bucket < STEPS {
        return bucket as f64;
    }
    let doublings = bucket / STEPS - 1;
    ((bucket - doublings * STEPS + 1) << doublings) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_two_percent_off() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|nanos| histogram.add(Duration::from_nanos(nanos * 10)));
        for (part, micros) in [(0.5, 500.0), (0.99, 990.0)] {
            let found = histogram.quantile(part);
            assert!((found / micros - 1.0f64).abs() < 0.02, "{found} is not {micros}");
        }
    }
}
