//! Settings of the engine.

use std::time::Duration;

use nagaya_store::Clock;

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Tells the time, for expiry and retention.
    pub clock: Clock,
    /// How long changes are kept.
    pub retention: Duration,
    /// Bytes of the read cache.
    pub cache_bytes: u64,
    /// How often expired items and old changes are swept away; `None`: only by hand.
    pub sweep_every: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: Clock::system(),
            retention: Duration::from_secs(7 * 24 * 3600),
            cache_bytes: 64 * 1024 * 1024,
            sweep_every: Some(Duration::from_secs(1)),
        }
    }
}
