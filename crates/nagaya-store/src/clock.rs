//! The clock, which is passed in so that tests can be the ones to move it.

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
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

    /// The milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        (self.0)()
    }

    /// The whole seconds since 1970.
    pub fn seconds(&self) -> i64 {
        self.millis().div_euclid(1000)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
