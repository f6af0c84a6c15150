//! The quota of each key, such as a tenant, a user or a client address: requests per second, and requests at the same time.
//!
//! The rate is limited by the generic cell rate algorithm, which needs one number per key. The crate `governor` brings
//! timers, futures and a clock of its own for it, and does not count requests in flight; hence this one.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;

use super::{bytes_in_flight::BytesInFlight, reading::ReadCapacity};

/// The usual burst: as many requests at once as the rate allows in this time.
pub(super) const BURST: Duration = Duration::from_secs(2);
/// How long a key whose request was refused counts as over its quota.
const OVER_QUOTA_PERIOD: Duration = Duration::from_secs(60);
/// Below this many keys, idle ones are not removed.
const MIN_KEYS: usize = 1_024;

/// The quota that each key has, and what all keys use of it now.
#[derive(Debug)]
pub(super) struct KeyedQuota {
    rate: Rate,
    /// Keys with a rate of their own.
    overrides: BTreeMap<String, Rate>,
    concurrent: usize,
    /// Bytes that a key may have in flight.
    max_bytes_in_flight: usize,
    started: Instant,
    usage: DashMap<String, Arc<Usage>>,
    /// With this many keys, idle ones are removed.
    sweep_at: AtomicUsize,
}

/// How often requests may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Rate {
    /// Nanoseconds between two requests at the full rate; 0: no limit.
    spacing: u64,
    /// Nanoseconds whose requests may come at once.
    burst: u64,
}

impl Rate {
    /// So many requests in each second, and twice as many at once; 0: no limit.
    pub(super) fn per_second(requests: u32) -> Self {
        Rate { spacing: 1_000_000_000_u64.checked_div(requests.into()).unwrap_or(0), burst: nanos(BURST) }
    }

    /// So many requests in each minute, at once or not.
    pub(super) fn per_minute(requests: NonZeroU32) -> Self {
        let minute = nanos(Duration::from_secs(60));
        Rate { spacing: minute / u64::from(requests.get()), burst: minute }
    }
}

/// What is left of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateStatus {
    /// Requests that may come at once.
    pub(crate) quota: u64,
    /// The time in which they are granted again, in seconds.
    pub(crate) window: u64,
    /// Requests that may come now.
    pub(crate) remaining: u64,
    /// Seconds until the whole quota is there again.
    pub(crate) reset: u64,
}

/// Why a request is not admitted.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// When to try again.
    pub(crate) wait: Duration,
    pub(crate) status: Option<RateStatus>,
}

/// What one key uses now.
#[derive(Debug)]
struct Usage {
    rate: Rate,
    bytes: Arc<BytesInFlight>,
    reads: ReadCapacity,
    /// The nanosecond up to which the rate is used up.
    used_until: AtomicU64,
    /// Requests in flight.
    in_flight: AtomicUsize,
    /// The nanosecond at which a request was last refused; 0: none was.
    refused_at: AtomicU64,
}

/// The permit of a request in flight.
#[derive(Debug)]
#[must_use = "dropping the permit ends the request"]
pub(crate) struct Permit {
    usage: Arc<Usage>,
    status: Option<RateStatus>,
}

impl Permit {
    /// What is left of the key's rate; `None` if it has no limit.
    pub(crate) fn rate_status(&self) -> Option<RateStatus> {
        self.status
    }

    /// The bytes of the key in flight.
    pub(super) fn bytes(&self) -> &Arc<BytesInFlight> {
        &self.usage.bytes
    }

    /// What the key may read at the same time.
    pub(super) fn reads(&self) -> &ReadCapacity {
        &self.usage.reads
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.usage.in_flight.fetch_sub(1, Relaxed);
    }
}

impl KeyedQuota {
    pub(super) fn new(rate: Rate, concurrent: usize) -> Self {
        let (overrides, sweep_at) = (BTreeMap::new(), AtomicUsize::new(MIN_KEYS));
        let max_bytes_in_flight = usize::MAX;
        KeyedQuota {
            rate,
            overrides,
            concurrent,
            max_bytes_in_flight,
            started: Instant::now(),
            usage: DashMap::new(),
            sweep_at,
        }
    }

    /// The same with other rates for some keys.
    #[must_use]
    pub(super) fn with_overrides(mut self, overrides: BTreeMap<String, Rate>) -> Self {
        self.overrides = overrides;
        self
    }

    /// The same with a limit of bytes in flight for each key.
    #[must_use]
    pub(super) fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes_in_flight = bytes;
        self
    }

    /// A permit for a request of this key.
    pub(super) fn acquire(&self, key: &str) -> Result<Permit, Refusal> {
        self.acquire_at(key, self.started.elapsed())
    }

    /// How long a key has to wait for its next permit, if it has used up its rate.
    pub(super) fn exhausted(&self, key: &str) -> Option<Duration> {
        self.exhausted_at(key, self.started.elapsed())
    }

    fn exhausted_at(&self, key: &str, now: Duration) -> Option<Duration> {
        let now = nanos(now);
        let usage = self.usage.get(key)?;
        let next = usage.used_until.load(Relaxed).max(now).saturating_add(usage.rate.spacing);
        let full = now.saturating_add(usage.rate.burst);
        (next > full).then(|| Duration::from_nanos(next - full))
    }

    fn acquire_at(&self, key: &str, now: Duration) -> Result<Permit, Refusal> {
        let now = nanos(now);
        let usage = self.usage_of(key, now);
        if usage.in_flight.fetch_add(1, Relaxed) >= self.concurrent {
            usage.in_flight.fetch_sub(1, Relaxed);
            usage.refused_at.store(now.max(1), Relaxed);
            return Err(Refusal { wait: Duration::ZERO, status: None });
        }
        let rate = usage.rate;
        let mut permit = Permit { usage, status: None };
        let full = now.saturating_add(rate.burst);
        let next = |used: u64| used.max(now).saturating_add(rate.spacing);
        let within = |used: u64| Some(next(used)).filter(|next| *next <= full);
        match permit.usage.used_until.fetch_update(Relaxed, Relaxed, within) {
            Ok(used) => {
                permit.status = rate.status(next(used), now);
                Ok(permit)
            }
            Err(used) => {
                permit.usage.refused_at.store(now.max(1), Relaxed);
                Err(Refusal { wait: Duration::from_nanos(next(used) - full), status: rate.status(used, now) })
            }
        }
    }

    /// How many keys were refused a request in the last minute.
    pub(super) fn over_quota(&self) -> usize {
        self.over_quota_at(self.started.elapsed())
    }

    fn over_quota_at(&self, now: Duration) -> usize {
        let now = nanos(now);
        self.usage.iter().filter(|usage| usage.was_refused(now)).count()
    }

    fn usage_of(&self, key: &str, now: u64) -> Arc<Usage> {
        if let Some(usage) = self.usage.get(key) {
            return Arc::clone(&usage);
        }
        if self.usage.len() >= self.sweep_at.load(Relaxed) {
            self.remove_idle(now);
        }
        let rate = self.overrides.get(key).copied().unwrap_or(self.rate);
        Arc::clone(
            &self.usage.entry(key.to_owned()).or_insert_with(|| Arc::new(Usage::new(rate, self.max_bytes_in_flight))),
        )
    }

    /// Removes keys that use nothing. One that sends a request at this moment may get it for free, once.
    fn remove_idle(&self, now: u64) {
        let is_active = |usage: &Usage| usage.in_flight.load(Relaxed) > 0 || usage.used_until.load(Relaxed) > now;
        self.usage.retain(|_, usage| is_active(usage) || usage.was_refused(now));
        // Twice what is left: a sweep is amortized over as many new keys.
        self.sweep_at.store(self.usage.len().saturating_mul(2).max(MIN_KEYS), Relaxed);
    }
}

impl Rate {
    /// What is left when the rate is used up to this nanosecond.
    fn status(self, used_until: u64, now: u64) -> Option<RateStatus> {
        const SECOND: u64 = 1_000_000_000;
        let used = used_until.saturating_sub(now);
        Some(RateStatus {
            quota: self.burst.checked_div(self.spacing)?,
            window: self.burst.div_ceil(SECOND),
            remaining: self.burst.saturating_sub(used).checked_div(self.spacing)?,
            reset: used.div_ceil(SECOND),
        })
    }
}

impl Usage {
    fn new(rate: Rate, max_bytes_in_flight: usize) -> Self {
        Usage {
            rate,
            bytes: BytesInFlight::new(max_bytes_in_flight),
            reads: ReadCapacity::half_of(max_bytes_in_flight),
            used_until: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            refused_at: AtomicU64::new(0),
        }
    }

    fn was_refused(&self, now: u64) -> bool {
        let at = self.refused_at.load(Relaxed);
        at > 0 && now.saturating_sub(at) < nanos(OVER_QUOTA_PERIOD)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn quota(rate: u32, concurrent: usize) -> KeyedQuota {
        KeyedQuota::new(Rate::per_second(rate), concurrent)
    }

    /// How many of these requests at one instant are admitted.
    fn admitted(quota: &KeyedQuota, key: &str, now: Duration, requests: usize) -> usize {
        (0..requests).filter(|_| quota.acquire_at(key, now).is_ok()).count()
    }

    #[test]
    fn twice_the_rate_comes_at_once_and_then_the_rate() {
        let quota = quota(100, 10);
        assert_eq!(admitted(&quota, "a", SECOND, 1_000), 200);
        assert_eq!(admitted(&quota, "a", SECOND * 2, 1_000), 100);
        assert_eq!(admitted(&quota, "a", SECOND * 2 + SECOND / 2, 1_000), 50);
        assert_eq!(admitted(&quota, "a", SECOND * 60, 1_000), 200, "unused rate does not add up");
    }

    #[test]
    fn a_refused_tenant_is_admitted_after_the_announced_time() {
        let quota = quota(3, 10);
        assert_eq!(admitted(&quota, "a", SECOND, 100), 6);
        let wait = quota.acquire_at("a", SECOND).expect_err("the quota is used up").wait;
        let nanosecond = Duration::from_nanos(1);
        assert!(quota.acquire_at("a", SECOND + wait - nanosecond).is_err());
        assert_eq!(quota.exhausted_at("a", SECOND), Some(wait));
        assert_eq!(quota.exhausted_at("a", SECOND + wait - nanosecond), Some(nanosecond));
        assert_eq!(quota.exhausted_at("a", SECOND + wait), None);
        assert!(quota.acquire_at("a", SECOND + wait).is_ok());
    }

    #[test]
    fn a_flood_of_one_tenant_does_not_affect_another() {
        let quota = quota(100, 10);
        assert_eq!(admitted(&quota, "flood", SECOND, 100_000), 200);
        assert_eq!(admitted(&quota, "calm", SECOND, 200), 200);
    }

    #[test]
    fn a_refused_tenant_counts_as_over_quota_for_a_minute() {
        let quota = quota(100, 10);
        assert_eq!(admitted(&quota, "calm", SECOND, 200), 200);
        assert_eq!(quota.over_quota_at(SECOND), 0);
        admitted(&quota, "flood", SECOND, 1_000);
        admitted(&quota, "other", SECOND * 30, 201);
        assert_eq!(quota.over_quota_at(SECOND * 31), 2);
        assert_eq!(quota.over_quota_at(SECOND * 61 - Duration::from_nanos(1)), 2);
        assert_eq!(quota.over_quota_at(SECOND * 61), 1);
        assert_eq!(quota.over_quota_at(SECOND * 91), 0);
    }

    #[test]
    fn requests_in_flight_hold_their_permits() {
        let quota = quota(1_000, 2);
        let (first, _second) = (quota.acquire_at("a", SECOND), quota.acquire_at("a", SECOND));
        assert!(quota.acquire_at("a", SECOND).is_err());
        assert!(quota.acquire_at("b", SECOND).is_ok());
        drop(first);
        assert!(quota.acquire_at("a", SECOND).is_ok());
    }

    #[test]
    fn without_a_rate_only_concurrency_is_limited() {
        let quota = quota(0, 1);
        assert_eq!(admitted(&quota, "a", SECOND, 100_000), 100_000);
        assert_eq!(quota.acquire_at("a", SECOND).expect("a permit").rate_status(), None);
    }

    #[test]
    fn a_permit_tells_what_is_left_of_the_rate() {
        let quota = quota(100, 10);
        let left = |now| quota.acquire_at("a", now).expect("a permit").rate_status().expect("a rate");
        let expected = RateStatus { quota: 200, window: 2, remaining: 199, reset: 1 };
        assert_eq!(left(SECOND), expected);
        assert_eq!(admitted(&quota, "a", SECOND, 149), 149);
        assert_eq!(left(SECOND), RateStatus { remaining: 49, reset: 2, ..expected });
        admitted(&quota, "a", SECOND, 1_000);
        let refused = quota.acquire_at("a", SECOND).expect_err("nothing is left").status.expect("a rate");
        assert_eq!(refused.remaining, 0);
    }

    #[test]
    fn a_tenant_may_have_a_rate_of_its_own() {
        let overrides = BTreeMap::from([("large".to_owned(), Rate::per_second(1_000))]);
        let quota = quota(100, 10).with_overrides(overrides);
        assert_eq!(admitted(&quota, "large", SECOND, 5_000), 2_000);
        assert_eq!(admitted(&quota, "small", SECOND, 5_000), 200);
    }

    #[test]
    fn bytes_in_flight_are_limited_for_each_key() {
        let quota = quota(0, 10).with_max_bytes(100);
        let permit = |name| quota.acquire_at(name, SECOND).expect("a permit");
        let (first, second, other) = (permit("a"), permit("a"), permit("b"));
        let _answers = (first.bytes().count(90), other.bytes().count(90));
        assert!(second.bytes().reserve_none().grow(20).is_none());
        assert!(second.bytes().reserve_none().grow(10).is_some());
    }

    #[test]
    fn idle_tenants_are_removed() {
        let quota = quota(100, 10);
        let in_flight = quota.acquire_at("busy", SECOND);
        for at in 0..50_000_u32 {
            // A new tenant each millisecond, each idle again ten milliseconds later.
            let _ = quota.acquire_at(&at.to_string(), SECOND + Duration::from_millis(at.into()));
        }
        assert!(quota.usage.len() <= MIN_KEYS + 1, "{} are kept", quota.usage.len());
        assert!(quota.usage.contains_key("busy"), "a tenant with a request in flight is kept");
        drop(in_flight);
    }

    #[test]
    fn idle_tenants_are_looked_for_again_when_there_are_twice_as_many() {
        let quota = quota(100, 10);
        let in_flight: Vec<_> = (0..3_000).map(|at| quota.acquire_at(&at.to_string(), SECOND)).collect();
        assert_eq!((in_flight.len(), quota.sweep_at.load(Relaxed)), (3_000, 4 * MIN_KEYS));
    }
}
