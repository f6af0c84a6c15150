//! What calls consume: engines that charge for calls report it here, and whoever pays asks for it.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    iter::Sum,
    ops::Add,
    pin::pin,
};

/// What calls consumed, in the units that the service charges.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Consumed {
    /// Units of reading.
    pub read_units: f64,
    /// Units of writing.
    pub write_units: f64,
}

impl Add for Consumed {
    type Output = Consumed;

    fn add(self, other: Consumed) -> Consumed {
        Consumed { read_units: self.read_units + other.read_units, write_units: self.write_units + other.write_units }
    }
}

impl Sum for Consumed {
    fn sum<I: Iterator<Item = Consumed>>(all: I) -> Consumed {
        all.fold(Consumed::default(), Add::add)
    }
}

thread_local! {
    /// What the future that is being polled has consumed.
    static METER: Cell<Consumed> = const { Cell::new(Consumed { read_units: 0.0, write_units: 0.0 }) };
}

/// Awaits a future, and tells what the calls in it consumed.
///
/// It counts what runs in this future, also side by side with others, but not what is spawned as a task of its own.
/// Meters can be nested: an outer one counts what an inner one does too. The embedded engine charges nothing.
///
/// ```
/// use nagaya_store::{Consumed, consume, metered};
///
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// let work = metered(async {
///     consume(Consumed { read_units: 0.5, write_units: 0.0 });
///     consume(Consumed { read_units: 0.0, write_units: 2.0 });
///     "done"
/// });
/// # let std::task::Poll::Ready((output, consumed)) = std::pin::pin!(work).poll(&mut context) else { panic!() };
/// # /*
/// let (output, consumed) = work.await;
/// # */
/// assert_eq!(output, "done");
/// assert_eq!(consumed, Consumed { read_units: 0.5, write_units: 2.0 });
/// ```
pub async fn metered<F: Future>(future: F) -> (F::Output, Consumed) {
    let mut future = pin!(future);
    let mut consumed = Consumed::default();
    let output = poll_fn(|context| {
        let outer = Outer(METER.take());
        let polled = future.as_mut().poll(context);
        consumed = consumed + METER.get();
        drop(outer);
        polled
    })
    .await;
    (output, consumed)
}

/// Reports what a call consumed to the meters around it. For engines.
pub fn consume(consumed: Consumed) {
    METER.set(METER.get() + consumed);
}

/// What an outer meter has counted so far; what the inner one counts is added when it goes, even by a panic.
struct Outer(Consumed);

impl Drop for Outer {
    fn drop(&mut self) {
        METER.set(self.0 + METER.get());
    }
}
