//! Bytes that requests read at the same time: from the store, until their answers are written.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// Bytes of a unit of capacity.
const UNIT: usize = 1024;
/// How long a read waits at most.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// How much a tenant, or all together, may read at the same time. Reads beyond it wait a moment in the order in which they came, and have
/// read nothing meanwhile.
#[derive(Debug)]
pub(crate) struct ReadCapacity {
    units: u32,
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A part of the capacity; dropping it gives it back.
pub(super) type ReadShare = OwnedSemaphorePermit;

impl ReadCapacity {
    /// Half of the limit of bytes in flight: what is read becomes such an answer, and is then there twice for a moment.
    pub(super) fn half_of(bytes_in_flight: usize) -> Self {
        let units = (bytes_in_flight / 2 / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        ReadCapacity { units, free: Arc::new(Semaphore::new(units as usize)), waiting: AtomicUsize::new(0) }
    }

    /// How many reads wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Waits until so many bytes may be read; `None` if that takes too long. What is larger than the capacity is read alone.
    pub(super) async fn acquire(&self, bytes: usize) -> Option<ReadShare> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units);
        match Arc::clone(&self.free).try_acquire_many_owned(units) {
            Ok(share) => return Some(share),
            Err(TryAcquireError::Closed) => return None,
            Err(TryAcquireError::NoPermits) => {}
        }
        let _waiting = Waiting::count(&self.waiting);
        tokio::time::timeout(MAX_WAIT, Arc::clone(&self.free).acquire_many_owned(units)).await.ok()?.ok()
    }
}

/// Counts a read as waiting until it is dropped.
struct Waiting<'c>(&'c AtomicUsize);

impl<'c> Waiting<'c> {
    fn count(waiting: &'c AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn reads_wait_until_there_is_capacity() {
        let reads = ReadCapacity::half_of(200 * UNIT);
        let first = reads.acquire(60 * UNIT).await;
        let mut second = Box::pin(reads.acquire(60 * UNIT));
        assert!((&mut second).now_or_never().is_none());
        assert!(reads.acquire(1).now_or_never().is_none(), "nobody overtakes");
        assert_eq!(reads.waiting(), 1);
        drop(first);
        assert!(second.now_or_never().flatten().is_some());
        assert_eq!(reads.waiting(), 0);
    }

    #[tokio::test]
    async fn what_is_larger_than_the_capacity_is_read_alone() {
        let reads = ReadCapacity::half_of(200 * UNIT);
        let large = reads.acquire(usize::MAX).now_or_never().flatten().expect("the whole capacity");
        assert!(reads.acquire(1).now_or_never().is_none());
        drop(large);
        assert!(reads.acquire(1).now_or_never().flatten().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_does_not_wait_for_ever() {
        let reads = ReadCapacity::half_of(200 * UNIT);
        let _first = reads.acquire(100 * UNIT).await.expect("capacity");
        let started = tokio::time::Instant::now();
        assert!(reads.acquire(1).await.is_none());
        assert_eq!(started.elapsed().as_secs(), MAX_WAIT.as_secs());
        assert_eq!(reads.waiting(), 0);
    }
}
