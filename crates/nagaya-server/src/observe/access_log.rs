//! The log line of a request.

use std::{ops::Deref, time::Duration};

use super::{CLIENT_CLOSED_REQUEST, ObservedRequest};
use crate::identity::Caller;

/// The target of the log lines of requests.
const TARGET: &str = "nagaya::access";
/// Characters of the hash of a user: enough to tell users apart.
const USER_HASH: usize = 12;

/// Writes the line at a level, if the level is enabled. `tracing` needs the level at compile time, hence a macro.
macro_rules! line {
    ($level:ident, $observed:ident, $status:ident, $took:ident, $streamed:ident) => {
        if tracing::enabled!(target: TARGET, tracing::Level::$level) {
            let (log, observer) = (&$observed.log, &$observed.observer);
            let (origin, route, caller) = (&log.origin, $observed.route(), log.caller.get());
            let user = caller.map(|(caller, nagaya)| user_hash(&nagaya.log_keys().newest(), caller));
            let tenant = caller.and_then(|(caller, nagaya)| Some(nagaya.tenant_in_logs(caller.tenant.as_deref()?)));
            // A stream lasts until the client disconnects, which is not slow.
            let slow = $streamed.is_none() && $took >= observer.slow;
            tracing::event!(
                target: TARGET,
                tracing::Level::$level,
                method = super::metrics::method(&$observed.method),
                route = route.route.as_str(),
                system = route.system.as_str(),
                status = $status,
                ms = millis($took),
                slow = slow.then_some(true),
                bytes = $streamed,
                tenant = tenant.as_deref(),
                user = user.as_ref().map(|user| &user[..USER_HASH]),
                request = &*origin.request,
                correlation = &*origin.correlation,
                causation = origin.causation.as_deref(),
                trace = origin.trace.as_deref(),
                code = log.code.get().map(|code| &**code),
            );
        }
    };
}

/// Logs a request that has ended; `streamed`: the bytes of an answer that was a stream.
pub(super) fn write(observed: &ObservedRequest, status: u16, took: Duration, streamed: Option<u64>) {
    match status {
        500 => line!(ERROR, observed, status, took, streamed),
        CLIENT_CLOSED_REQUEST | 501.. => line!(WARN, observed, status, took, streamed),
        _ => line!(INFO, observed, status, took, streamed),
    }
}

/// The keyed hash of issuer and user in hexadecimal digits.
fn user_hash(key: &[u8; 32], caller: &Caller) -> impl Deref<Target = str> + use<> {
    let mut hasher = blake3::Hasher::new_keyed(key);
    // As `Caller::identity` writes it.
    hasher.update(caller.issuer.as_bytes()).update(b" ").update(caller.user.as_bytes());
    hasher.finalize().to_hex()
}

/// Milliseconds, to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
