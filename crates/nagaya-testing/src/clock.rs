//! Clocks that tests move.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_store::Clock;

/// A clock that moves only when a test moves it. Clones show the same time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::at(ManualClock::START)
    }
}

impl ManualClock {
    /// 2030-01-01T00:00:00Z: far enough ahead that no server sweeps away what expires after it.
    pub const START: i64 = 1_893_456_000_000;

    /// A clock that shows this time, in milliseconds since 1970.
    pub fn at(millis: i64) -> Self {
        ManualClock(Arc::new(AtomicI64::new(millis)))
    }

    /// The clock for stores and data layers.
    pub fn clock(&self) -> Clock {
        let clock = self.clone();
        Clock::new(move || clock.millis())
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Sets the clock to this time, in milliseconds since 1970.
    pub fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    /// The milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
