//! The server: systems side by side behind one listener.

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{Router, extract::Request, response::Response, routing::future::RouteFuture};
use nagaya_store::Measured;
use nagaya_tenancy::Nagaya;
use tokio::{net::TcpListener, task::JoinSet};
use tower_service::Service;

use crate::{
    Cors, Stop, System,
    health::Health,
    http::{self, Entry},
    identity::Verifier,
    limits::{Enforced, Limits},
    observe::{Metrics, Observer, TARGET},
    pages::{self, Listed},
    served::{Served, nothing},
};

/// How long work in the background may take to end.
const LAST: Duration = Duration::from_secs(10);
/// How long a request takes that is marked as slow, unless it is set.
const SLOW_REQUEST: Duration = Duration::from_secs(1);

/// Systems side by side behind one listener.
#[derive(Debug)]
pub struct Server {
    limits: Arc<Limits>,
    /// The systems that are served, for the page that lists them.
    systems: Vec<Listed>,
    mounts: Vec<Mount>,
    /// What is answered beside the systems.
    beside: Current,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    cors: Cors,
    trusted_proxies: usize,
    grace: Duration,
    log_key: Option<[u8; 32]>,
    slow_request: Duration,
    began: Instant,
    store: Option<Arc<Measured>>,
}

impl Server {
    /// A server that serves nothing yet.
    pub fn new(limits: Limits) -> Self {
        Server {
            limits: Arc::new(limits),
            systems: Vec::new(),
            mounts: Vec::new(),
            beside: Current::new(Router::new().fallback(nothing)),
            metrics: Arc::new(Metrics::new()),
            health: Arc::default(),
            cors: Cors::default(),
            trusted_proxies: 0,
            grace: Duration::ZERO,
            log_key: None,
            slow_request: SLOW_REQUEST,
            began: Instant::now(),
            store: None,
        }
    }

    /// Lets pages of these origins call.
    pub fn cors(&mut self, cors: Cors) {
        self.cors = cors;
    }

    /// How many proxies stand in front, and are to be believed about where requests come from (`X-Forwarded-For`).
    pub fn trusted_proxies(&mut self, proxies: usize) {
        self.trusted_proxies = proxies;
    }

    /// How long connections are still accepted after the server is told to stop: as long as it takes until nobody sends
    /// any, because `/readyz` says so.
    pub fn grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// The key of what stands for users in the logs. By default it is made anew, so that a user looks different after each
    /// start; processes with the same key show the same.
    pub fn log_key(&mut self, key: [u8; 32]) {
        self.log_key = Some(key);
    }

    /// Marks requests in the log that take at least this long; a second unless this says otherwise.
    pub fn slow_request(&mut self, time: Duration) {
        self.slow_request = time;
    }

    /// When the process began, for the line that says how long it took to be ready; when this server was made otherwise.
    pub fn began(&mut self, began: Instant) {
        self.began = began;
    }

    /// Shows in `/metrics` what this store is asked, and what it measures about itself: the one that the systems are on.
    pub fn measure_store(&mut self, store: Arc<Measured>) {
        self.store = Some(store);
    }

    /// Waits until the store of a system has been unavailable for so long without a break, and gives what it says about
    /// it. For those who end the process then, so that its supervisor starts it again.
    pub fn store_failed(&self, after: Duration) -> impl Future<Output = String> + Send + use<> {
        let health = Arc::clone(&self.health);
        async move { health.store_failed(after).await }
    }

    /// Answers these routes too, beside the systems.
    pub fn routes(&mut self, routes: Router) {
        self.beside.replace(self.beside.router().merge(routes));
    }

    /// Serves a system below a path, such as `/todo`; at the root with nothing.
    pub fn mount(&mut self, path: &str, system: System, nagaya: Nagaya, verifier: Verifier) -> Mounted {
        let (limits, verifier) = (Arc::new(Enforced::new(&self.limits)), Arc::new(verifier));
        let (metrics, health) = (Arc::clone(&self.metrics), Arc::clone(&self.health));
        let (path, current, beside) = (Arc::<str>::from(path), Current::default(), self.beside.clone());
        let background = (system.clone(), nagaya.clone());
        self.mounts.push(Mount { path: Arc::clone(&path), current: current.clone(), background });
        self.systems.push(Listed::new(&path, &system));
        let mounted = Mounted { path, limits, metrics, health, verifier, current, beside };
        mounted.serve(system, nagaya);
        mounted
    }

    /// What answers requests that somebody else accepts, such as the runtime of a function. Nothing works in the background.
    pub fn app(self) -> App {
        App { entry: Arc::new(self.entry()) }
    }

    fn entry(self) -> Entry {
        let observer = Arc::new(Observer::new(self.metrics, self.trusted_proxies, self.log_key, self.slow_request));
        // A system at the root has a page of its own there.
        let alone = self.systems.iter().any(|system| system.path.is_empty());
        if !alone {
            self.beside.replace(self.beside.router().merge(pages::of_server(&self.systems)));
        }
        let routers = Routers::new(self.mounts, self.beside);
        Entry::new(routers, self.limits, observer, self.health, self.cors.layer(), self.store)
    }

    /// Answers requests until told to stop, and finishes what has begun by then.
    pub async fn run(self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let (tell, stopping) = Stop::new();
        let mut working = JoinSet::new();
        for mount in &self.mounts {
            let (system, nagaya) = &mount.background;
            let work = system.extension.background(nagaya.clone(), stopping.clone());
            work.into_iter().for_each(|work| drop(working.spawn(work)));
        }
        let (health, systems, began) = (Arc::clone(&self.health), self.systems.len(), self.began);
        let address = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        let mut telling = JoinSet::new();
        let told = Arc::clone(&health);
        telling.spawn(async move { told.log_stores().await });
        telling.spawn(async move {
            health.readied().await;
            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(target: TARGET, address, systems, ms, "ready");
        });
        let grace = self.grace;
        // Background work goes on while requests still come: some of them wait for it.
        let draining = move || {
            let _ = tell.send(true);
        };
        let stopping = http::serve(listener, Arc::new(self.entry()), grace, stop, draining).await;
        // What has begun in the background ends as well.
        if tokio::time::timeout(LAST, async { while working.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!(target: TARGET, "some work in the background took too long to wait for");
        }
        drop(telling);
        let ms = u64::try_from(stopping.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(target: TARGET, ms, "stopped");
    }
}

/// What answers requests that somebody else accepts.
#[derive(Clone)]
pub struct App {
    entry: Arc<Entry>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("App")
    }
}

impl App {
    /// Answers a request that came from this address.
    pub async fn answer(&self, address: &str, request: Request) -> Response {
        self.entry.answer(&address.into(), request).await
    }
}

/// A system that is served, and can be replaced while it is.
#[derive(Debug)]
pub struct Mounted {
    path: Arc<str>,
    limits: Arc<Enforced>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    verifier: Arc<Verifier>,
    current: Current,
    beside: Current,
}

impl Mounted {
    /// Serves this from now on. Requests that are under way end as they began.
    pub fn serve(&self, system: System, nagaya: Nagaya) {
        self.health.watch(&self.path, &system, &nagaya, &self.verifier, &self.limits);
        let (limits, verifier) = (Arc::clone(&self.limits), Arc::clone(&self.verifier));
        let served = Arc::new(Served::new(system, nagaya, verifier, limits, Arc::clone(&self.path)));
        self.current.replace(served.router(&self.metrics, self.beside.clone()));
    }
}

/// Where a system answers.
#[derive(Debug)]
struct Mount {
    path: Arc<str>,
    current: Current,
    /// What may work in the background.
    background: (System, Nagaya),
}

/// The routers of a server. A request goes to the one of its system at once: each router on the way would cost it.
#[derive(Debug)]
pub(crate) struct Routers {
    /// Those with the longest paths first.
    mounts: Vec<Mount>,
    beside: Current,
}

impl Routers {
    fn new(mut mounts: Vec<Mount>, beside: Current) -> Self {
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
        Routers { mounts, beside }
    }

    /// The router that answers a path.
    pub(crate) fn of(&self, path: &str) -> Router {
        let below = |mount: &&Mount| {
            path.strip_prefix(&*mount.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.mounts.iter().find(below).map_or(&self.beside, |mount| &mount.current).router()
    }
}

/// The router that answers now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Current(Arc<RwLock<Router>>);

impl Current {
    fn new(router: Router) -> Self {
        Current(Arc::new(RwLock::new(router)))
    }

    fn router(&self) -> Router {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, router: Router) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = router;
    }
}

impl Service<Request> for Current {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        self.router().call(request)
    }
}
