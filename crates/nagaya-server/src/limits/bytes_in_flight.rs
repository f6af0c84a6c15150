//! Bytes in flight: of answers that clients have not read yet, and of request bodies until their request is answered.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How many there are, of a tenant or of all, and how many there may be.
#[derive(Debug)]
pub(crate) struct BytesInFlight {
    limit: usize,
    now: AtomicUsize,
}

/// Bytes that count until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the bytes back"]
pub(crate) struct ReservedBytes {
    of: Arc<BytesInFlight>,
    bytes: usize,
}

impl BytesInFlight {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(BytesInFlight { limit, now: AtomicUsize::new(0) })
    }

    /// Room for so many bytes, within the limit. There is always room if nothing else is in flight.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<ReservedBytes> {
        let fits = |sum: &usize| *sum == bytes || *sum <= self.limit;
        let add = |now: usize| Some(now.saturating_add(bytes)).filter(fits);
        self.now.fetch_update(Relaxed, Relaxed, add).ok()?;
        Some(ReservedBytes { of: Arc::clone(self), bytes })
    }

    /// Counts bytes that are there in any case, within the limit or not.
    pub(super) fn count(self: &Arc<Self>, bytes: usize) -> ReservedBytes {
        self.now.fetch_add(bytes, Relaxed);
        ReservedBytes { of: Arc::clone(self), bytes }
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.of.now.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_room_within_the_limit_until_they_are_dropped() {
        let unread = BytesInFlight::new(100);
        let first = unread.reserve(60).expect("room");
        let _second = unread.reserve(40).expect("room");
        assert!(unread.reserve(1).is_none());
        drop(first);
        let _third = unread.reserve(60).expect("room again");
    }

    #[test]
    fn a_single_answer_may_be_larger_than_the_limit() {
        let unread = BytesInFlight::new(100);
        let _large = unread.reserve(300).expect("room");
        assert!(unread.reserve(1).is_none());
    }

    #[test]
    fn an_answer_that_has_to_be_given_counts_beyond_the_limit() {
        let unread = BytesInFlight::new(100);
        let answers = (unread.count(80), unread.count(80));
        assert!(unread.reserve(10).is_none());
        drop(answers.0);
        assert!(unread.reserve(10).is_some());
    }
}
