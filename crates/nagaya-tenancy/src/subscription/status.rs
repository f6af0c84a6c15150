//! How far a subscription is behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use nagaya_store::Measurement;

/// How far a subscription is behind: shared by the subscription and by what reports its metrics.
#[derive(Debug, Clone, Default)]
pub struct SubscriptionStatus(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// When it had last processed all changes, in milliseconds since 1970; 0: never.
    caught_up: AtomicI64,
    skipped: AtomicU64,
    /// Steps that failed.
    failed: AtomicU64,
}

impl SubscriptionStatus {
    /// It has processed all changes up to this time, in milliseconds since 1970.
    pub fn caught_up(&self, at: i64) {
        self.0.caught_up.fetch_max(at, Relaxed);
    }

    /// It has skipped changes that cannot be processed.
    pub fn skipped(&self, count: usize) {
        self.0.skipped.fetch_add(count as u64, Relaxed);
    }

    /// A step has failed. It is repeated.
    pub fn failed(&self) {
        self.0.failed.fetch_add(1, Relaxed);
    }

    /// How long ago it had processed all changes; `None`: it never has in this process.
    pub fn lag(&self, now: i64) -> Option<Duration> {
        let at = self.0.caught_up.load(Relaxed);
        (at > 0).then(|| Duration::from_millis(u64::try_from(now.saturating_sub(at)).unwrap_or(0)))
    }

    /// The same as metrics, labelled with the name of the subscription.
    pub fn measurements(&self, follower: &str, now: i64) -> Vec<Measurement> {
        let lag = self.lag(now).map(|lag| {
            let help = "How long ago a subscription had processed all changes";
            Measurement::gauge("follower_lag_seconds", help, lag.as_secs_f64())
        });
        let skipped = self.0.skipped.load(Relaxed);
        let skipped = (skipped > 0).then(|| {
            let help = "Changes that a subscription has skipped because they cannot be processed";
            Measurement::counter("follower_given_up", help, skipped as f64)
        });
        let failed = self.0.failed.load(Relaxed);
        // A subscription that has not run has neither.
        let failed = (failed > 0 || lag.is_some()).then(|| {
            let help = "Steps of a subscription that have failed, and were repeated";
            Measurement::counter("follower_failures", help, failed as f64)
        });
        lag.into_iter().chain(failed).chain(skipped).map(|each| each.label("follower", follower)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_grows_from_the_last_time_that_all_changes_were_processed() {
        let status = SubscriptionStatus::default();
        assert_eq!(status.lag(5_000), None);
        assert!(status.measurements("list", 5_000).is_empty(), "a subscription that does not run has no metrics");
        status.caught_up(4_000);
        // A step that ends late does not move it back.
        status.caught_up(3_000);
        assert_eq!(status.lag(5_000), Some(Duration::from_secs(1)));
        assert_eq!(status.lag(3_999), Some(Duration::ZERO), "the clock may go back");
        status.skipped(2);
        status.failed();
        let measured: Vec<_> = status.measurements("list", 9_000).iter().map(|each| (each.name, each.value)).collect();
        assert_eq!(measured, [("follower_lag_seconds", 5.0), ("follower_failures", 1.0), ("follower_given_up", 2.0)]);
    }
}
