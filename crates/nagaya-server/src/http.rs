//! Connections: accepting them, and ending them without losing what has begun.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    response::Response,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use nagaya_store::{Measured, Measurement, Store as _};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tower_http::cors::CorsLayer;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::{
    Problem,
    health::Health,
    limits::Limits,
    observe::{self, Gauges, Observed, Observer, Rejection, TARGET},
    server::Routers,
};

/// How long an answer may take to be written once its request is out of time, when the server is told to stop.
const LAST: Duration = Duration::from_secs(5);
/// A connection that is idle for longer than this is nobody's any more; and clocks cannot count as far as settings can.
const LONGEST_IDLE: Duration = Duration::from_secs(24 * 60 * 60);
/// The least that a connection's buffer has to hold.
const LEAST_BUFFER: usize = 64 * 1024;

/// Everything that a request passes on its way to the router of its system.
pub(crate) struct Entry {
    routers: Routers,
    limits: Arc<Limits>,
    observer: Arc<Observer>,
    health: Arc<Health>,
    cors: Option<CorsLayer>,
    /// The store, if it counts what it is asked.
    store: Option<Arc<Measured>>,
    /// One for each request under way.
    slots: Semaphore,
    /// One for each connection.
    connections: Arc<Semaphore>,
}

impl Entry {
    pub(crate) fn new(
        routers: Routers,
        limits: Arc<Limits>,
        observer: Arc<Observer>,
        health: Arc<Health>,
        cors: Option<CorsLayer>,
        store: Option<Arc<Measured>>,
    ) -> Self {
        let slots = semaphore(limits.concurrent);
        let connections = Arc::new(semaphore(limits.connections));
        Entry { routers, limits, observer, health, cors, store, slots, connections }
    }

    /// Answers a request: within the limits, observed, and whatever happens inside.
    pub(crate) async fn answer(&self, peer: &Arc<str>, mut request: Request) -> Response {
        let observed = self.observer.begin(peer, &mut request);
        // These answer whatever the load: those who ask are to find out what is wrong.
        if let Some(answer) = self.about(request.method(), request.uri().path(), &observed).await {
            return observed.unnoticed(answer);
        }
        let response = match &self.cors {
            None => self.within(&observed, request).await,
            // Around the limits, so that pages can read what they are told about them.
            Some(cors) => match cors.layer(Within { entry: self, observed: &observed }).call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        };
        observed.end(response)
    }

    /// What the server says about itself.
    async fn about(&self, method: &Method, path: &str, observed: &Observed) -> Option<Response> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        match path {
            "/healthz" => Some(self.health.alive()),
            "/readyz" => {
                let ready = self.health.ready().await;
                Some(ready.unwrap_or_else(|problem| problem.into_answer(observed.id())))
            }
            "/metrics" => Some(self.figures().await),
            _ => None,
        }
    }

    /// How many requests are under way, and how many connections are open.
    fn taken(&self) -> (usize, usize) {
        let taken = |limit: usize, semaphore: &Semaphore| {
            limit.min(Semaphore::MAX_PERMITS).saturating_sub(semaphore.available_permits())
        };
        (taken(self.limits.concurrent, &self.slots), taken(self.limits.connections, &self.connections))
    }

    async fn figures(&self) -> Response {
        let (in_flight, connections) = self.taken();
        let limit = |name, help, limit: usize| Measurement::gauge(name, help, limit as f64);
        let mut measured = vec![
            limit("requests_in_flight_limit", "Requests that may be under way", self.limits.concurrent),
            limit("connections_limit", "Connections that may be open", self.limits.connections),
        ];
        measured.extend(observe::process_measurements());
        measured.extend(self.health.measurements().await);
        let gauges = Gauges {
            in_flight,
            connections,
            systems: self.health.figures(),
            measured,
            of_store: self.store.as_ref().map(|store| store.measurements()).unwrap_or_default(),
            asked: self.store.as_ref().map(|store| store.usage()).unwrap_or_default(),
        };
        let mut response = Response::new(Body::from(self.observer.metrics.text(gauges)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(observe::METRICS_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Answers a request within the limits.
    async fn within(&self, observed: &Observed, request: Request) -> Response {
        let reject = |why, problem: Problem| {
            observed.rejected(why);
            observed.seen.failed(&problem);
            problem.into_answer(observed.id())
        };
        // There is room for it. Who has to wait for room may as well do so outside, where it costs nothing.
        let Ok(_slot) = self.slots.try_acquire() else {
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "The server is busy.");
            return reject(Rejection::Overload, problem.retry_after(1));
        };
        let answering = AssertUnwindSafe(self.routers.of(request.uri().path()).call(request)).catch_unwind();
        match tokio::time::timeout(self.limits.time, answering).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_panic)) => {
                let at = observe::last_panic();
                tracing::error!(target: TARGET, request = observed.id(), at, "a request has panicked");
                reject(Rejection::Panic, Problem::internal())
            }
            Err(_elapsed) => {
                let detail = "The request took too long. It may have happened or not.";
                reject(Rejection::Timeout, Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail))
            }
        }
    }
}

/// [`Entry::within`] as a service, for what goes around it.
struct Within<'e> {
    entry: &'e Entry,
    observed: &'e Observed,
}

impl<'e> Service<Request> for Within<'e> {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'e, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (entry, observed) = (self.entry, self.observed);
        Box::pin(async move { Ok(entry.within(observed, request).await) })
    }
}

/// Accepts connections until told to stop, and for as long as `grace` after that; then ends those that are idle, and waits
/// for the others. `draining` is told when nothing new is accepted any more. Gives the moment at which it was told to stop.
pub(crate) async fn serve(
    listener: TcpListener,
    entry: Arc<Entry>,
    grace: Duration,
    stop: impl Future<Output = ()>,
    draining: impl FnOnce(),
) -> Instant {
    let graceful = GracefulShutdown::new();
    let stopping = {
        let mut accepting = pin!(accept(&listener, &entry, &graceful));
        tokio::select! {
            () = &mut accepting => {}
            () = stop => {}
        }
        entry.health.stop();
        let stopping = Instant::now();
        let (in_flight, connections) = entry.taken();
        tracing::info!(target: TARGET, in_flight, connections, grace = grace.as_secs_f64(), "stopping");
        if !grace.is_zero() {
            let _ = tokio::time::timeout(grace, accepting).await;
        }
        stopping
    };
    drop(listener);
    draining();
    // No request takes longer than this, and all that is left are requests.
    let last = entry.limits.time.saturating_add(LAST);
    if tokio::time::timeout(last, graceful.shutdown()).await.is_err() {
        let (in_flight, connections) = entry.taken();
        tracing::warn!(target: TARGET, in_flight, connections, "some requests took too long to wait for");
    }
    stopping
}

/// Accepts connections, for ever.
async fn accept(listener: &TcpListener, entry: &Arc<Entry>, graceful: &GracefulShutdown) {
    let mut http = http1::Builder::new();
    let idle = entry.limits.idle.min(LONGEST_IDLE);
    http.timer(TokioTimer::new()).header_read_timeout(idle);
    http.max_header_size(entry.limits.head_bytes).max_buf_size(entry.limits.head_bytes.max(LEAST_BUFFER));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file handles, most likely: the connections that there are go on, and give some back.
                tracing::warn!(target: TARGET, %error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // While there is no room for it, it waits, and all others wait behind it where they cost nothing. Nobody closes the
        // semaphore.
        let free = Arc::clone(&entry.connections).try_acquire_owned();
        if free.is_err() {
            let limit = entry.limits.connections;
            tracing::warn!(target: "nagaya::server", limit, "all connections are taken: new ones wait, probes too");
        }
        let place = match free {
            Ok(place) => place,
            Err(_) => match Arc::clone(&entry.connections).acquire_owned().await {
                Ok(place) => place,
                Err(_) => return,
            },
        };
        prepare(&stream, idle);
        let entry = Arc::clone(entry);
        let peer = address(peer);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (entry, peer) = (Arc::clone(&entry), Arc::clone(&peer));
            async move { Ok::<_, Infallible>(entry.answer(&peer, request.map(Body::new)).await) }
        });
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection has ended early");
            }
            drop(place);
        });
    }
}

/// Sets what helps. A socket that refuses works all the same.
fn prepare(stream: &TcpStream, idle: Duration) {
    // Answers are small: waiting for more to send would only be waiting.
    let _ = stream.set_nodelay(true);
    // A client that does not take its answer does not keep its connection for that.
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(idle));
    #[cfg(not(target_os = "linux"))]
    let _ = idle;
}

/// Where a connection comes from. One that came to a socket of IPv6 by IPv4 has the address that it has by IPv4.
fn address(peer: SocketAddr) -> Arc<str> {
    peer.ip().to_canonical().to_string().into()
}

fn semaphore(permits: usize) -> Semaphore {
    Semaphore::new(permits.min(Semaphore::MAX_PERMITS))
}
