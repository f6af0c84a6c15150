//! The status of a tenant: whether it is enabled, and its policy. Every request needs it, so it is cached.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use nagaya_design::{Design, Reach, Verb};
use nagaya_server::{Call, Problem};
use nagaya_store::Value;
use nagaya_tenancy::Record;

use crate::policy::Policy;

/// How long an entry is used. Changes by this server are visible at once, changes by others after this time.
const CACHE_TTL: Duration = Duration::from_secs(5);
/// The most tenants in the cache. Before another one is added, it is emptied: entries are used for seconds only.
const MAX_TENANTS: usize = 10_000;

/// The status of a tenant.
#[derive(Debug)]
pub(crate) struct TenantStatus {
    enabled: bool,
    policy: Option<Policy>,
}

impl TenantStatus {
    /// Refuses what the tenant is disabled for, or its policy does not allow these roles; says on which items it does.
    pub(crate) fn authorize(
        &self,
        design: &Design,
        roles: &[String],
        entity: &str,
        verb: Verb,
    ) -> Result<Reach, Problem> {
        // A disabled tenant can still read its own item.
        if !self.enabled && (entity, verb) != ("tenant", Verb::Read) {
            let detail = "The tenant is disabled; its operators know why.";
            return Err(Problem::new(StatusCode::FORBIDDEN, "tenant_disabled", detail));
        }
        // The server has checked the roles of the design.
        let Some(policy) = &self.policy else { return Ok(Reach::All) };
        let detail = || format!("The tenant's permission policy does not allow `{entity}.{verb}`.");
        policy.reach(design, roles, entity, verb).ok_or_else(|| Problem::forbidden(detail()))
    }
}

/// Whether a tenant with this item is enabled. One without an item was not created through this API, and is enabled.
pub(crate) fn is_enabled(tenant_item: Option<&Record>) -> bool {
    !tenant_item.is_some_and(|item| item.get("enabled") == Some(&Value::Boolean(false)))
}

/// The status of tenants, cached.
#[derive(Debug, Default)]
pub(crate) struct TenantStatusCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// The statuses, each with the time until when it is used.
    by_tenant: HashMap<Arc<str>, (Instant, Arc<TenantStatus>)>,
    /// How often an entry was removed: a read that started before a removal is not cached.
    invalidations: u64,
}

impl TenantStatusCache {
    /// The status of the caller's tenant.
    pub(crate) async fn get(&self, call: &Call) -> Result<Arc<TenantStatus>, Problem> {
        let handle = call.tenant()?;
        let tenant = &handle.principal().tenant;
        let invalidations = {
            let entries = self.entries();
            if let Some(status) = entries.get(tenant, Instant::now()) {
                return Ok(status);
            }
            entries.invalidations
        };
        let mut found = handle.get_many(&[("tenant", &[]), ("permission_policy", &[])]).await?.into_iter();
        let (item, policy) = (found.next().flatten(), found.next().flatten());
        let (enabled, policy) = (is_enabled(item.as_ref()), policy.as_ref().map(Policy::from_record));
        let status = Arc::new(TenantStatus { enabled, policy });
        let mut entries = self.entries();
        if entries.invalidations == invalidations {
            entries.insert(tenant, &status, Instant::now());
        }
        Ok(status)
    }

    /// Removes a tenant from the cache: the next request reads its status again.
    pub(crate) fn invalidate(&self, tenant: &str) {
        let mut entries = self.entries();
        entries.invalidations += 1;
        entries.by_tenant.remove(tenant);
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn get(&self, tenant: &str, now: Instant) -> Option<Arc<TenantStatus>> {
        let (until, status) = self.by_tenant.get(tenant)?;
        (now < *until).then(|| Arc::clone(status))
    }

    fn insert(&mut self, tenant: &Arc<str>, status: &Arc<TenantStatus>, now: Instant) {
        if self.by_tenant.len() >= MAX_TENANTS {
            self.by_tenant.clear();
        }
        self.by_tenant.insert(Arc::clone(tenant), (now + CACHE_TTL, Arc::clone(status)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_used_for_five_seconds() {
        let (mut entries, now) = (Entries::default(), Instant::now());
        let enabled = Arc::new(TenantStatus { enabled: true, policy: None });
        entries.insert(&"t1".into(), &enabled, now);
        let is_used = |tenant: &str, millis: u64| entries.get(tenant, now + Duration::from_millis(millis)).is_some();
        assert_eq!([0, 4_999, 5_000, 5_001].map(|millis| is_used("t1", millis)), [true, true, false, false]);
        assert!(!is_used("t2", 0));
    }

    #[test]
    fn the_cache_has_at_most_ten_thousand_tenants() {
        let (mut entries, now) = (Entries::default(), Instant::now());
        let enabled = Arc::new(TenantStatus { enabled: true, policy: None });
        let mut size_with = |nth: usize| {
            entries.insert(&format!("t{nth}").into(), &enabled, now);
            entries.by_tenant.len()
        };
        assert!((1..=10_000).all(|nth| size_with(nth) == nth));
        assert_eq!(size_with(10_001), 1);
    }
}
