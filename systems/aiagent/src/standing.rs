//! Where a tenant stands: whether it is enabled, and what its policy says. Every request asks, so it is kept for a while.

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

/// How long it is trusted. What this server changes is known at once; what another one changes, after so long.
const TRUSTED: Duration = Duration::from_secs(5);
/// Tenants that are remembered at most.
const REMEMBERED: usize = 10_000;

/// Where a tenant stands.
#[derive(Debug)]
pub(crate) struct Standing {
    enabled: bool,
    policy: Option<Policy>,
}

impl Standing {
    /// Refuses what the tenant as a whole, or these roles in it, may not do.
    pub(crate) fn admits(&self, design: &Design, roles: &[String], entity: &str, verb: Verb) -> Result<(), Problem> {
        // A disabled tenant still sees that it is.
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

/// Where tenants stand, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Standings(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    standings: HashMap<Arc<str>, (Instant, Arc<Standing>)>,
    /// How often something was forgotten: what was read before that is not kept.
    forgotten: u64,
}

impl Standings {
    /// Where the caller's tenant stands.
    pub(crate) async fn of(&self, call: &Call) -> Result<Arc<Standing>, Problem> {
        let handle = call.tenant()?;
        let tenant = &handle.principal().tenant;
        let forgotten = {
            let known = self.known();
            match known.standings.get(tenant) {
                Some((since, standing)) if since.elapsed() < TRUSTED => return Ok(Arc::clone(standing)),
                _ => known.forgotten,
            }
        };
        let mut found = handle.get_many(&[("tenant", &[]), ("permission_policy", &[])]).await?.into_iter();
        let (item, policy) = (found.next().flatten(), found.next().flatten());
        // A tenant without an item has been made elsewhere, and nobody has disabled it.
        let disabled = item.is_some_and(|item| item.get("enabled") == Some(&Value::Boolean(false)));
        let standing = Arc::new(Standing { enabled: !disabled, policy: policy.as_ref().map(Policy::of) });
        let mut known = self.known();
        if known.forgotten == forgotten {
            known.make_room();
            known.standings.insert(Arc::clone(tenant), (Instant::now(), Arc::clone(&standing)));
        }
        Ok(standing)
    }

    /// The next request finds out again.
    pub(crate) fn forget(&self, tenant: &str) {
        let mut known = self.known();
        known.forgotten += 1;
        known.standings.remove(tenant);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn make_room(&mut self) {
        if self.standings.len() >= REMEMBERED {
            self.standings.retain(|_, (since, _)| since.elapsed() < TRUSTED);
        }
        if self.standings.len() >= REMEMBERED {
            self.standings.clear();
        }
    }
}
