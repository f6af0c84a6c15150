//! A system while it is served.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_embedded::{Embedded, Options};
use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, Server, System, Verifier};
use nagaya_store::{Clock, Store};
use nagaya_tenancy::{Ids, Nagaya, Settings};
use tokio::{runtime::Runtime, sync::oneshot};

use crate::Client;

/// 2030-01-01T00:00:00Z: far enough ahead that no server sweeps away what expires after it.
const START: i64 = 1_893_456_000_000;

/// The time, which only tests move.
#[derive(Debug, Clone)]
pub struct Time(Arc<AtomicI64>);

impl Default for Time {
    fn default() -> Self {
        Time(Arc::new(AtomicI64::new(START)))
    }
}

impl Time {
    /// The clock that shows it.
    pub fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::new(move || now.load(Ordering::SeqCst))
    }

    /// Lets so much time pass.
    pub fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A system, served until this is dropped.
pub struct House {
    /// The time in it.
    pub time: Time,
    /// What it is kept in.
    pub store: Arc<dyn Store>,
    /// The data layer that is served.
    pub nagaya: Nagaya,
    /// What it runs on.
    pub runtime: Runtime,
    /// Where it is served.
    pub url: String,
    name: String,
    issuer: Arc<LocalIssuer>,
    claims: Claims,
    pub(crate) agent: ureq::Agent,
    _stop: oneshot::Sender<()>,
}

impl House {
    /// A system on a store in memory.
    pub fn in_memory(system: System) -> Self {
        let time = Time::default();
        let store = memory(&time);
        House::serve_on(runtime(), system, store, time)
    }

    /// A system on any store, by a runtime on which the store has been opened.
    pub fn serve_on(runtime: Runtime, system: System, store: Arc<dyn Store>, time: Time) -> Self {
        let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
        let (name, design) = (system.name.clone(), system.design.clone());
        let claims = Claims::of(&design);
        let settings = Settings { clock: time.clock(), ids: Ids::random(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design, Arc::clone(&store), settings);
        let (stop, stopped) = oneshot::channel::<()>();
        let url = runtime.block_on(async {
            nagaya.ensure().await.expect("the tables are made");
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let verifier = Verifier::new(claims.clone(), Clock::system()).trust(&Issuer::local(&issuer), name.as_str());
            let mut server = Server::new(Limits::default());
            server.mount("", system, nagaya.clone(), verifier);
            tokio::spawn(server.run(listener, async { drop(stopped.await) }));
            url
        });
        // A connection each: the server may close one whose request it refused before the whole of it had come.
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(0)
            .allow_non_standard_methods(true)
            .timeout_global(Some(Duration::from_secs(60)));
        let agent = ureq::Agent::new_with_config(config.build());
        House { time, store, nagaya, runtime, url, name, issuer, claims, agent, _stop: stop }
    }

    /// A user of a tenant.
    pub fn user(&self, tenant: &str, user: &str) -> Client<'_> {
        let grant = Grant {
            audience: &self.name,
            claims: &self.claims,
            user,
            tenant: Some(tenant),
            roles: &[],
            member_of: &[],
            ttl: Duration::from_secs(3_600),
        };
        Client::new(self, Some(self.issuer.issue(&grant).expect("a token")))
    }

    /// Somebody without a token.
    pub fn nobody(&self) -> Client<'_> {
        Client::new(self, None)
    }
}

/// A runtime for a house.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// A store in memory.
pub fn memory(time: &Time) -> Arc<dyn Store> {
    Arc::new(Embedded::memory(Options { clock: time.clock(), ..Options::default() }).expect("memory"))
}
