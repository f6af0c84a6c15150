//! Observation: ids, logs and metrics of every request.
//!
//! A request gets its ids when it comes in, and leaves one line in the log and its marks in the metrics however it ends. What
//! is only known deeper inside (the route, the caller, the error code) is noted in [`Seen`] on the way.
//!
//! Nothing that a user typed is ever logged: routes are logged by their template and not by their path, queries and
//! bodies are not looked at, and a user is a short keyed hash.

mod access;
mod ids;
mod libraries;
mod logs;
mod measured;
mod metrics;
mod process;
mod repeats;
mod stream;

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

pub use self::logs::{BadFilter, LogFormat, Logs, init, subscriber};
use self::stream::Streamed;
pub(crate) use self::{
    ids::{CAUSATION_ID, CORRELATION_ID, REQUEST_ID},
    logs::last_panic,
    metrics::{CONTENT_TYPE as METRICS_TYPE, Gauges, Household, Metrics, Rejection, Spot},
    process::measurements as process_measurements,
    repeats::Repeats,
};
use crate::{Origin, Problem, identity::Caller, limits};

/// The status under which a request is counted whose client went away before its answer.
const GONE: u16 = 499;
/// How often the cause of the same failure is logged.
const FAILURES: Duration = Duration::from_secs(1);
/// What the server logs about itself.
pub(crate) const TARGET: &str = "nagaya::server";

/// Sees every request come and go.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) metrics: Arc<Metrics>,
    /// How many proxies in front of the server are known to say the truth about where requests come from.
    trusted_proxies: usize,
    /// The key of what stands for a user in the logs.
    log_key: [u8; 32],
    /// A request that takes longer is marked.
    slow: Duration,
    /// The causes of failures that have been logged.
    failures: Repeats,
}

/// What is known of a request, and what becomes known on its way inside. It is read however the request ends.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) origin: Origin,
    spot: OnceLock<Arc<Spot>>,
    caller: OnceLock<Arc<Caller>>,
    code: OnceLock<Cow<'static, str>>,
    cause: OnceLock<String>,
}

impl Seen {
    /// The route that it came by.
    pub(crate) fn at(&self, spot: Arc<Spot>) {
        let _ = self.spot.set(spot);
    }

    /// Who asks.
    pub(crate) fn by(&self, caller: &Arc<Caller>) {
        let _ = self.caller.set(Arc::clone(caller));
    }

    /// The problem that it ended with.
    pub(crate) fn failed(&self, problem: &Problem) {
        let _ = self.code.set(problem.code().to_owned().into());
        if let Some(cause) = problem.cause() {
            let _ = self.cause.set(cause.to_owned());
        }
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Observed {
    observer: Arc<Observer>,
    began: Instant,
    method: Method,
    pub(crate) seen: Arc<Seen>,
    ended: bool,
}

impl Observer {
    /// With a key of its own making, unless it is given one.
    pub(crate) fn new(
        metrics: Arc<Metrics>,
        trusted_proxies: usize,
        log_key: Option<[u8; 32]>,
        slow: Duration,
    ) -> Self {
        let log_key = log_key.unwrap_or_else(|| {
            let mut key = [0; 32];
            // A machine without randomness has greater worries: no id and no token could be made on it.
            let _ = getrandom::fill(&mut key);
            key
        });
        Observer { metrics, trusted_proxies, log_key, slow, failures: Repeats::new(FAILURES) }
    }

    /// Gives a request its ids.
    pub(crate) fn begin(self: &Arc<Self>, peer: &Arc<str>, request: &mut Request) -> Observed {
        let origin = ids::origin(peer, self.trusted_proxies, request.headers());
        let seen = Arc::new(Seen { origin, ..Seen::default() });
        request.extensions_mut().insert(Arc::clone(&seen));
        let method = request.method().clone();
        Observed { observer: Arc::clone(self), began: Instant::now(), method, seen, ended: false }
    }
}

impl Observed {
    /// The id of the request.
    pub(crate) fn id(&self) -> &str {
        &self.seen.origin.request
    }

    /// Says that it was not let through, and why.
    pub(crate) fn rejected(&self, why: Rejection) {
        self.observer.metrics.rejected(why);
    }

    /// Says how it ended. An answer whose length is not known yet ends when it has been sent.
    pub(crate) fn end(mut self, response: Response) -> Response {
        let status = response.status().as_u16();
        let response = self.mark(response);
        let took = self.count(status);
        if response.body().size_hint().exact().is_some() {
            self.log(status, took, None);
            return response;
        }
        response.map(|body| Body::new(Streamed::new(body, self, status)))
    }

    /// Ends it without a trace: probes come every few seconds, and tell nothing.
    pub(crate) fn unnoticed(mut self, response: Response) -> Response {
        self.ended = true;
        self.mark(response)
    }

    /// Says that an answer has been sent, as far as somebody read it.
    fn streamed(&self, status: u16, bytes: u64) {
        self.log(status, self.began.elapsed(), Some(bytes));
    }

    /// The headers that every answer has.
    fn mark(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        // An id is made of letters, digits and a few signs that can all stand in a header.
        if let Ok(id) = HeaderValue::from_str(&self.seen.origin.request) {
            headers.insert(REQUEST_ID, id);
        }
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// Counts it, with the time until its answer began: how long somebody listens says nothing about the server.
    fn count(&mut self, status: u16) -> Duration {
        self.ended = true;
        let took = self.began.elapsed();
        self.spot().count(status, took);
        if status == 429 && self.seen.code.get().is_some_and(|code| code == limits::RATE_LIMITED) {
            self.rejected(Rejection::Rate);
        }
        took
    }

    /// Writes its line, and what it failed from.
    fn log(&self, status: u16, took: Duration, streamed: Option<u64>) {
        if let (Some(code), Some(cause)) = (self.seen.code.get(), self.seen.cause.get()) {
            self.observer.failed(self, status, code, cause);
        }
        access::log(self, status, took, streamed);
    }

    fn spot(&self) -> &Spot {
        self.seen.spot.get().unwrap_or_else(|| self.observer.metrics.nowhere())
    }
}

impl Observer {
    /// Logs why a request failed. A store that is down fails every request: the same failure is logged once in a while.
    fn failed(&self, observed: &Observed, status: u16, code: &str, cause: &str) {
        let Some(suppressed) = self.failures.pass(code) else { return };
        let (request, spot) = (observed.id(), observed.spot());
        let (system, route) = (spot.system.as_str(), spot.route.as_str());
        let suppressed = (suppressed > 0).then_some(suppressed);
        if status == 500 {
            tracing::error!(target: TARGET, request, system, route, code, cause, suppressed, "a request has failed");
        } else {
            tracing::warn!(target: TARGET, request, system, route, code, cause, suppressed, "a request has failed");
        }
    }
}

impl Drop for Observed {
    /// A client that goes away takes its request with it: that, too, is an end.
    fn drop(&mut self) {
        if !self.ended {
            let took = self.count(GONE);
            self.log(GONE, took, None);
        }
    }
}
