//! How much of the server each tenant takes: by rate and at the same time.
//!
//! The rate is kept by the generic cell rate algorithm, which needs one number per tenant. It is written here and not taken
//! from the crate `governor`, which brings timers, futures and a clock of its own for it, and has no notion of requests
//! that are still under way.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;

/// How much may come at once: what the rate gives in this time.
const BURST: Duration = Duration::from_secs(2);
/// For how long it is remembered that somebody was refused.
const RECENT: Duration = Duration::from_secs(60);
/// Below this, forgetting is not worth the looking.
const FEW: usize = 1_024;

/// What everybody takes right now.
#[derive(Debug)]
pub(super) struct Shares {
    /// Nanoseconds that a request takes up; 0: it does not count.
    spacing: u64,
    concurrent: usize,
    started: Instant,
    taken: DashMap<String, Arc<Share>>,
    /// With so many names, those that take nothing are forgotten.
    forget_at: AtomicUsize,
}

/// What one takes right now.
#[derive(Debug, Default)]
struct Share {
    /// The nanosecond up to which the rate is used up.
    used_until: AtomicU64,
    /// Requests under way.
    inside: AtomicUsize,
    /// The nanosecond at which a request was last refused; 0: none was.
    refused_at: AtomicU64,
}

/// The place of a request under way.
#[derive(Debug)]
#[must_use = "the place is given back when it is dropped"]
pub(crate) struct Place(Arc<Share>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Relaxed);
    }
}

impl Shares {
    pub(super) fn new(rate: Option<NonZeroU32>, concurrent: usize) -> Self {
        let spacing = rate.map_or(0, |rate| 1_000_000_000 / u64::from(rate.get()));
        let forget_at = AtomicUsize::new(FEW);
        Shares { spacing, concurrent, started: Instant::now(), taken: DashMap::new(), forget_at }
    }

    /// A place for a request of this name, or how long to wait before there is one.
    pub(super) fn take(&self, name: &str) -> Result<Place, Duration> {
        self.take_at(name, self.started.elapsed())
    }

    fn take_at(&self, name: &str, now: Duration) -> Result<Place, Duration> {
        let now = nanos(now);
        let share = self.share(name, now);
        if share.inside.fetch_add(1, Relaxed) >= self.concurrent {
            share.inside.fetch_sub(1, Relaxed);
            share.refused_at.store(now.max(1), Relaxed);
            return Err(Duration::ZERO);
        }
        let place = Place(share);
        let full = now.saturating_add(nanos(BURST));
        let next = |used: u64| used.max(now).saturating_add(self.spacing);
        let within = |used: u64| Some(next(used)).filter(|next| *next <= full);
        match place.0.used_until.fetch_update(Relaxed, Relaxed, within) {
            Ok(_) => Ok(place),
            Err(used) => {
                place.0.refused_at.store(now.max(1), Relaxed);
                Err(Duration::from_nanos(next(used) - full))
            }
        }
    }

    /// How many were refused something in the last minute.
    pub(super) fn over_quota(&self) -> usize {
        self.over_quota_at(self.started.elapsed())
    }

    fn over_quota_at(&self, now: Duration) -> usize {
        let now = nanos(now);
        self.taken.iter().filter(|share| share.was_refused(now)).count()
    }

    fn share(&self, name: &str, now: u64) -> Arc<Share> {
        if let Some(share) = self.taken.get(name) {
            return Arc::clone(&share);
        }
        if self.taken.len() >= self.forget_at.load(Relaxed) {
            self.forget_idle(now);
        }
        Arc::clone(&self.taken.entry(name.to_owned()).or_default())
    }

    /// Forgets those whose share is as if they had never come. One of them may be coming back this very moment, and have
    /// its request counted for nothing: that is once, and one.
    fn forget_idle(&self, now: u64) {
        let takes = |share: &Share| share.inside.load(Relaxed) > 0 || share.used_until.load(Relaxed) > now;
        self.taken.retain(|_, share| takes(share) || share.was_refused(now));
        // Twice what is left: looking through all of them is paid for by as many that came.
        self.forget_at.store(self.taken.len().saturating_mul(2).max(FEW), Relaxed);
    }
}

impl Share {
    fn was_refused(&self, now: u64) -> bool {
        let at = self.refused_at.load(Relaxed);
        at > 0 && now.saturating_sub(at) < nanos(RECENT)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn shares(rate: u32, concurrent: usize) -> Shares {
        Shares::new(NonZeroU32::new(rate), concurrent)
    }

    /// How many of so many requests at one instant are let in.
    fn admitted(shares: &Shares, name: &str, now: Duration, requests: usize) -> usize {
        (0..requests).filter(|_| shares.take_at(name, now).is_ok()).count()
    }

    #[test]
    fn twice_the_rate_comes_at_once_and_then_the_rate() {
        let shares = shares(100, 10);
        assert_eq!(admitted(&shares, "a", SECOND, 1_000), 200);
        assert_eq!(admitted(&shares, "a", SECOND * 2, 1_000), 100);
        assert_eq!(admitted(&shares, "a", SECOND * 2 + SECOND / 2, 1_000), 50);
        assert_eq!(admitted(&shares, "a", SECOND * 60, 1_000), 200, "what is not used does not add up for ever");
    }

    #[test]
    fn who_is_refused_is_let_in_after_the_time_that_it_was_told() {
        let shares = shares(3, 10);
        assert_eq!(admitted(&shares, "a", SECOND, 100), 6);
        let wait = shares.take_at("a", SECOND).expect_err("the share is used up");
        assert!(shares.take_at("a", SECOND + wait - Duration::from_nanos(1)).is_err());
        assert!(shares.take_at("a", SECOND + wait).is_ok());
    }

    #[test]
    fn a_flood_of_one_takes_nothing_from_another() {
        let shares = shares(100, 10);
        assert_eq!(admitted(&shares, "flood", SECOND, 100_000), 200);
        assert_eq!(admitted(&shares, "calm", SECOND, 200), 200);
    }

    #[test]
    fn who_was_refused_is_counted_for_a_minute_however_often_it_was() {
        let shares = shares(100, 10);
        assert_eq!(admitted(&shares, "calm", SECOND, 200), 200);
        assert_eq!(shares.over_quota_at(SECOND), 0);
        admitted(&shares, "flood", SECOND, 1_000);
        admitted(&shares, "other", SECOND * 30, 201);
        assert_eq!(shares.over_quota_at(SECOND * 31), 2);
        assert_eq!(shares.over_quota_at(SECOND * 62), 1);
        assert_eq!(shares.over_quota_at(SECOND * 91), 0);
    }

    #[test]
    fn requests_under_way_hold_their_places() {
        let shares = shares(1_000, 2);
        let (first, _second) = (shares.take_at("a", SECOND), shares.take_at("a", SECOND));
        assert!(shares.take_at("a", SECOND).is_err());
        assert!(shares.take_at("b", SECOND).is_ok());
        drop(first);
        assert!(shares.take_at("a", SECOND).is_ok());
    }

    #[test]
    fn without_a_rate_only_places_count() {
        let shares = Shares::new(None, 1);
        assert_eq!(admitted(&shares, "a", SECOND, 100_000), 100_000);
    }

    #[test]
    fn who_takes_nothing_any_more_is_forgotten() {
        let shares = shares(100, 10);
        let under_way = shares.take_at("busy", SECOND);
        for at in 0..50_000_u32 {
            // A new tenant each millisecond, each back to nothing ten milliseconds later.
            let _ = shares.take_at(&at.to_string(), SECOND + Duration::from_millis(at.into()));
        }
        assert!(shares.taken.len() <= FEW + 1, "{} are remembered", shares.taken.len());
        assert!(shares.taken.contains_key("busy"), "a request under way is not forgotten");
        drop(under_way);
    }
}
