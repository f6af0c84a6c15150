//! The line that a request leaves in the log.

use std::time::Duration;

use super::{Observed, Spot};

/// What the lines of requests are logged under.
const TARGET: &str = "nagaya::access";
/// Characters of what stands for a user: enough to tell users apart, too few to be anybody's name.
const USER: usize = 12;

/// Logs a request that has ended.
pub(super) fn log(observed: &Observed<'_>, spot: &Spot, status: u16, took: Duration) {
    // Nothing is worked out for a line that nobody wants.
    if !tracing::enabled!(target: TARGET, tracing::Level::INFO) {
        return;
    }
    let (origin, seen) = (&observed.seen.origin, &observed.seen);
    let caller = seen.caller.get();
    let user = caller.map(|caller| blake3::keyed_hash(&observed.observer.log_key, caller.user.as_bytes()).to_hex());
    tracing::info!(
        target: TARGET,
        method = super::metrics::method(&observed.method),
        route = spot.route.as_str(),
        system = spot.system.as_str(),
        status,
        ms = millis(took),
        tenant = caller.and_then(|caller| caller.tenant.as_deref()),
        user = user.as_ref().map(|user| &user[..USER]),
        request = &*origin.request,
        correlation = &*origin.correlation,
        causation = origin.causation.as_deref(),
        code = seen.code.get().map(|code| &**code),
    );
}

/// Milliseconds, to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
