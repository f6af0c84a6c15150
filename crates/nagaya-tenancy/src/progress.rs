//! How far something is that follows the changes of a store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use nagaya_store::Measurement;

/// How far something is that follows the changes of a store: shared by what follows and by whoever wants to know.
#[derive(Debug, Clone, Default)]
pub struct FollowerStatus(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// When it had last seen everything, in milliseconds since 1970; 0: never.
    caught_up: AtomicI64,
    given_up: AtomicU64,
}

impl FollowerStatus {
    /// It has worked on everything that had happened by this time, in milliseconds since 1970.
    pub fn caught_up(&self, at: i64) {
        self.0.caught_up.fetch_max(at, Relaxed);
    }

    /// It has left something as it is, because it cannot be done.
    pub fn gave_up(&self, count: usize) {
        self.0.given_up.fetch_add(count as u64, Relaxed);
    }

    /// How long ago it had seen everything; `None`: it never has in this process.
    pub fn lag(&self, now: i64) -> Option<Duration> {
        let at = self.0.caught_up.load(Relaxed);
        (at > 0).then(|| Duration::from_millis(u64::try_from(now.saturating_sub(at)).unwrap_or(0)))
    }

    /// The same for metrics, under the name of what follows.
    pub fn measurements(&self, follower: &str, now: i64) -> Vec<Measurement> {
        let lag = self.lag(now).map(|lag| {
            let help = "How long ago a follower had seen everything that was written";
            Measurement::gauge("follower_lag_seconds", help, lag.as_secs_f64())
        });
        let given_up = self.0.given_up.load(Relaxed);
        let given_up = (given_up > 0).then(|| {
            let help = "What a follower has left as it is, because it cannot be done";
            Measurement::counter("follower_given_up", help, given_up as f64)
        });
        lag.into_iter().chain(given_up).map(|each| each.label("follower", follower)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_grows_from_the_last_time_that_everything_was_seen() {
        let status = FollowerStatus::default();
        assert_eq!(status.lag(5_000), None);
        assert!(status.measurements("list", 5_000).is_empty(), "one that does not run is left out");
        status.caught_up(4_000);
        // A step that ends late says nothing new.
        status.caught_up(3_000);
        assert_eq!(status.lag(5_000), Some(Duration::from_secs(1)));
        assert_eq!(status.lag(3_999), Some(Duration::ZERO), "clocks may go back");
        status.gave_up(2);
        let told: Vec<_> = status.measurements("list", 9_000).iter().map(|each| (each.name, each.value)).collect();
        assert_eq!(told, [("follower_lag_seconds", 5.0), ("follower_given_up", 2.0)]);
    }
}
