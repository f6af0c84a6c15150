//! ConsumedCapacity capacity: engines that charge per call report it here, and callers measure it.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    iter::Sum,
    ops::Add,
    pin::pin,
};

/// ConsumedCapacity capacity, in the units that the service charges.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConsumedCapacity {
    /// Read capacity units.
    pub read_units: f64,
    /// Write capacity units.
    pub write_units: f64,
}

impl Add for ConsumedCapacity {
    type Output = ConsumedCapacity;

    fn add(self, other: ConsumedCapacity) -> ConsumedCapacity {
        ConsumedCapacity {
            read_units: self.read_units + other.read_units,
            write_units: self.write_units + other.write_units,
        }
    }
}

impl Sum for ConsumedCapacity {
    fn sum<I: Iterator<Item = ConsumedCapacity>>(all: I) -> ConsumedCapacity {
        all.fold(ConsumedCapacity::default(), Add::add)
    }
}

thread_local! {
    /// The capacity consumed by the future that is being polled.
    static METER: Cell<ConsumedCapacity> = const { Cell::new(ConsumedCapacity { read_units: 0.0, write_units: 0.0 }) };
}

/// Awaits a future and measures the capacity that its calls report_consumed_capacity.
///
/// It measures everything that runs within this future, concurrent calls included, but not tasks that it spawns.
/// Measurements can be nested: the outer one includes the inner one. The embedded engine charges nothing.
///
/// ```
/// use nagaya_store::{ConsumedCapacity, report_consumed_capacity, measure_capacity};
///
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// let work = measure_capacity(async {
///     report_consumed_capacity(ConsumedCapacity { read_units: 0.5, write_units: 0.0 });
///     report_consumed_capacity(ConsumedCapacity { read_units: 0.0, write_units: 2.0 });
///     "done"
/// });
/// # let std::task::Poll::Ready((output, consumed)) = std::pin::pin!(work).poll(&mut context) else { panic!() };
/// # /*
/// let (output, consumed) = work.await;
/// # */
/// assert_eq!(output, "done");
/// assert_eq!(consumed, ConsumedCapacity { read_units: 0.5, write_units: 2.0 });
/// ```
pub async fn measure_capacity<F: Future>(future: F) -> (F::Output, ConsumedCapacity) {
    let mut future = pin!(future);
    let mut consumed = ConsumedCapacity::default();
    let output = poll_fn(|context| {
        let outer = OuterMeter(METER.take());
        let polled = future.as_mut().poll(context);
        consumed = consumed + METER.get();
        drop(outer);
        polled
    })
    .await;
    (output, consumed)
}

/// Reports the capacity that a call consumed. For engines.
pub fn report_consumed_capacity(consumed: ConsumedCapacity) {
    METER.set(METER.get() + consumed);
}

/// The count of an outer measurement. Dropping it, even by a panic, adds the count of the inner one.
struct OuterMeter(ConsumedCapacity);

impl Drop for OuterMeter {
    fn drop(&mut self) {
        METER.set(self.0 + METER.get());
    }
}
