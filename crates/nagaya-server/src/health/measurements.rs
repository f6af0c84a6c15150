//! The measurements of systems, for `/metrics`.

use std::{fmt, sync::Arc, time::Duration};

use nagaya_store::Measurement;
use nagaya_tenancy::Nagaya;
use tokio::{sync::Mutex, time::Instant};

use super::Health;
use crate::{Extension, System, observe::TARGET, server::Consumers};

/// How long measurements are reused: a system may have to call its store for them.
const CACHE_TIME: Duration = Duration::from_secs(5);
/// How long a system may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The measurements of a system.
pub(super) struct SystemMeasurements {
    system: String,
    extension: Arc<dyn Extension>,
    nagaya: Nagaya,
    consumers: Consumers,
    /// The last measurements, and when they were taken.
    last: Mutex<Option<(Instant, Vec<Measurement>)>>,
}

impl fmt::Debug for SystemMeasurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SystemMeasurements({})", self.system)
    }
}

impl SystemMeasurements {
    pub(super) fn new(system: &System, nagaya: &Nagaya, consumers: &Consumers) -> Self {
        let (extension, nagaya, consumers) = (Arc::clone(&system.extension), nagaya.clone(), Arc::clone(consumers));
        SystemMeasurements { system: system.name.clone(), extension, nagaya, consumers, last: Mutex::new(None) }
    }

    async fn get(&self) -> Vec<Measurement> {
        let mut last = self.last.lock().await;
        let (at, before) = last.take().unzip();
        let before = before.unwrap_or_default();
        if let Some(at) = at.filter(|at| at.elapsed() < CACHE_TIME) {
            *last = Some((at, before.clone()));
            return before;
        }
        let now = match tokio::time::timeout(TIMEOUT, self.measure()).await {
            Ok(measured) => measured.into_iter().map(|each| each.label("system", self.system.as_str())).collect(),
            // Old measurements are better than none; a store that does not answer is reported elsewhere.
            Err(_elapsed) => {
                tracing::warn!(target: TARGET, system = self.system, "the system did not report its measurements in time");
                before
            }
        };
        *last = Some((Instant::now(), now.clone()));
        now
    }

    async fn measure(&self) -> Vec<Measurement> {
        let mut measured = self.extension.measurements(&self.nagaya).await;
        for consumer in &*self.consumers {
            measured.extend(consumer.measurements(self.nagaya.clock().millis()).await);
        }
        measured
    }
}

impl Health {
    /// The measurements of all systems, whose tokens they accept, how many of their tenants are over quota, and how many
    /// revocations they know.
    pub(crate) async fn measurements(&self) -> Vec<Measurement> {
        let systems = self.each_system(|each| {
            let (over_quota, verifier) = (each.limits.over_quota(), Arc::clone(&each.verifier));
            (each.system.clone(), Arc::clone(&each.measurements), over_quota, verifier)
        });
        let mut measured: Vec<Measurement> = Vec::new();
        for (system, measurements, over_quota, verifier) in systems {
            // The same system may be mounted at two paths.
            if measured.iter().any(|each| each.labels.iter().any(|(name, value)| *name == "system" && *value == system))
            {
                continue;
            }
            let help = "Tenants that were refused a request in the last minute, because they sent too many";
            let over_quota = Measurement::gauge("tenants_over_quota", help, over_quota as f64);
            measured.push(over_quota.label("system", system.as_str()));
            let help = "Revocations of tokens that are in force";
            let revocations = Measurement::gauge("token_revocations", help, verifier.revocation_count() as f64);
            measured.push(revocations.label("system", system.as_str()));
            for (issuer, audience) in verifier.trusted_audiences() {
                let help = "1 for each issuer and audience whose tokens the system accepts";
                let trusted = Measurement::gauge("trusted_audience", help, 1.0).label("system", system.as_str());
                measured.push(trusted.label("issuer", issuer).label("audience", audience));
            }
            measured.extend(measurements.get().await);
        }
        measured
    }
}
