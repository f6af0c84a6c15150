//! The clock. It is passed in, so that tests can set the time.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A source of the current time, in milliseconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// The system clock.
    pub fn system() -> Self {
        Clock::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
    }

    /// The system clock, but a sudden jump takes effect only after it has lasted a minute. A clock that is wrong for a
    /// moment then neither expires items nor breaks the order of timestamps.
    pub fn system_without_jumps() -> Self {
        let (wall, began) = (Clock::system(), Instant::now());
        let filter = JumpFilter::new(move || wall.millis(), move || began.elapsed());
        Clock::new(move || filter.millis())
    }

    /// A clock that calls this function, for tests.
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

/// How far the wall clock may differ from the elapsed time, in milliseconds.
const MAX_DRIFT: i64 = 2_000;
/// How long a jump must last before it takes effect, in milliseconds.
const JUMP_DELAY: i64 = 60_000;
const NO_JUMP: i64 = -1;

/// Compares a wall clock with the time elapsed since the process started, and holds back sudden jumps.
struct JumpFilter<W, E> {
    wall: W,
    elapsed: E,
    /// The wall-clock time at which the process started.
    start: AtomicI64,
    /// When the clock jumped, in elapsed milliseconds; `NO_JUMP` if it agrees with the elapsed time.
    jumped: AtomicI64,
}

impl<W: Fn() -> i64, E: Fn() -> Duration> JumpFilter<W, E> {
    fn new(wall: W, elapsed: E) -> Self {
        let start = AtomicI64::new(wall() - millis(elapsed()));
        JumpFilter { wall, elapsed, start, jumped: AtomicI64::new(NO_JUMP) }
    }

    fn millis(&self) -> i64 {
        let (wall, passed) = ((self.wall)(), millis((self.elapsed)()));
        let expected = self.start.load(Ordering::Relaxed).saturating_add(passed);
        let moved = wall.saturating_sub(expected);
        let jumped = self.jumped.load(Ordering::Relaxed);
        if moved.abs() <= MAX_DRIFT {
            if moved.abs() > MAX_DRIFT / 2 {
                // Follow small corrections of the clock.
                self.start.store(wall.saturating_sub(passed), Ordering::Relaxed);
            }
            if jumped != NO_JUMP {
                self.jumped.store(NO_JUMP, Ordering::Relaxed);
            }
            return wall;
        }
        if jumped == NO_JUMP {
            self.jumped.store(passed, Ordering::Relaxed);
            tracing::warn!(moved_ms = moved, "the system clock jumped; the jump is ignored unless it lasts a minute");
            return expected;
        }
        if passed - jumped < JUMP_DELAY {
            return expected;
        }
        self.start.store(wall.saturating_sub(passed), Ordering::Relaxed);
        self.jumped.store(NO_JUMP, Ordering::Relaxed);
        tracing::warn!(moved_ms = moved, "the jump of the system clock has lasted a minute and now takes effect");
        wall
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wall clock and an elapsed time that the test sets, both in milliseconds.
    struct FakeTime {
        wall: Arc<AtomicI64>,
        passed: Arc<AtomicI64>,
    }

    impl FakeTime {
        fn filtered() -> (Self, JumpFilter<impl Fn() -> i64, impl Fn() -> Duration>) {
            let time = FakeTime { wall: Arc::new(AtomicI64::new(1_000_000)), passed: Arc::default() };
            let (wall, passed) = (Arc::clone(&time.wall), Arc::clone(&time.passed));
            let elapsed = move || Duration::from_millis(passed.load(Ordering::SeqCst).unsigned_abs());
            (time, JumpFilter::new(move || wall.load(Ordering::SeqCst), elapsed))
        }

        /// Advances the time, and lets the wall clock jump as well.
        fn pass(&self, millis: i64, jump: i64) {
            self.passed.fetch_add(millis, Ordering::SeqCst);
            self.wall.fetch_add(millis + jump, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_jump_that_is_reverted_is_never_seen() {
        for jump in [3_600_000, -3_600_000] {
            let (time, filter) = FakeTime::filtered();
            time.pass(5_000, 0);
            assert_eq!(filter.millis(), 1_005_000);
            time.pass(1_000, jump);
            assert_eq!(filter.millis(), 1_006_000);
            time.pass(30_000, 0);
            assert_eq!(filter.millis(), 1_036_000);
            time.pass(1_000, -jump);
            assert_eq!(filter.millis(), 1_037_000);
        }
    }

    #[test]
    fn a_jump_that_lasts_takes_effect() {
        let (time, filter) = FakeTime::filtered();
        time.pass(1_000, 3_600_000);
        assert_eq!(filter.millis(), 1_001_000);
        time.pass(61_000, 0);
        assert_eq!(filter.millis(), 1_062_000 + 3_600_000);
        time.pass(1_000, 0);
        assert_eq!(filter.millis(), 1_063_000 + 3_600_000);
    }

    #[test]
    fn small_corrections_of_the_clock_are_followed() {
        let (time, filter) = FakeTime::filtered();
        for step in 1..=100 {
            time.pass(1_000, 100);
            assert_eq!(filter.millis(), 1_000_000 + step * 1_100);
        }
    }
}
