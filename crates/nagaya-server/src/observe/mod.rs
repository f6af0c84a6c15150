//! Observation: ids, logs and metrics of every request.
//!
//! A request gets its ids when it comes in, and leaves one line in the log and its marks in the metrics however it ends. What
//! is only known deeper inside (the route, the caller, the error code) is noted in [`Seen`] on the way.
//!
//! Nothing that a user typed is ever logged: routes are logged by their template and not by their path, queries and
//! bodies are not looked at, and a user is a short keyed hash.

mod access;
mod ids;
mod logs;
mod metrics;

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Instant,
};

use axum::{
    extract::Request,
    http::{HeaderValue, Method, header},
    response::Response,
};

pub use self::logs::{BadFilter, LogFormat, Logs, init, subscriber};
pub(crate) use self::{
    ids::{CAUSATION_ID, CORRELATION_ID, REQUEST_ID},
    logs::last_panic,
    metrics::{CONTENT_TYPE as METRICS_TYPE, Gauges, Household, Metrics, Rejection, Spot},
};
use crate::{Origin, identity::Caller, limits};

/// The status under which a request is counted whose client went away before its answer.
const GONE: u16 = 499;

/// Sees every request come and go.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) metrics: Arc<Metrics>,
    /// How many proxies in front of the server are known to say the truth about where requests come from.
    trusted_proxies: usize,
    /// The key of what stands for a user in the logs.
    log_key: [u8; 32],
}

/// What is known of a request, and what becomes known on its way inside. It is read however the request ends.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) origin: Origin,
    spot: OnceLock<Arc<Spot>>,
    caller: OnceLock<Arc<Caller>>,
    code: OnceLock<Cow<'static, str>>,
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

    /// The code of the problem that it ended with.
    pub(crate) fn failed(&self, code: impl Into<Cow<'static, str>>) {
        let _ = self.code.set(code.into());
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Observed<'o> {
    observer: &'o Observer,
    began: Instant,
    method: Method,
    pub(crate) seen: Arc<Seen>,
    ended: bool,
}

impl Observer {
    /// With a key of its own making, unless it is given one.
    pub(crate) fn new(metrics: Arc<Metrics>, trusted_proxies: usize, log_key: Option<[u8; 32]>) -> Self {
        let log_key = log_key.unwrap_or_else(|| {
            let mut key = [0; 32];
            // A machine without randomness has greater worries: no id and no token could be made on it.
            let _ = getrandom::fill(&mut key);
            key
        });
        Observer { metrics, trusted_proxies, log_key }
    }

    /// Gives a request its ids.
    pub(crate) fn begin(&self, peer: &Arc<str>, request: &mut Request) -> Observed<'_> {
        let origin = ids::origin(peer, self.trusted_proxies, request.headers());
        let seen = Arc::new(Seen { origin, ..Seen::default() });
        request.extensions_mut().insert(Arc::clone(&seen));
        let method = request.method().clone();
        Observed { observer: self, began: Instant::now(), method, seen, ended: false }
    }
}

impl Observed<'_> {
    /// The id of the request.
    pub(crate) fn id(&self) -> &str {
        &self.seen.origin.request
    }

    /// Says that it was not let through, and why.
    pub(crate) fn rejected(&self, why: Rejection) {
        self.observer.metrics.rejected(why);
    }

    /// Says how it ended.
    pub(crate) fn end(mut self, response: Response) -> Response {
        self.account(response.status().as_u16());
        self.mark(response)
    }

    /// Ends it without a trace: probes come every few seconds, and tell nothing.
    pub(crate) fn unnoticed(mut self, response: Response) -> Response {
        self.ended = true;
        self.mark(response)
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

    fn account(&mut self, status: u16) {
        self.ended = true;
        let took = self.began.elapsed();
        let spot = self.seen.spot.get().unwrap_or_else(|| self.observer.metrics.nowhere());
        spot.count(status, took);
        if status == 429 && self.seen.code.get().is_some_and(|code| code == limits::RATE_LIMITED) {
            self.rejected(Rejection::Rate);
        }
        access::log(self, spot, status, took);
    }
}

impl Drop for Observed<'_> {
    /// A client that goes away takes its request with it: that, too, is an end.
    fn drop(&mut self) {
        if !self.ended {
            self.account(GONE);
        }
    }
}
