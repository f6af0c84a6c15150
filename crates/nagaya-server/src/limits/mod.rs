//! Limits of requests: size, time, concurrency, and the quota of each tenant.

mod open_files;
mod quota;

use std::{num::NonZeroU32, time::Duration};

pub use self::open_files::{open_files_limit, raise_open_files_limit};
use self::quota::{Permit, TenantQuota};
use crate::{Problem, ProblemCode, identity::Caller};

/// Limits that all systems of a server share.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of a head: its first line and all headers.
    pub head_bytes: usize,
    /// Time of a request, the reading of its body included.
    pub time: Duration,
    /// Requests at the same time; further ones are answered 503.
    pub concurrent: usize,
    /// Connections at the same time; further ones wait to be accepted.
    pub connections: usize,
    /// How long a connection may be without a request, or take to send the head of one.
    ///
    /// One limit for both, because both occupy a connection. It has to be longer than the idle time of a load balancer, which
    /// is about 60 seconds: the load balancer has to be the one that closes.
    pub idle: Duration,
    /// Requests of a tenant per second; twice as many may come at once. `None`: no limit.
    pub tenant_rate: Option<NonZeroU32>,
    /// Requests of a tenant at the same time: below `concurrent`, so that slow requests of one tenant do not block others.
    pub tenant_concurrent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: 1024 * 1024,
            head_bytes: 32 * 1024,
            time: Duration::from_secs(30),
            concurrent: 1_024,
            connections: 10_000,
            idle: Duration::from_secs(75),
            tenant_rate: NonZeroU32::new(10_000),
            tenant_concurrent: 768,
        }
    }
}

impl Limits {
    /// The same with no more connections than this many open files allow, after those that the store and the rest of the
    /// process need.
    #[must_use]
    pub fn within_open_files(mut self, limit: u64) -> Self {
        self.connections = self.connections.min(open_files::for_connections(limit));
        self
    }
}

/// The limits of a system, and what its callers use of them.
#[derive(Debug)]
pub(crate) struct SystemLimits {
    body_bytes: usize,
    tenants: TenantQuota,
    /// Users whose token names no tenant.
    users: TenantQuota,
    /// Visitors without a token, by their addresses.
    visitors: TenantQuota,
}

impl SystemLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let quota = || TenantQuota::new(limits.tenant_rate, limits.tenant_concurrent);
        SystemLimits { body_bytes: limits.body_bytes, tenants: quota(), users: quota(), visitors: quota() }
    }

    /// How many tenants, and users without a tenant, were refused a request in the last minute.
    pub(crate) fn over_quota(&self) -> usize {
        self.tenants.over_quota() + self.users.over_quota()
    }

    /// Bytes of a body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// A permit for a request, if the caller's tenant is within its quota. Dropping it ends the request.
    pub(crate) fn admit(&self, caller: &Caller, address: Option<&str>) -> Result<Permit, Problem> {
        let permit = match &caller.tenant {
            Some(tenant) => self.tenants.acquire(tenant),
            None if caller.is_visitor() => self.visitors.acquire(address.unwrap_or_default()),
            None => self.users.acquire(&caller.identity()),
        };
        permit.map_err(|wait| {
            let detail = "The caller sends more requests than it may. `Retry-After` says when to go on.";
            // Rounded up: after this time a request is admitted.
            let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1);
            Problem::from_code(ProblemCode::RATE_LIMITED, detail).retry_after(seconds)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(tenant: Option<&str>, user: &str) -> Caller {
        Caller { issuer: "local".into(), tenant: tenant.map(Into::into), ..Caller::of_user(user) }
    }

    #[test]
    fn the_same_user_id_of_another_issuer_is_another_user() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let limits = SystemLimits::new(&limits);
        let _local = limits.admit(&caller(None, "ann"), None).expect("a permit");
        let remote = Caller { issuer: "https://login.example.com".into(), ..caller(None, "ann") };
        let _remote = limits.admit(&remote, None).expect("another person's permit");
        assert!(limits.admit(&remote, None).is_err());
    }

    #[test]
    fn a_caller_without_a_tenant_counts_as_a_user_and_never_as_a_tenant_of_that_name() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let limits = SystemLimits::new(&limits);
        let _tenant = limits.admit(&caller(Some("ann"), "bob"), None).expect("the tenant's permit");
        let _user = limits.admit(&caller(None, "ann"), None).expect("the user's permit");
        let _other = limits.admit(&caller(None, "bob"), None).expect("another user's permit");
        let refused = limits.admit(&caller(None, "ann"), None).expect_err("the user has one permit");
        assert_eq!((refused.status().as_u16(), refused.code()), (429, "rate_limited"));
    }

    #[test]
    fn visitors_count_by_their_addresses() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let limits = SystemLimits::new(&limits);
        let visitor = Caller::visitor();
        let _first = limits.admit(&visitor, Some("192.0.2.1")).expect("a permit");
        let _other = limits.admit(&visitor, Some("192.0.2.2")).expect("another's permit");
        assert!(limits.admit(&visitor, Some("192.0.2.1")).is_err());
    }
}
