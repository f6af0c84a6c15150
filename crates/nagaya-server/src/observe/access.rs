//! The line that a request leaves in the log.

use std::time::Duration;

use super::{GONE, Observed};

/// What the lines of requests are logged under.
const TARGET: &str = "nagaya::access";
/// Characters of what stands for a user: enough to tell users apart, too few to be anybody's name.
const USER: usize = 12;

/// Writes the line at a level, unless nobody wants it: then nothing is worked out for it. The level has to be known when
/// this is compiled.
macro_rules! line {
    ($level:ident, $observed:ident, $status:ident, $took:ident, $streamed:ident) => {
        if tracing::enabled!(target: TARGET, tracing::Level::$level) {
            let (seen, observer) = (&$observed.seen, &$observed.observer);
            let (origin, spot, caller) = (&seen.origin, $observed.spot(), seen.caller.get());
            let user = caller.map(|caller| blake3::keyed_hash(&observer.log_key, caller.user.as_bytes()).to_hex());
            // A stream lasts for as long as somebody listens, which is not slow.
            let slow = $streamed.is_none() && $took >= observer.slow;
            tracing::event!(
                target: TARGET,
                tracing::Level::$level,
                method = super::metrics::method(&$observed.method),
                route = spot.route.as_str(),
                system = spot.system.as_str(),
                status = $status,
                ms = millis($took),
                slow = slow.then_some(true),
                bytes = $streamed,
                tenant = caller.and_then(|caller| caller.tenant.as_deref()),
                user = user.as_ref().map(|user| &user[..USER]),
                request = &*origin.request,
                correlation = &*origin.correlation,
                causation = origin.causation.as_deref(),
                code = seen.code.get().map(|code| &**code),
            );
        }
    };
}

/// Logs a request that has ended; `streamed`: the bytes of an answer that went on for as long as it was listened to.
pub(super) fn log(observed: &Observed, status: u16, took: Duration, streamed: Option<u64>) {
    match status {
        500 => line!(ERROR, observed, status, took, streamed),
        GONE | 501.. => line!(WARN, observed, status, took, streamed),
        _ => line!(INFO, observed, status, took, streamed),
    }
}

/// Milliseconds, to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
