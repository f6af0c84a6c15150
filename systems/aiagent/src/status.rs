//! The status of a tenant: whether it is enabled, and its policy. Every request needs it, so it is cached.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use nagaya_design::{Design, Verb};
use nagaya_server::{Call, Problem};
use nagaya_store::Value;

use crate::policy::Policy;

/// How long a cached status is valid. Changes by this server are seen at once, those by another one after so long.
const TRUSTED: Duration = Duration::from_secs(5);
/// The largest number of cached tenants.
const REMEMBERED: usize = 10_000;

/// The status of a tenant.
#[derive(Debug)]
pub(crate) struct TenantStatus {
    enabled: bool,
    policy: Option<Policy>,
}

impl TenantStatus {
    /// Refuses what the tenant, or these roles in it, may not do.
    pub(crate) fn authorize(&self, design: &Design, roles: &[String], entity: &str, verb: Verb) -> Result<(), Problem> {
        // A disabled tenant can still read its own item.
        if !self.enabled && (entity, verb) != ("tenant", Verb::Read) {
            let detail = "The tenant is disabled; its operators know why.";
            return Err(Problem::new(StatusCode::FORBIDDEN, "tenant_disabled", detail));
        }
        match &self.policy {
            Some(policy) if !policy.permits(design, roles, entity, verb) => {
                let detail = format!("The tenant's permission policy does not allow `{entity}.{verb}`.");
                Err(Problem::forbidden(detail))
            }
            _ => Ok(()),
        }
    }
}

/// A cache of the status of tenants.
#[derive(Debug, Default)]
pub(crate) struct TenantStatusCache(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    statuses: HashMap<Arc<str>, (Instant, Arc<TenantStatus>)>,
    /// The number of invalidations: a status that was read before one is not cached.
    forgotten: u64,
}

impl TenantStatusCache {
    /// The status of the caller's tenant.
    pub(crate) async fn of(&self, call: &Call) -> Result<Arc<TenantStatus>, Problem> {
        let handle = call.tenant()?;
        let tenant = &handle.principal().tenant;
        let forgotten = {
            let known = self.known();
            match known.statuses.get(tenant) {
                Some((since, status)) if since.elapsed() < TRUSTED => return Ok(Arc::clone(status)),
                _ => known.forgotten,
            }
        };
        let mut found = handle.get_many(&[("tenant", &[]), ("permission_policy", &[])]).await?.into_iter();
        let (item, policy) = (found.next().flatten(), found.next().flatten());
        // A tenant without an item was created elsewhere, and is enabled.
        let disabled = item.is_some_and(|item| item.get("enabled") == Some(&Value::Boolean(false)));
        let status = Arc::new(TenantStatus { enabled: !disabled, policy: policy.as_ref().map(Policy::of) });
        let mut known = self.known();
        if known.forgotten == forgotten {
            known.evict();
            known.statuses.insert(Arc::clone(tenant), (Instant::now(), Arc::clone(&status)));
        }
        Ok(status)
    }

    /// Drops the cached status of a tenant.
    pub(crate) fn forget(&self, tenant: &str) {
        let mut known = self.known();
        known.forgotten += 1;
        known.statuses.remove(tenant);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn evict(&mut self) {
        if self.statuses.len() >= REMEMBERED {
            self.statuses.retain(|_, (since, _)| since.elapsed() < TRUSTED);
        }
        if self.statuses.len() >= REMEMBERED {
            self.statuses.clear();
        }
    }
}
