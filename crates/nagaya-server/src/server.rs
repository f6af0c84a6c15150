//! The server: systems side by side behind one listener.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Router, extract::Request, response::Response};
use nagaya_events::refresh_generations;
use nagaya_store::MeteredStore;
use nagaya_tenancy::{AuditArchiver, ChangeConsumer, Nagaya};
use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    Cors, LocalIssuer, StopSignal, System, Tls, archiver,
    connection::{self, Listeners},
    fallback,
    health::Health,
    identity::Verifier,
    limits::{Limits, ServerCapacity, SystemLimits},
    observe::{Metrics, Observer, TARGET},
    pages::{self, SignIn, SystemLink},
    pipeline::Pipeline,
    routers::{CurrentRouter, Routers},
    service::{SystemService, WholeAnswer},
};

/// How long background work may take to end.
const BACKGROUND_STOP_LIMIT: Duration = Duration::from_secs(10);
/// How often the current generations of projections are read, in case another process has switched them.
const GENERATIONS_INTERVAL: Duration = Duration::from_secs(1);
/// The default time from which a request is marked as slow.
const SLOW_REQUEST: Duration = Duration::from_secs(1);

/// Systems side by side behind one listener.
#[derive(Debug)]
pub struct Server {
    limits: Arc<Limits>,
    /// For the page that lists the systems.
    systems: Vec<SystemLink>,
    mounts: Vec<Mount>,
    /// The routes beside the systems.
    other_routes: CurrentRouter,
    /// Signing in on the pages of the systems, with this issuer.
    sign_in: Arc<SignIn>,
    local_issuer: Option<Arc<LocalIssuer>>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    cors: Cors,
    trusted_proxies: usize,
    shutdown_delay: Duration,
    slow_request: Duration,
    started: Instant,
    store: Option<Arc<MeteredStore>>,
    tls: Option<Arc<Tls>>,
    admin: Option<TcpListener>,
    audit_archive_poll: Duration,
    capacity: Arc<ServerCapacity>,
}

impl Server {
    /// A server without systems.
    pub fn new(limits: Limits) -> Self {
        Server {
            capacity: ServerCapacity::new(&limits),
            limits: Arc::new(limits),
            systems: Vec::new(),
            mounts: Vec::new(),
            other_routes: CurrentRouter::new(Router::new().fallback(fallback::not_found)),
            sign_in: Arc::default(),
            local_issuer: None,
            metrics: Arc::new(Metrics::new()),
            health: Arc::default(),
            cors: Cors::default(),
            trusted_proxies: 0,
            shutdown_delay: Duration::ZERO,
            slow_request: SLOW_REQUEST,
            started: Instant::now(),
            store: None,
            tls: None,
            admin: None,
            audit_archive_poll: archiver::DEFAULT_POLL,
        }
    }

    /// Allows cross-origin requests from these origins.
    pub fn cors(&mut self, cors: Cors) {
        self.cors = cors;
    }

    /// How many proxies in front are trusted to report the address of the client (`X-Forwarded-For`).
    pub fn trusted_proxies(&mut self, proxies: usize) {
        self.trusted_proxies = proxies;
    }

    /// How long connections are still accepted after the stop signal: until load balancers see that `/readyz` fails.
    pub fn shutdown_delay(&mut self, delay: Duration) {
        self.shutdown_delay = delay;
    }

    /// Marks requests in the log that take at least this long; by default a second.
    pub fn slow_request(&mut self, time: Duration) {
        self.slow_request = time;
    }

    /// When the process started, for the log line `ready`; by default when this server was created.
    pub fn started(&mut self, started: Instant) {
        self.started = started;
    }

    /// Serves the public listener with TLS.
    pub fn tls(&mut self, tls: Tls) {
        self.tls = Some(Arc::new(tls));
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` on this listener too, and nothing else. The metrics are there alone: they
    /// tell how much is done for all tenants together.
    pub fn admin_listener(&mut self, listener: TcpListener) {
        self.admin = Some(listener);
    }

    /// How often the server looks whether audit entries have to move to the archive of their design; by default every five
    /// minutes. Between two runs over the entries is the age at which they move, but at least a minute and at most a day. One of the
    /// servers on a store does it.
    pub fn audit_archive_poll(&mut self, poll: Duration) {
        self.audit_archive_poll = poll;
    }

    /// Shows the calls to this store and its measurements in `/metrics`.
    pub fn show_store_metrics(&mut self, store: Arc<MeteredStore>) {
        self.store = Some(store);
    }

    /// Waits until the store of a system has been unavailable for this long without a break, and returns the reason. The
    /// process can end then, so that its supervisor restarts it.
    pub fn wait_for_store_failure(&self, after: Duration) -> impl Future<Output = String> + Send + use<> {
        let health = Arc::clone(&self.health);
        async move { health.store_failed(after).await }
    }

    /// Adds routes beside the systems.
    pub fn add_routes(&mut self, routes: Router) {
        self.other_routes.replace(self.other_routes.get().merge(routes));
    }

    /// Lets the page `/docs` sign in with the local issuer, for any tenant and role. This is for development: it works only
    /// if the server listens on a loopback address and no proxy is trusted. A server that a proxy on the same machine makes
    /// public must not call this.
    pub fn sign_in_with(&mut self, issuer: &Arc<LocalIssuer>) {
        self.local_issuer = Some(Arc::clone(issuer));
    }

    /// Serves a system below a path, such as `/todo`; an empty path is the root.
    pub fn mount(&mut self, path: &str, system: System, nagaya: Nagaya, verifier: Verifier) -> MountedSystem {
        let (limits, verifier) = (Arc::new(SystemLimits::new(&self.limits, &self.capacity)), Arc::new(verifier));
        let (metrics, health) = (Arc::clone(&self.metrics), Arc::clone(&self.health));
        let (path, router, otherwise) = (Arc::<str>::from(path), CurrentRouter::default(), self.other_routes.clone());
        // They fail only where code and design of a system do not fit, which its tests show.
        let consumers = system.consumers(&nagaya).unwrap_or_else(|error| {
            tracing::error!(target: TARGET, system = system.name, %error, "what is derived from changes is not kept up to date");
            Vec::new()
        });
        let consumers: Consumers = consumers.into();
        let background = (system.clone(), nagaya.clone());
        let consumed = Arc::clone(&consumers);
        self.mounts.push(Mount { path: Arc::clone(&path), router: router.clone(), background, consumers: consumed });
        self.systems.push(SystemLink::new(&path, &system));
        let mounted = MountedSystem {
            path,
            consumers,
            limits,
            metrics,
            health,
            verifier,
            router,
            otherwise,
            sign_in: Arc::clone(&self.sign_in),
        };
        mounted.replace(system, nagaya);
        mounted
    }

    /// The server without a listener, for a runtime that accepts requests itself, such as AWS Lambda. There is no background
    /// work.
    pub fn app(self) -> RequestHandler {
        RequestHandler { pipeline: Arc::new(self.pipeline()) }
    }

    fn pipeline(mut self) -> Pipeline {
        if self.trusted_proxies > 0 {
            // All connections come from the addresses of the proxies.
            Arc::make_mut(&mut self.limits).connections_per_address = usize::MAX;
        }
        let observer = Arc::new(Observer::new(self.metrics, self.trusted_proxies, self.slow_request));
        // A system at the root has its own page there.
        let has_root = self.systems.iter().any(|system| system.path.is_empty());
        if !has_root {
            self.other_routes.replace(self.other_routes.get().merge(pages::index_page(&self.systems)));
        }
        let routers =
            Routers::new(self.mounts.into_iter().map(|mount| (mount.path, mount.router)).collect(), self.other_routes);
        Pipeline::new(routers, self.limits, observer, self.health, self.cors.layer(), self.store, self.capacity)
    }

    /// Answers requests until `stop`, and finishes those in flight.
    pub async fn run(mut self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (stop_sender, stop_signal) = StopSignal::new();
        let mut background = JoinSet::new();
        for mount in &self.mounts {
            let (system, nagaya) = &mount.background;
            for consumer in &*mount.consumers {
                let (consumer, mut stop) = (Arc::clone(consumer), stop_signal.clone());
                background.spawn(async move { consumer.run(Box::pin(stop.wait())).await });
            }
            if !system.projections.is_empty() {
                background.spawn(follow_generations(nagaya.clone(), stop_signal.clone()));
            }
            let work = system.extension.background(nagaya.clone(), stop_signal.clone());
            work.into_iter().for_each(|work| drop(background.spawn(work)));
            if let Some(archiver) = AuditArchiver::new(nagaya) {
                background.spawn(archiver::run(archiver, self.audit_archive_poll, stop_signal.clone()));
            }
        }
        let address = listener.local_addr().ok();
        let is_loopback = address.is_some_and(|address| address.ip().to_canonical().is_loopback());
        if let Some(issuer) = self.local_issuer.as_ref().filter(|_| is_loopback && self.trusted_proxies == 0) {
            self.sign_in.enable(issuer);
        }
        let (health, systems, started) = (Arc::clone(&self.health), self.systems.len(), self.started);
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let mut helpers = JoinSet::new();
        let stores = Arc::clone(&health);
        helpers.spawn(async move { stores.log_stores().await });
        helpers.spawn(async move {
            health.wait_until_ready().await;
            let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(target: TARGET, address, systems, ms, "ready");
        });
        let (tls, admin) = (self.tls.take(), self.admin.take());
        if let Some(tls) = tls.clone() {
            helpers.spawn(async move { tls.reload().await });
        }
        let listeners = Listeners { public: listener, tls, admin };
        let shutdown_delay = self.shutdown_delay;
        // Background work continues while requests still come: some of them wait for it.
        let draining = move || {
            let _ = stop_sender.send(true);
        };
        let stopping = connection::serve(listeners, Arc::new(self.pipeline()), shutdown_delay, stop, draining).await;
        if tokio::time::timeout(BACKGROUND_STOP_LIMIT, async { while background.join_next().await.is_some() {} })
            .await
            .is_err()
        {
            tracing::warn!(target: TARGET, "some background work did not end before the shutdown limit");
        }
        drop(helpers);
        let ms = u64::try_from(stopping.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(target: TARGET, ms, "stopped");
    }
}

/// Switches to other generations of projections when another process has, until told to stop.
async fn follow_generations(nagaya: Nagaya, mut stop: StopSignal) {
    loop {
        if let Err(error) = refresh_generations(&nagaya).await {
            tracing::warn!(%error, "generations cannot be read");
        }
        if tokio::time::timeout(GENERATIONS_INTERVAL, stop.wait()).await.is_ok() {
            return;
        }
    }
}

/// A server without a listener.
#[derive(Clone)]
pub struct RequestHandler {
    pipeline: Arc<Pipeline>,
}

impl std::fmt::Debug for RequestHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("App")
    }
}

impl RequestHandler {
    /// Answers a request that came from this address, for a runtime that sends answers as a whole. A route that answers with a
    /// stream answers 501 at once: nobody could read it before its end.
    pub async fn answer_as_whole(&self, address: &str, mut request: Request) -> Response {
        request.extensions_mut().insert(WholeAnswer);
        self.answer(address, request).await
    }

    /// Answers a request that came from this address.
    pub async fn answer(&self, address: &str, request: Request) -> Response {
        self.pipeline.answer(&address.into(), request).await
    }
}

/// A mounted system, which can be replaced while it is served.
#[derive(Debug)]
pub struct MountedSystem {
    path: Arc<str>,
    consumers: Consumers,
    limits: Arc<SystemLimits>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    verifier: Arc<Verifier>,
    router: CurrentRouter,
    otherwise: CurrentRouter,
    sign_in: Arc<SignIn>,
}

impl MountedSystem {
    /// Serves this system from now on. Requests in flight finish with the one before.
    pub fn replace(&self, system: System, nagaya: Nagaya) {
        self.health.monitor(&self.path, &system, &nagaya, (&self.verifier, &self.limits, &self.consumers));
        let (limits, verifier) = (Arc::clone(&self.limits), Arc::clone(&self.verifier));
        let service = Arc::new(SystemService::new(system, nagaya, verifier, limits, Arc::clone(&self.path)));
        self.router.replace(service.router(&self.metrics, &self.sign_in, self.otherwise.clone()));
    }
}

/// A path with its system.
#[derive(Debug)]
struct Mount {
    path: Arc<str>,
    router: CurrentRouter,
    /// For background work.
    background: (System, Nagaya),
    consumers: Consumers,
}

/// What keeps the derived data of a system up to date.
pub(crate) type Consumers = Arc<[Arc<dyn ChangeConsumer>]>;
