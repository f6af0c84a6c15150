//! The quota of each tenant: requests per second, and requests at the same time.
//!
//! The rate is limited by the generic cell rate algorithm, which needs one number per tenant. The crate `governor` brings
//! timers, futures and a clock of its own for it, and does not count requests in flight; hence this one.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use dashmap::DashMap;

/// The burst: as many requests at once as the rate allows in this time.
const BURST: Duration = Duration::from_secs(2);
/// How long a refused tenant counts as over its quota.
const OVER_QUOTA_PERIOD: Duration = Duration::from_secs(60);
/// Below this many tenants, idle ones are not removed.
const MIN_TENANTS: usize = 1_024;

/// The quota that each tenant has, and what all tenants use of it now.
#[derive(Debug)]
pub(super) struct TenantQuota {
    /// Nanoseconds between two requests at the full rate; 0: no limit.
    spacing: u64,
    concurrent: usize,
    started: Instant,
    usage: DashMap<String, Arc<Usage>>,
    /// With this many tenants, idle ones are removed.
    sweep_at: AtomicUsize,
}

/// What one tenant uses now.
#[derive(Debug, Default)]
struct Usage {
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
pub(crate) struct Permit(Arc<Usage>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

impl TenantQuota {
    pub(super) fn new(rate: Option<NonZeroU32>, concurrent: usize) -> Self {
        let spacing = rate.map_or(0, |rate| 1_000_000_000 / u64::from(rate.get()));
        let sweep_at = AtomicUsize::new(MIN_TENANTS);
        TenantQuota { spacing, concurrent, started: Instant::now(), usage: DashMap::new(), sweep_at }
    }

    /// A permit for a request of this tenant, or how long to wait for one.
    pub(super) fn acquire(&self, name: &str) -> Result<Permit, Duration> {
        self.acquire_at(name, self.started.elapsed())
    }

    fn acquire_at(&self, name: &str, now: Duration) -> Result<Permit, Duration> {
        let now = nanos(now);
        let usage = self.usage_of(name, now);
        if usage.in_flight.fetch_add(1, Relaxed) >= self.concurrent {
            usage.in_flight.fetch_sub(1, Relaxed);
            usage.refused_at.store(now.max(1), Relaxed);
            return Err(Duration::ZERO);
        }
        let permit = Permit(usage);
        let full = now.saturating_add(nanos(BURST));
        let next = |used: u64| used.max(now).saturating_add(self.spacing);
        let within = |used: u64| Some(next(used)).filter(|next| *next <= full);
        match permit.0.used_until.fetch_update(Relaxed, Relaxed, within) {
            Ok(_) => Ok(permit),
            Err(used) => {
                permit.0.refused_at.store(now.max(1), Relaxed);
                Err(Duration::from_nanos(next(used) - full))
            }
        }
    }

    /// How many tenants were refused a request in the last minute.
    pub(super) fn over_quota(&self) -> usize {
        self.over_quota_at(self.started.elapsed())
    }

    fn over_quota_at(&self, now: Duration) -> usize {
        let now = nanos(now);
        self.usage.iter().filter(|usage| usage.was_refused(now)).count()
    }

    fn usage_of(&self, name: &str, now: u64) -> Arc<Usage> {
        if let Some(usage) = self.usage.get(name) {
            return Arc::clone(&usage);
        }
        if self.usage.len() >= self.sweep_at.load(Relaxed) {
            self.remove_idle(now);
        }
        Arc::clone(&self.usage.entry(name.to_owned()).or_default())
    }

    /// Removes tenants that use nothing. One that sends a request at this moment may get it for free, once.
    fn remove_idle(&self, now: u64) {
        let is_active = |usage: &Usage| usage.in_flight.load(Relaxed) > 0 || usage.used_until.load(Relaxed) > now;
        self.usage.retain(|_, usage| is_active(usage) || usage.was_refused(now));
        // Twice what is left: a sweep is amortized over as many new tenants.
        self.sweep_at.store(self.usage.len().saturating_mul(2).max(MIN_TENANTS), Relaxed);
    }
}

impl Usage {
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

    fn quota(rate: u32, concurrent: usize) -> TenantQuota {
        TenantQuota::new(NonZeroU32::new(rate), concurrent)
    }

    /// How many of these requests at one instant are admitted.
    fn admitted(quota: &TenantQuota, name: &str, now: Duration, requests: usize) -> usize {
        (0..requests).filter(|_| quota.acquire_at(name, now).is_ok()).count()
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
        let wait = quota.acquire_at("a", SECOND).expect_err("the quota is used up");
        assert!(quota.acquire_at("a", SECOND + wait - Duration::from_nanos(1)).is_err());
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
        assert_eq!(quota.over_quota_at(SECOND * 62), 1);
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
        let quota = TenantQuota::new(None, 1);
        assert_eq!(admitted(&quota, "a", SECOND, 100_000), 100_000);
    }

    #[test]
    fn idle_tenants_are_removed() {
        let quota = quota(100, 10);
        let in_flight = quota.acquire_at("busy", SECOND);
        for at in 0..50_000_u32 {
            // A new tenant each millisecond, each idle again ten milliseconds later.
            let _ = quota.acquire_at(&at.to_string(), SECOND + Duration::from_millis(at.into()));
        }
        assert!(quota.usage.len() <= MIN_TENANTS + 1, "{} are kept", quota.usage.len());
        assert!(quota.usage.contains_key("busy"), "a tenant with a request in flight is kept");
        drop(in_flight);
    }
}
