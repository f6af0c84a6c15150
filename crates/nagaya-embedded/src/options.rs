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
    /// Bytes that each space of keys holds in memory before they go to sorted files.
    pub write_buffer_bytes: u64,
    /// Bytes of journals after which spaces that are rarely written are flushed, so that old journals can go.
    pub journal_bytes: u64,
    /// Writes are refused while the disk has fewer bytes than this left, and warned of below twice as many; 0: never.
    pub min_free_bytes: u64,
    /// How often expired items and old changes are swept away, and the store looks after itself; `None`: only by hand.
    pub sweep_every: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: Clock::steady(),
            retention: Duration::from_secs(7 * 24 * 3600),
            cache_bytes: 64 * 1024 * 1024,
            write_buffer_bytes: 24 * 1024 * 1024,
            journal_bytes: 192 * 1024 * 1024,
            min_free_bytes: 256 * 1024 * 1024,
            sweep_every: Some(Duration::from_secs(1)),
        }
    }
}
