//! Bytes that requests read at the same time: from the store, until their answers are written.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a permit.
const UNIT: usize = 1024;

/// How much a tenant, or all together, may read at the same time. Requests beyond it wait in the order in which they came, and have
/// read nothing meanwhile.
#[derive(Debug)]
pub(crate) struct ReadCapacity {
    units: u32,
    free: Arc<Semaphore>,
}

/// A part of the capacity; dropping it gives it back.
pub(crate) type ReadPermit = OwnedSemaphorePermit;

impl ReadCapacity {
    /// Half of the limit of bytes in flight: what is read becomes such an answer, and is then there twice for a moment.
    pub(crate) fn beside(bytes_in_flight: usize) -> Arc<Self> {
        let units = (bytes_in_flight / 2 / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        Arc::new(ReadCapacity { units, free: Arc::new(Semaphore::new(units as usize)) })
    }

    /// Waits until so many bytes may be read. What is larger than the capacity is read alone.
    pub(crate) async fn acquire(&self, bytes: usize) -> Option<ReadPermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        // It is never closed.
        Arc::clone(&self.free).acquire_many_owned(units).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn reads_wait_until_there_is_capacity() {
        let reads = ReadCapacity::beside(200 * UNIT);
        let first = reads.acquire(60 * UNIT).await;
        let mut second = Box::pin(reads.acquire(60 * UNIT));
        assert!((&mut second).now_or_never().is_none());
        assert!(reads.acquire(1).now_or_never().is_none(), "nobody overtakes");
        drop(first);
        assert!(second.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn what_is_larger_than_the_capacity_is_read_alone() {
        let reads = ReadCapacity::beside(200 * UNIT);
        let large = reads.acquire(usize::MAX).now_or_never().flatten().expect("the whole capacity");
        assert!(reads.acquire(1).now_or_never().is_none());
        drop(large);
        assert!(reads.acquire(1).now_or_never().flatten().is_some());
    }
}
