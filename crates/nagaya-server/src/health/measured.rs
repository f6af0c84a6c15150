//! What systems measure about themselves, for metrics.

use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use nagaya_store::Measurement;
use nagaya_tenancy::Nagaya;
use tokio::{sync::Mutex, time::Instant};

use super::Health;
use crate::{Extension, System, observe::TARGET};

/// How long an answer holds: a system may have to ask its store for it.
const HOLDS: Duration = Duration::from_secs(5);
/// How long a system may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a system measures about itself.
pub(super) struct Own {
    system: String,
    extension: Arc<dyn Extension>,
    nagaya: Nagaya,
    /// When it was asked, and what it said.
    said: Mutex<Option<(Instant, Vec<Measurement>)>>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Own({})", self.system)
    }
}

impl Own {
    pub(super) fn new(system: &System, nagaya: &Nagaya) -> Self {
        let (extension, nagaya) = (Arc::clone(&system.extension), nagaya.clone());
        Own { system: system.name.clone(), extension, nagaya, said: Mutex::new(None) }
    }

    async fn measurements(&self) -> Vec<Measurement> {
        let mut said = self.said.lock().await;
        let (at, before) = said.take().unzip();
        let before = before.unwrap_or_default();
        if let Some(at) = at.filter(|at| at.elapsed() < HOLDS) {
            *said = Some((at, before.clone()));
            return before;
        }
        let now = match tokio::time::timeout(PATIENCE, self.extension.measurements(&self.nagaya)).await {
            Ok(measured) => measured.into_iter().map(|each| each.label("system", self.system.as_str())).collect(),
            // What is old is better than nothing, and the store that does not answer is told of elsewhere.
            Err(_elapsed) => {
                tracing::warn!(target: TARGET, system = self.system, "the system does not say in time how it is doing");
                before
            }
        };
        *said = Some((Instant::now(), now.clone()));
        now
    }
}

impl Health {
    /// What all systems measure about themselves, and what their tenants take of the limits.
    pub(crate) async fn measurements(&self) -> Vec<Measurement> {
        let systems: Vec<_> = {
            let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
            systems.iter().map(|each| (each.system.clone(), Arc::clone(&each.own), each.limits.over_quota())).collect()
        };
        let mut measured: Vec<Measurement> = Vec::new();
        for (system, own, over_quota) in systems {
            // The same system may be served at two places.
            if measured.iter().any(|each| each.labels.iter().any(|(name, value)| *name == "system" && *value == system))
            {
                continue;
            }
            let help = "Tenants that were refused a request in the last minute, because they sent too many";
            let over_quota = Measurement::gauge("tenants_over_quota", help, over_quota as f64);
            measured.push(over_quota.label("system", system));
            measured.extend(own.measurements().await);
        }
        measured
    }
}
