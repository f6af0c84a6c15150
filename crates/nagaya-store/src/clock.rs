//! The clock, which is passed in so that tests can be the ones to move it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
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

    /// The clock of the machine, as far as it can be believed: a sudden jump counts once it has lasted a minute, so that a
    /// clock that is wrong for a moment neither expires items nor spoils the order of moments.
    pub fn steady() -> Self {
        let (wall, began) = (Clock::system(), Instant::now());
        let steady = Steady::new(move || wall.millis(), move || began.elapsed());
        Clock::new(move || steady.millis())
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

/// How far the clock of the machine may move against the time that has passed, in milliseconds.
const TOLERATED: i64 = 2_000;
/// How long a jump has to last until it counts, in milliseconds.
const LASTS: i64 = 60_000;
const NEVER: i64 = -1;

/// A clock that is held against the time that has passed since the process began.
struct Steady<W, E> {
    wall: W,
    elapsed: E,
    /// What the wall clock showed when the process began.
    start: AtomicI64,
    /// When the clock jumped, in milliseconds of the time that has passed; `NEVER`: it shows what it should.
    jumped: AtomicI64,
}

impl<W: Fn() -> i64, E: Fn() -> Duration> Steady<W, E> {
    fn new(wall: W, elapsed: E) -> Self {
        let start = AtomicI64::new(wall() - millis(elapsed()));
        Steady { wall, elapsed, start, jumped: AtomicI64::new(NEVER) }
    }

    fn millis(&self) -> i64 {
        let (wall, passed) = ((self.wall)(), millis((self.elapsed)()));
        let expected = self.start.load(Ordering::Relaxed).saturating_add(passed);
        let moved = wall.saturating_sub(expected);
        let jumped = self.jumped.load(Ordering::Relaxed);
        if moved.abs() <= TOLERATED {
            if moved.abs() > TOLERATED / 2 {
                // A clock that is corrected bit by bit is followed.
                self.start.store(wall.saturating_sub(passed), Ordering::Relaxed);
            }
            if jumped != NEVER {
                self.jumped.store(NEVER, Ordering::Relaxed);
            }
            return wall;
        }
        if jumped == NEVER {
            self.jumped.store(passed, Ordering::Relaxed);
            tracing::warn!(moved_ms = moved, "the clock has jumped; it is not followed unless that lasts a minute");
            return expected;
        }
        if passed - jumped < LASTS {
            return expected;
        }
        self.start.store(wall.saturating_sub(passed), Ordering::Relaxed);
        self.jumped.store(NEVER, Ordering::Relaxed);
        tracing::warn!(moved_ms = moved, "the jump of the clock has lasted, and counts from now on");
        wall
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wall clock and the time that has passed, both in milliseconds.
    struct Hands {
        wall: Arc<AtomicI64>,
        passed: Arc<AtomicI64>,
    }

    impl Hands {
        fn steady() -> (Self, Steady<impl Fn() -> i64, impl Fn() -> Duration>) {
            let hands = Hands { wall: Arc::new(AtomicI64::new(1_000_000)), passed: Arc::default() };
            let (wall, passed) = (Arc::clone(&hands.wall), Arc::clone(&hands.passed));
            let elapsed = move || Duration::from_millis(passed.load(Ordering::SeqCst).unsigned_abs());
            (hands, Steady::new(move || wall.load(Ordering::SeqCst), elapsed))
        }

        /// Time passes, and the wall clock jumps besides.
        fn pass(&self, millis: i64, jump: i64) {
            self.passed.fetch_add(millis, Ordering::SeqCst);
            self.wall.fetch_add(millis + jump, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_jump_that_is_taken_back_is_never_seen() {
        for jump in [3_600_000, -3_600_000] {
            let (hands, steady) = Hands::steady();
            hands.pass(5_000, 0);
            assert_eq!(steady.millis(), 1_005_000);
            hands.pass(1_000, jump);
            assert_eq!(steady.millis(), 1_006_000);
            hands.pass(30_000, 0);
            assert_eq!(steady.millis(), 1_036_000);
            hands.pass(1_000, -jump);
            assert_eq!(steady.millis(), 1_037_000);
        }
    }

    #[test]
    fn a_jump_that_lasts_counts() {
        let (hands, steady) = Hands::steady();
        hands.pass(1_000, 3_600_000);
        assert_eq!(steady.millis(), 1_001_000);
        hands.pass(61_000, 0);
        assert_eq!(steady.millis(), 1_062_000 + 3_600_000);
        hands.pass(1_000, 0);
        assert_eq!(steady.millis(), 1_063_000 + 3_600_000);
    }

    #[test]
    fn a_clock_that_is_corrected_bit_by_bit_is_followed() {
        let (hands, steady) = Hands::steady();
        for step in 1..=100 {
            hands.pass(1_000, 100);
            assert_eq!(steady.millis(), 1_000_000 + step * 1_100);
        }
    }
}
