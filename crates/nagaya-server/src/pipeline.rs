//! What every request passes before the router of its system: probes, CORS, limits, panics, and the log.

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, Method, Uri, header},
    response::Response,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use nagaya_design::server_path;
use nagaya_store::{Measurement, MeteredStore, Store as _};
use tower_http::cors::CorsLayer;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::{
    Problem, ProblemCode,
    connection::ConnectionTable,
    fallback,
    health::Health,
    limits::{Limits, ServerCapacity, UncountedAnswer, hold_until_sent, large_size},
    observe::{self, Gauges, ObservedRequest, Observer, Rejection, TARGET},
    routers::Routers,
    unambiguous,
};

/// What every request passes before the router of its system.
pub(crate) struct Pipeline {
    routers: Routers,
    limits: Arc<Limits>,
    observer: Arc<Observer>,
    health: Arc<Health>,
    cors: Option<CorsLayer>,
    /// The store, if it counts its calls.
    store: Option<Arc<MeteredStore>>,
    capacity: Arc<ServerCapacity>,
    /// The open connections of the public listener.
    connections: Arc<ConnectionTable>,
}

impl Pipeline {
    pub(crate) fn new(
        routers: Routers,
        limits: Arc<Limits>,
        observer: Arc<Observer>,
        health: Arc<Health>,
        cors: Option<CorsLayer>,
        store: Option<Arc<MeteredStore>>,
        capacity: Arc<ServerCapacity>,
    ) -> Self {
        let connections = ConnectionTable::new(limits.connections, limits.connections_per_address);
        Pipeline { routers, limits, observer, health, cors, store, capacity, connections }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn health(&self) -> &Health {
        &self.health
    }

    pub(crate) fn connections(&self) -> &Arc<ConnectionTable> {
        &self.connections
    }

    /// Answers a request within the limits, and logs it.
    pub(crate) async fn answer(&self, peer: &Arc<str>, mut request: Request) -> Response {
        let observed = self.observer.observe_request(peer, &mut request);
        if let Err(problem) = unambiguous::verify(&request) {
            return observed.end(fallback::refuse(request, problem).await);
        }
        // Probes need no permit, so that a busy server is not taken for a dead one.
        if let Some(answer) = self.probe(request.method(), request.uri().path(), &observed).await {
            return observed.end_unlogged(answer);
        }
        let response = match &self.cors {
            None => self.answer_within_limits(&observed, request).await,
            // CORS is around the limits, so that pages can read 429 and 503 too.
            Some(cors) => {
                let preflight = (request.method() == Method::OPTIONS).then(|| request.uri().clone());
                match cors.layer(LimitedService { pipeline: self, observed: &observed }).call(request).await {
                    Ok(response) => self.with_methods(response, preflight).await,
                    Err(never) => match never {},
                }
            }
        };
        observed.end(response)
    }

    /// The same answer; that to a preflight says which methods the path has, if its origin is allowed.
    async fn with_methods(&self, mut response: Response, preflight: Option<Uri>) -> Response {
        if let Some(uri) = preflight
            && response.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN)
            && let Some(methods) = self.routers.methods_at(uri).await
        {
            response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        }
        response
    }

    /// Answers a request to the admin listener.
    pub(crate) async fn answer_admin(&self, peer: &Arc<str>, mut request: Request) -> Response {
        let observed = self.observer.observe_request(peer, &mut request);
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if is_read && request.uri().path() == server_path::METRICS {
            return observed.end_unlogged(self.metrics().await);
        }
        match self.probe(request.method(), request.uri().path(), &observed).await {
            Some(answer) => observed.end_unlogged(answer),
            None => observed.end(fallback::not_found(request).await),
        }
    }

    /// The answer to a health probe.
    async fn probe(&self, method: &Method, path: &str, observed: &ObservedRequest) -> Option<Response> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        match path {
            server_path::HEALTH => Some(self.health.alive()),
            server_path::READINESS => {
                let ready = self.health.ready().await;
                Some(ready.unwrap_or_else(|problem| problem.into_response(observed.id())))
            }
            _ => None,
        }
    }

    /// How many requests are in flight, and how many connections are open.
    pub(crate) fn in_use(&self) -> (usize, usize) {
        (self.capacity.in_flight(), self.connections.len())
    }

    async fn metrics(&self) -> Response {
        let (in_flight, connections) = self.in_use();
        let gauge = |name, help, value: usize| Measurement::gauge(name, help, value as f64);
        let mut measured = vec![
            gauge("requests_in_flight_limit", "Requests that may be in flight", self.limits.concurrent),
            gauge("connections_limit", "Connections that may be open", self.limits.connections),
            gauge(
                "bytes_in_flight",
                "Bytes of large answers and request bodies in flight",
                self.capacity.bytes_in_flight(),
            ),
            gauge("bytes_in_flight_limit", "Such bytes that may be in flight", self.limits.bytes_in_flight),
            gauge("reads_waiting", "Reads that wait for others to end", self.capacity.waiting_reads()),
        ];
        measured.extend(observe::process_measurements());
        measured.extend(self.health.measurements().await);
        let gauges = Gauges {
            in_flight,
            connections,
            systems: self.health.counters(),
            measured,
            store: self.store.as_ref().map(|store| store.engine_metrics()).unwrap_or_default(),
            usage: self.store.as_ref().map(|store| store.usage()).unwrap_or_default(),
        };
        let mut response = Response::new(Body::from(self.observer.metrics.text(gauges)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(observe::METRICS_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn answer_within_limits(&self, observed: &ObservedRequest, request: Request) -> Response {
        let refuse = |problem: Problem| {
            observed.log.failed(&problem);
            problem.into_response(observed.id())
        };
        let reject = |why, problem| {
            observed.rejected(why);
            refuse(problem)
        };
        let answering = AssertUnwindSafe(self.routers.find(request.uri().path()).call(request)).catch_unwind();
        match tokio::time::timeout(self.limits.time, answering).await {
            Ok(Ok(Ok(response))) => match large_size(&response) {
                Some(size) if response.extensions().get::<UncountedAnswer>().is_none() => {
                    match self.capacity.reserve(size) {
                        Ok(room) => hold_until_sent(response, room),
                        Err(problem) => refuse(problem),
                    }
                }
                _ => response,
            },
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_panic)) => {
                let at = observe::last_panic();
                tracing::error!(target: TARGET, request = observed.id(), at, "a request panicked");
                reject(Rejection::Panic, Problem::internal())
            }
            Err(_elapsed) => {
                let detail = "The request took too long. It is unknown whether it had an effect.";
                reject(Rejection::Timeout, Problem::from_code(ProblemCode::TIMEOUT, detail))
            }
        }
    }
}

/// [`Pipeline::answer_within_limits`] as a service, for the CORS layer around it.
struct LimitedService<'p> {
    pipeline: &'p Pipeline,
    observed: &'p ObservedRequest,
}

impl<'p> Service<Request> for LimitedService<'p> {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'p, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (pipeline, observed) = (self.pipeline, self.observed);
        Box::pin(async move { Ok(pipeline.answer_within_limits(observed, request).await) })
    }
}
