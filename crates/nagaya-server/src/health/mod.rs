//! Health: whether the process is alive, and whether it is ready for requests.

mod measurements;
mod stores;

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use nagaya_store::Health as StoreHealth;
use nagaya_tenancy::Nagaya;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    Problem, ProblemCode, System,
    identity::Verifier,
    limits::SystemLimits,
    observe::{SystemCounters, TARGET},
    server::Consumers,
};

/// How long a store may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a result is reused: anybody may call `/readyz`, and a call to a store may cost money.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// The health of the systems of a server.
#[derive(Debug, Default)]
pub(crate) struct Health {
    stopping: AtomicBool,
    systems: RwLock<Vec<MonitoredSystem>>,
    /// When the stores were probed, and the system whose store did not answer.
    probed: Mutex<Option<(Instant, Option<String>)>>,
}

/// A system that is served.
#[derive(Debug)]
struct MonitoredSystem {
    mount: Arc<str>,
    system: String,
    nagaya: Nagaya,
    verifier: Arc<Verifier>,
    limits: Arc<SystemLimits>,
    measurements: Arc<measurements::SystemMeasurements>,
    /// Breaches of the systems that were mounted here before.
    earlier_breaches: u64,
}

impl Health {
    /// Monitors the system that is mounted at a path, in place of the one before.
    pub(crate) fn monitor(
        &self,
        mount: &Arc<str>,
        system: &System,
        nagaya: &Nagaya,
        (verifier, limits, consumers): (&Arc<Verifier>, &Arc<SystemLimits>, &Consumers),
    ) {
        let mut systems = self.systems.write().unwrap_or_else(PoisonError::into_inner);
        let former = systems.iter().position(|each| each.mount == *mount).map(|at| systems.swap_remove(at));
        let earlier_breaches = former.map_or(0, |former| former.breaches());
        let measurements = Arc::new(measurements::SystemMeasurements::new(system, nagaya, consumers));
        let (mount, system, verifier) = (Arc::clone(mount), system.name.clone(), Arc::clone(verifier));
        systems.push(MonitoredSystem {
            mount,
            system,
            nagaya: nagaya.clone(),
            verifier,
            limits: Arc::clone(limits),
            measurements,
            earlier_breaches,
        });
    }

    /// Makes `/readyz` fail: no more requests should come.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// The counters of each system.
    pub(crate) fn counters(&self) -> Vec<SystemCounters> {
        let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<SystemCounters> = Vec::new();
        for each in &*systems {
            let (breaches, tokens) = (each.breaches(), each.verifier.uncached_tokens());
            // The same system may be mounted at two paths.
            match found.iter_mut().find(|counters| counters.system == each.system) {
                Some(counters) => {
                    counters.breaches += breaches;
                    counters.tokens_checked += tokens;
                }
                None => found.push(SystemCounters { system: each.system.clone(), breaches, tokens_checked: tokens }),
            }
        }
        found
    }

    /// `/healthz`: the process answers.
    pub(crate) fn alive(&self) -> Response {
        json_response(r#"{"status":"ok"}"#)
    }

    /// `/readyz`: the stores answer, and the server is not stopping.
    pub(crate) async fn ready(&self) -> Result<Response, Problem> {
        let unready = |code, detail: String| Problem::from_code(code, detail).retry_after(1);
        if self.stopping.load(Ordering::Acquire) {
            return Err(unready(ProblemCode::STOPPING, "The server is stopping.".to_owned()));
        }
        // The reason is only in the log: anybody may call this.
        if let Some((system, _)) = self.unavailable() {
            return Err(unready(ProblemCode::NOT_READY, format!("The store of `{system}` is not available.")));
        }
        match self.unresponsive_system().await {
            Some(system) => Err(unready(ProblemCode::NOT_READY, format!("The store of `{system}` does not answer."))),
            None => Ok(json_response(r#"{"status":"ready"}"#)),
        }
    }

    /// The health that the store of each system reports.
    fn stores(&self) -> Vec<(String, StoreHealth)> {
        self.each_system(|each| (each.system.clone(), each.nagaya.store_health()))
    }

    /// Something of each system. Nothing is locked while a store is called.
    fn each_system<T>(&self, of: impl FnMut(&MonitoredSystem) -> T) -> Vec<T> {
        self.systems.read().unwrap_or_else(PoisonError::into_inner).iter().map(of).collect()
    }

    /// Waits until the server is ready.
    pub(crate) async fn wait_until_ready(&self) {
        while self.unavailable().is_some() || self.probe_stores().await.is_some() {
            tokio::time::sleep(CACHE_TIME).await;
        }
    }

    /// The first system whose store does not answer; a recent result is reused.
    async fn unresponsive_system(&self) -> Option<String> {
        // Concurrent calls wait for the same result.
        let mut probed = self.probed.lock().await;
        if let Some((at, unresponsive)) = &*probed
            && at.elapsed() < CACHE_TIME
        {
            return unresponsive.clone();
        }
        let unresponsive = self.probe_stores().await;
        *probed = Some((Instant::now(), unresponsive.clone()));
        unresponsive
    }

    /// Probes the stores; the first system whose store does not answer.
    async fn probe_stores(&self) -> Option<String> {
        for (system, nagaya) in self.each_system(|each| (each.system.clone(), each.nagaya.clone())) {
            if let Err(cause) = probe_store(&nagaya).await {
                tracing::warn!(target: TARGET, system, cause, "the store does not answer");
                return Some(system);
            }
        }
        None
    }
}

impl MonitoredSystem {
    fn breaches(&self) -> u64 {
        self.earlier_breaches + self.nagaya.breaches()
    }
}

/// Probes the store of a system; an error if it does not answer in time.
async fn probe_store(nagaya: &Nagaya) -> Result<(), String> {
    match tokio::time::timeout(PROBE_TIMEOUT, nagaya.ping_store()).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_elapsed) => Err(format!("no answer in {} s", PROBE_TIMEOUT.as_secs())),
    }
}

fn json_response(json: &'static str) -> Response {
    let mut response = Response::new(Body::from(json));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use nagaya_embedded::{EmbeddedStore, Options};

    use super::*;

    #[tokio::test]
    async fn the_store_of_every_system_can_be_probed() {
        let systems = ["aiagent/design/single", "aiagent/design/multi", "kondate/design/kondate", "todo/design/todo"];
        for name in systems.into_iter().chain(["management/design/management"]) {
            let path = format!("{}/../../systems/{name}.toml", env!("CARGO_MANIFEST_DIR"));
            let source = std::fs::read_to_string(path).expect("the design is there");
            let design = nagaya_design::check(&source, &[]).design.expect("the design is sound");
            let nagaya = Nagaya::open(design, EmbeddedStore::in_memory(Options::default()).expect("memory"));
            assert!(probe_store(&nagaya).await.is_err(), "the store of {name} has no tables yet: it was not probed");
            nagaya.ensure_tables().await.expect("the tables are created");
            assert!(probe_store(&nagaya).await.is_ok(), "the store of {name} does not answer");
        }
    }
}
