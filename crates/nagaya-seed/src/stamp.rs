//! Times and ids for items whose id the tenancy layer makes.
//!
//! A caller cannot choose an id that all tenants share. In sample data it still has to be the same in every run, and to tell
//! the item's time instead of the time of the run.

use std::cell::Cell;

use nagaya_store::Clock;
use nagaya_tenancy::IdGenerator;

/// A time in milliseconds since 1970, and the bits of an id.
pub type Stamp = (i64, u128);

thread_local! {
    static STAMP: Cell<Option<Stamp>> = const { Cell::new(None) };
}

/// A clock that shows the time of the stamp while there is one.
pub fn stamped_clock() -> Clock {
    let system = Clock::system();
    Clock::new(move || STAMP.get().map_or_else(|| system.millis(), |(time, _)| time))
}

/// Ids made of the stamp's bits while there is a stamp, else random ones.
pub fn stamped_ids() -> IdGenerator {
    IdGenerator::new(|| STAMP.get().map_or_else(|| fastrand::u128(..), |(_, bits)| bits))
}

/// Runs something that does not wait with a stamp.
pub fn with_stamp<T>(stamp: Option<Stamp>, run: impl FnOnce() -> T) -> T {
    STAMP.set(stamp);
    let done = run();
    STAMP.set(None);
    done
}
