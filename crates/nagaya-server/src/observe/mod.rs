//! Observability: ids, logs and metrics of every request.
//!
//! A request gets its ids when it comes in, and is logged and counted once however it ends. What is known only later (the
//! route, the caller, the problem code) is recorded in its [`RequestLog`].
//!
//! Nothing that a user typed is logged: routes are logged by template and not by path, queries and bodies are not read, and
//! a user is a short keyed hash.

mod access_log;
mod collectors;
mod ids;
mod log_bridge;
mod logs;
mod metrics;
mod process;
mod stream;
mod throttle;

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    http::{HeaderValue, Method, header},
    response::Response,
};

pub use self::logs::{BadFilter, LogFormat, LogGuard, init, init_unbuffered, subscriber};
use nagaya_tenancy::Nagaya;

use self::stream::LoggedStream;
pub(crate) use self::{
    ids::{CAUSATION_ID, CORRELATION_ID, REQUEST_ID, TRACE_ID},
    logs::last_panic,
    metrics::{CONTENT_TYPE as METRICS_TYPE, Gauges, Metrics, Rejection, RouteMetrics, SystemCounters},
    process::measurements as process_measurements,
    throttle::LogThrottle,
};
use crate::{Problem, ProblemCode, RequestOrigin, identity::Caller};

/// The status of a request whose client closed the connection before the answer.
const CLIENT_CLOSED_REQUEST: u16 = 499;
/// How often the cause of the same failure is logged.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(1);
/// The target of the server's own log lines.
pub(crate) const TARGET: &str = "nagaya::server";

/// Logs and counts every request.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) metrics: Arc<Metrics>,
    /// How many proxies in front of the server are trusted to report the address of the client.
    trusted_proxies: usize,
    /// A request that takes at least this long is marked as slow.
    slow: Duration,
    /// Limits how often the cause of a failure is logged.
    failures: LogThrottle,
}

/// What will be logged of a request. It is filled on the way, and written when the request ends.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    pub(crate) origin: RequestOrigin,
    route_metrics: OnceLock<Arc<RouteMetrics>>,
    /// The caller, and the data layer, which knows how its logs name people.
    caller: OnceLock<(Arc<Caller>, Nagaya)>,
    code: OnceLock<Cow<'static, str>>,
    cause: OnceLock<String>,
}

impl RequestLog {
    /// Records the route that the request matched.
    pub(crate) fn matched(&self, route: Arc<RouteMetrics>) {
        let _ = self.route_metrics.set(route);
    }

    /// Records the caller of a system.
    pub(crate) fn authenticated(&self, caller: &Arc<Caller>, nagaya: &Nagaya) {
        let _ = self.caller.set((Arc::clone(caller), nagaya.clone()));
    }

    /// Records the problem that the request is answered with.
    pub(crate) fn failed(&self, problem: &Problem) {
        let _ = self.code.set(problem.code().to_owned().into());
        if let Some(cause) = problem.cause() {
            let _ = self.cause.set(cause.to_owned());
        }
    }
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct ObservedRequest {
    observer: Arc<Observer>,
    began: Instant,
    method: Method,
    pub(crate) log: Arc<RequestLog>,
    ended: bool,
}

impl Observer {
    pub(crate) fn new(metrics: Arc<Metrics>, trusted_proxies: usize, slow: Duration) -> Self {
        Observer { metrics, trusted_proxies, slow, failures: LogThrottle::new(FAILURE_LOG_INTERVAL) }
    }

    /// Assigns ids to a request, and starts its log.
    pub(crate) fn observe_request(self: &Arc<Self>, peer: &Arc<str>, request: &mut Request) -> ObservedRequest {
        let origin = ids::origin(peer, self.trusted_proxies, request.headers());
        let log = Arc::new(RequestLog { origin, ..RequestLog::default() });
        request.extensions_mut().insert(Arc::clone(&log));
        let method = request.method().clone();
        ObservedRequest { observer: Arc::clone(self), began: Instant::now(), method, log, ended: false }
    }
}

impl ObservedRequest {
    /// The id of the request.
    pub(crate) fn id(&self) -> &str {
        &self.log.origin.request
    }

    /// Counts it as rejected.
    pub(crate) fn rejected(&self, why: Rejection) {
        self.observer.metrics.rejected(why);
    }

    /// Ends it with an answer. An answer that is a stream is logged when the stream ends.
    pub(crate) fn end(mut self, response: Response) -> Response {
        let status = response.status().as_u16();
        let response = self.with_headers(response);
        let took = self.count(status);
        if response.body().size_hint().exact().is_some() {
            self.write_log(status, took, None);
            return response;
        }
        response.map(|body| Body::new(LoggedStream::new(body, self, status)))
    }

    /// Ends it without a log line or a count, for probes.
    pub(crate) fn end_unlogged(mut self, response: Response) -> Response {
        self.ended = true;
        self.with_headers(response)
    }

    /// Logs the end of a stream.
    fn stream_ended(&self, status: u16, bytes: u64) {
        self.write_log(status, self.began.elapsed(), Some(bytes));
    }

    /// The headers that every answer has.
    fn with_headers(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        // An id has only characters that a header can have.
        if let Ok(id) = HeaderValue::from_str(&self.log.origin.request) {
            headers.insert(REQUEST_ID, id);
        }
        let trace = self.log.origin.trace.as_ref().map(|trace| HeaderValue::from_str(&format!("Root={trace}")));
        if let Some(Ok(trace)) = trace {
            headers.insert(TRACE_ID, trace);
        }
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// Counts it, with the time until its answer began: how long a client reads a stream says nothing about the server.
    fn count(&mut self, status: u16) -> Duration {
        self.ended = true;
        let took = self.began.elapsed();
        self.route().count(status, took);
        match self.log.code.get() {
            Some(code) if code == ProblemCode::RATE_LIMITED.code => self.rejected(Rejection::Rate),
            Some(code) if code == ProblemCode::OVERLOADED.code => self.rejected(Rejection::Overload),
            _ => {}
        }
        took
    }

    /// Writes its log line, and the cause of its failure.
    fn write_log(&self, status: u16, took: Duration, streamed: Option<u64>) {
        if let (Some(code), Some(cause)) = (self.log.code.get(), self.log.cause.get()) {
            self.observer.failed(self, status, code, cause);
        }
        access_log::write(self, status, took, streamed);
    }

    fn route(&self) -> &RouteMetrics {
        self.log.route_metrics.get().unwrap_or_else(|| self.observer.metrics.unrouted())
    }
}

impl Observer {
    /// Logs why a request failed; the same failure only once per interval, because a store that is down fails every request.
    fn failed(&self, observed: &ObservedRequest, status: u16, code: &str, cause: &str) {
        let Some(suppressed) = self.failures.should_log(code) else { return };
        let (request, route) = (observed.id(), observed.route());
        let (system, route) = (route.system.as_str(), route.route.as_str());
        let suppressed = (suppressed > 0).then_some(suppressed);
        if status == 500 {
            tracing::error!(target: TARGET, request, system, route, code, cause, suppressed, "a request failed");
        } else {
            tracing::warn!(target: TARGET, request, system, route, code, cause, suppressed, "a request failed");
        }
    }
}

impl Drop for ObservedRequest {
    /// Logs a request whose client closed the connection.
    fn drop(&mut self) {
        if !self.ended {
            let took = self.count(CLIENT_CLOSED_REQUEST);
            self.write_log(CLIENT_CLOSED_REQUEST, took, None);
        }
    }
}
