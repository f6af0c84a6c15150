//! Whether the process lives, and whether it may be sent requests.

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
use nagaya_design::{Design, Entity, Field, Precision, Type, Wall};
use nagaya_tenancy::{ErrorKind, Nagaya, Principal, Tenant};
use tokio::{sync::Mutex, time::Instant};

use crate::{Problem, identity::Verifier, observe::Household as Figures};

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
    probe: Option<Arc<Probe>>,
    /// Breaches of what was served in its place before.
    earlier: u64,
}

impl Health {
    /// Watches what is served at a place from now on.
    pub(crate) fn watch(&self, mount: &Arc<str>, system: &str, nagaya: &Nagaya, verifier: &Arc<Verifier>) {
        let mut systems = self.systems.write().unwrap_or_else(PoisonError::into_inner);
        let former = systems.iter().position(|each| each.mount == *mount).map(|at| systems.swap_remove(at));
        let earlier = former.map_or(0, |former| former.breaches());
        let probe = Probe::of(nagaya).map(Arc::new);
        let (mount, system, verifier) = (Arc::clone(mount), system.to_owned(), Arc::clone(verifier));
        systems.push(Household { mount, system, nagaya: nagaya.clone(), verifier, probe, earlier });
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
        match self.silent().await {
            Some(system) => Err(unready("not_ready", format!("The store of `{system}` does not answer."))),
            None => Ok(said(r#"{"status":"ready"}"#)),
        }
    }

    /// The first system whose store does not answer.
    async fn silent(&self) -> Option<String> {
        // Whoever else asks meanwhile waits for the same answer.
        let mut asked = self.asked.lock().await;
        if let Some((at, silent)) = &*asked
            && at.elapsed() < HOLDS
        {
            return silent.clone();
        }
        let probes: Vec<_> = {
            let systems = self.systems.read().unwrap_or_else(PoisonError::into_inner);
            systems.iter().filter_map(|each| Some((each.system.clone(), Arc::clone(each.probe.as_ref()?)))).collect()
        };
        let mut silent = None;
        for (system, probe) in probes {
            if !probe.answers().await {
                tracing::warn!(system, "the store does not answer");
                silent = Some(system);
                break;
            }
        }
        *asked = Some((Instant::now(), silent.clone()));
        silent
    }
}

impl Household {
    fn breaches(&self) -> u64 {
        self.earlier + self.nagaya.breaches()
    }
}

fn said(json: &'static str) -> Response {
    let mut response = Response::new(Body::from(json));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A question that every store answers cheaply: for an item that is not there.
#[derive(Debug)]
struct Probe {
    tenant: Tenant,
    entity: String,
    id: Vec<String>,
}

impl Probe {
    /// A question that goes through the walls like any other, in the name of a tenant that does not exist. `None` where
    /// tenants read nothing: operators' readings are written down, which is no cheap question.
    fn of(nagaya: &Nagaya) -> Option<Probe> {
        let design = nagaya.design();
        let entity = |entity: &Entity| {
            let id = entity.id_fields().into_iter().map(|path| fitting(entity.field(path)?)).collect::<Option<_>>()?;
            let tenant = tenant_of(design, entity).find_map(|tenant| {
                let (user, roles, request, address) = ("readyz".to_owned(), Vec::new(), None, None);
                nagaya.tenant(&Principal { tenant, user, roles, request, address }).ok()
            })?;
            Some(Probe { tenant, entity: entity.name.clone(), id })
        };
        design.entities.iter().filter(|entity| entity.wall != Wall::System).find_map(entity)
    }

    async fn answers(&self) -> bool {
        let id: Vec<&str> = self.id.iter().map(String::as_str).collect();
        let asking = self.tenant.get(&self.entity, &id);
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => matches!(error.kind(), ErrorKind::NotFound { .. }),
            Err(_elapsed) => false,
        }
    }
}

/// Names that a tenant could have.
fn tenant_of<'d>(design: &'d Design, entity: &'d Entity) -> impl Iterator<Item = String> + 'd {
    let named = entity.tenant.as_deref().and_then(|path| entity.field(path)).and_then(fitting);
    let system = design.tenant.system.as_deref();
    named.into_iter().chain(CANDIDATES.map(str::to_owned)).filter(move |name| Some(name.as_str()) != system)
}

/// One value of each kind.
const CANDIDATES: [&str; 8] = [
    "readyz",
    "0",
    "00000000000000000000000000",
    "00000000-0000-4000-8000-000000000000",
    "2000-01-01",
    "2000-01-01T00:00:00Z",
    "2000-01-01T00:00:00.000Z",
    "readyz@example.com",
];

/// A value that a field takes, as text.
fn fitting(field: &Field) -> Option<String> {
    let choices = field.one_of().iter().cloned();
    let candidates = CANDIDATES.iter().map(|candidate| format!("{}{candidate}", field.prefix()));
    choices.chain(candidates).find(|text| {
        let value = match field.kind {
            Type::Integer | Type::Timestamp(Precision::Epoch) => text.parse::<i64>().ok().map(Into::into),
            Type::Boolean => text.parse::<bool>().ok().map(Into::into),
            _ => Some(text.as_str().into()),
        };
        let mut problems = Vec::new();
        value.is_some_and(|value| {
            field.check(&value, &field.name, &mut problems);
            problems.is_empty()
        })
    })
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
            let probe = Probe::of(&nagaya).unwrap_or_else(|| panic!("{name} has something that tenants read"));
            assert!(!probe.answers().await, "the store of {name} has no tables yet: it has not been asked");
            nagaya.ensure().await.expect("the tables are made");
            assert!(probe.answers().await, "the store of {name} does not answer");
        }
    }
}
