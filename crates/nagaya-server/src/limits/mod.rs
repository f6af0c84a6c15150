//! What a request may cost: sizes, times, how many at once, and how many of one tenant.

mod handles;
mod shares;

use std::{num::NonZeroU32, time::Duration};

use axum::http::StatusCode;

pub use self::handles::{file_handles, raise_file_handles};
use self::shares::{Place, Shares};
use crate::{Problem, identity::Caller};

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
    /// One limit for both, because both hold the same up: a connection. A load balancer keeps its own connections for 60
    /// seconds or so, and has to be the one that closes them: hence more.
    pub idle: Duration,
    /// Requests of a tenant in a second; twice as many may come at once. `None`: as many as come.
    pub tenant_rate: Option<NonZeroU32>,
    /// Requests of a tenant at the same time: fewer than all, so that a tenant whose requests take long leaves room.
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
    /// The same with no more connections than a process that may have so many file handles can hold, after what the store
    /// and the rest of the process need.
    #[must_use]
    pub fn within_file_handles(mut self, handles: u64) -> Self {
        self.connections = self.connections.min(handles::for_connections(handles));
        self
    }
}

/// The limits of a system, and what its tenants take of them.
#[derive(Debug)]
pub(crate) struct Enforced {
    body_bytes: usize,
    tenants: Shares,
    /// Those whose token names no tenant.
    users: Shares,
    /// Those without a token, by their addresses.
    visitors: Shares,
}

impl Enforced {
    pub(crate) fn new(limits: &Limits) -> Self {
        let shares = || Shares::new(limits.tenant_rate, limits.tenant_concurrent);
        Enforced { body_bytes: limits.body_bytes, tenants: shares(), users: shares(), visitors: shares() }
    }

    /// How many tenants, and users without one, were refused something in the last minute.
    pub(crate) fn over_quota(&self) -> usize {
        self.tenants.over_quota() + self.users.over_quota()
    }

    /// Bytes of a body.
    pub(crate) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// A place for a request, if the caller's tenant is within its share. It is given back when it is dropped.
    pub(crate) fn admit(&self, caller: &Caller, address: Option<&str>) -> Result<Place, Problem> {
        let taken = match &caller.tenant {
            Some(tenant) => self.tenants.take(tenant),
            None if caller.is_visitor() => self.visitors.take(address.unwrap_or_default()),
            None => self.users.take(&caller.user),
        };
        taken.map_err(|wait| {
            let detail = "The caller sends more requests than it may. `Retry-After` says when to go on.";
            // Rounded up: after this time there is room.
            let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1);
            Problem::new(StatusCode::TOO_MANY_REQUESTS, RATE_LIMITED, detail).retry_after(seconds)
        })
    }
}

/// The code of a request that is one too many for its tenant.
pub(crate) const RATE_LIMITED: &str = "rate_limited";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn caller(tenant: Option<&str>, user: &str) -> Caller {
        Caller { user: user.into(), tenant: tenant.map(Into::into), roles: Arc::default(), expires: 0 }
    }

    #[test]
    fn a_caller_without_a_tenant_counts_as_a_user_and_never_as_a_tenant_of_that_name() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let enforced = Enforced::new(&limits);
        let _tenant = enforced.admit(&caller(Some("ann"), "bob"), None).expect("the tenant's place");
        let _user = enforced.admit(&caller(None, "ann"), None).expect("the user's place");
        let _other = enforced.admit(&caller(None, "bob"), None).expect("another user's place");
        let refused = enforced.admit(&caller(None, "ann"), None).expect_err("the user has one place");
        assert_eq!((refused.status().as_u16(), refused.code()), (429, RATE_LIMITED));
    }

    #[test]
    fn visitors_count_by_their_addresses() {
        let limits = Limits { tenant_concurrent: 1, ..Limits::default() };
        let enforced = Enforced::new(&limits);
        let visitor = Caller::visitor();
        let _first = enforced.admit(&visitor, Some("192.0.2.1")).expect("a place");
        let _other = enforced.admit(&visitor, Some("192.0.2.2")).expect("another's place");
        assert!(enforced.admit(&visitor, Some("192.0.2.1")).is_err());
    }
}
