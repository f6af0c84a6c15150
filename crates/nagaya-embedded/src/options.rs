//! Settings of the engine.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Tells the milliseconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// The clock of the machine.
    pub fn system() -> Self {
        Clock::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    }

    /// A clock of one's own, for tests.
    pub fn new(millis: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Clock(Arc::new(millis))
    }

    pub(crate) fn millis(&self) -> i64 {
        (self.0)()
    }

    pub(crate) fn seconds(&self) -> i64 {
        self.millis().div_euclid(1000)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

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
