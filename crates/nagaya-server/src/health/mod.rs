//! Whether the process lives, and whether it may be sent requests.

mod measured;
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
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use nagaya_store::Health as StoreHealth;
use nagaya_tenancy::Nagaya;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    Problem, System,
    identity::Verifier,
    limits::Enforced,
    observe::{Household as Figures, TARGET},
};

/// How long a store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer holds: anybody may ask, and a store may cost money.
const HOLDS: Duration = Duration::from_secs(1);

/// What is known about the systems of a server.
#[derive(Debug, Default)]
pub(crate) struct Health {
    stopping: AtomicBool,
    systems: RwLock<Vec<Household>>,
    /// When the stores were asked, and the system whose did not answer.
    asked: Mutex<Option<(Instant, Option<String>)>>,
}

/// A system that is served.
#[derive(Debug)]
struct Household {
    mount: Arc<str>,
    system: String,
    nagaya: Nagaya,
    verifier: Arc<Verifier>,
    limits: Arc<Enforced>,
    /// What the system measures about itself.
    own: Arc<measured::Own>,
    /// Breaches of what was served in its place before.
    earlier: u64,
}

impl Health {
    /// Watches what is served at a place from now on.
    pub(crate) fn watch(
        &self,
        mount: &Arc<str>,
        system: &System,
        nagaya: &Nagaya,
        verifier: &Arc<Verifier>,
        limits: &Arc<Enforced>,
    ) {
        let mut systems = self.systems.write().unwrap_or_else(PoisonError::into_inner);
        let former = systems.iter().position(|each| each.mount == *mount).map(|at| systems.swap_remove(at));
        let earlier = former.map_or(0, |former| former.breaches());
        let own = Arc::new(measured::Own::new(system, nagaya));
        let (mount, system, verifier) = (Arc::clone(mount), system.name.clone(), Arc::clone(verifier));
        systems.push(Household {
            mount,
            system,
            nagaya: nagaya.clone(),
            verifier,
            limits: Arc::clone(limits),
            own,
            earlier,
        });
    }

    /// Says that no more requests should come.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// What is counted of each system elsewhere.
    pub(crate) fn figures(&self) -> Vec<Figures> {
        let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<Figures> = Vec::new();
        for household in &*systems {
            let (breaches, tokens) = (household.breaches(), household.verifier.checked());
            // The same system may be served at two places.
            match found.iter_mut().find(|figures| figures.system == household.system) {
                Some(figures) => {
                    figures.breaches += breaches;
                    figures.tokens_checked += tokens;
                }
                None => found.push(Figures { system: household.system.clone(), breaches, tokens_checked: tokens }),
            }
        }
        found
    }

    /// `/healthz`: the process answers.
    pub(crate) fn alive(&self) -> Response {
        said(r#"{"status":"ok"}"#)
    }

    /// `/readyz`: nothing keeps it from answering requests.
    pub(crate) async fn ready(&self) -> Result<Response, Problem> {
        let unready = |code, detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after(1);
        if self.stopping.load(Ordering::Acquire) {
            return Err(unready("stopping", "The server is stopping.".to_owned()));
        }
        // The reason is in the log: whoever asks may be anybody.
        if let Some((system, _)) = self.unavailable() {
            return Err(unready("not_ready", format!("The store of `{system}` is not available.")));
        }
        match self.silent().await {
            Some(system) => Err(unready("not_ready", format!("The store of `{system}` does not answer."))),
            None => Ok(said(r#"{"status":"ready"}"#)),
        }
    }

    /// How the store of each system says it is doing.
    fn stores(&self) -> Vec<(String, StoreHealth)> {
        let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
        systems.iter().map(|each| (each.system.clone(), each.nagaya.store_health())).collect()
    }

    /// Waits until nothing keeps the server from answering requests.
    pub(crate) async fn readied(&self) {
        while self.unavailable().is_some() || self.ask().await.is_some() {
            tokio::time::sleep(HOLDS).await;
        }
    }

    /// The first system whose store does not answer, as it was found not long ago.
    async fn silent(&self) -> Option<String> {
        // Whoever else asks meanwhile waits for the same answer.
        let mut asked = self.asked.lock().await;
        if let Some((at, silent)) = &*asked
            && at.elapsed() < HOLDS
        {
            return silent.clone();
        }
        let silent = self.ask().await;
        *asked = Some((Instant::now(), silent.clone()));
        silent
    }

    /// Asks the stores; the first system whose does not answer.
    async fn ask(&self) -> Option<String> {
        let systems: Vec<_> = {
            let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
            systems.iter().map(|each| (each.system.clone(), each.nagaya.clone())).collect()
        };
        for (system, nagaya) in systems {
            if let Err(cause) = asked_in_time(&nagaya).await {
                tracing::warn!(target: TARGET, system, cause, "the store does not answer");
                return Some(system);
            }
        }
        None
    }
}

impl Household {
    fn breaches(&self) -> u64 {
        self.earlier + self.nagaya.breaches()
    }
}

/// Asks the store of a system; why it has not answered in time.
async fn asked_in_time(nagaya: &Nagaya) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, nagaya.answers()).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_elapsed) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
    }
}

fn said(json: &'static str) -> Response {
    let mut response = Response::new(Body::from(json));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use nagaya_embedded::{Embedded, Options};

    use super::*;

    #[tokio::test]
    async fn the_store_of_every_system_can_be_asked() {
        let systems = ["aiagent/design/single", "aiagent/design/multi", "kondate/design/kondate", "todo/design/todo"];
        for name in systems.into_iter().chain(["management/design/management"]) {
            let path = format!("{}/../../systems/{name}.toml", env!("CARGO_MANIFEST_DIR"));
            let source = std::fs::read_to_string(path).expect("the design is there");
            let design = nagaya_design::check(&source, &[]).design.expect("the design is sound");
            let nagaya = Nagaya::open(design, Embedded::memory(Options::default()).expect("memory"));
            assert!(
                asked_in_time(&nagaya).await.is_err(),
                "the store of {name} has no tables yet: it has not been asked"
            );
            nagaya.ensure().await.expect("the tables are made");
            assert!(asked_in_time(&nagaya).await.is_ok(), "the store of {name} does not answer");
        }
    }
}
