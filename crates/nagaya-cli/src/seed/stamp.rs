//! Time and ids for the store layer: those of the item that is being made, where the layer makes its id itself.
//!
//! Where an id is shared by all tenants a caller cannot choose it. It is still to be the same in every run, and to tell the
//! item's moment and not the one at which it was seeded.

use std::cell::Cell;

use nagaya_store::Clock;
use nagaya_tenancy::Ids;

/// A moment, and the bits of an id.
pub(super) type Stamp = (i64, u128);

thread_local! {
    static STAMP: Cell<Option<Stamp>> = const { Cell::new(None) };
}

/// The stamp's moment while there is a stamp, else the time.
pub(super) fn clock() -> Clock {
    let system = Clock::system();
    Clock::new(move || STAMP.get().map_or_else(|| system.millis(), |(moment, _)| moment))
}

/// The stamp's bits while there is a stamp, else random ones.
pub(super) fn ids() -> Ids {
    Ids::new(|| STAMP.get().map_or_else(|| fastrand::u128(..), |(_, bits)| bits))
}

/// Does something that does not wait with a stamp.
pub(super) fn with<T>(stamp: Option<Stamp>, act: impl FnOnce() -> T) -> T {
    STAMP.set(stamp);
    let done = act();
    STAMP.set(None);
    done
}
