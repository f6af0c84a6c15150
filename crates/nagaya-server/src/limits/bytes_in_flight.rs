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

    /// How many there are.
    pub(super) fn now(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// Room for bytes that will come.
    pub(super) fn reserve_none(self: &Arc<Self>) -> ReservedBytes {
        ReservedBytes { of: Arc::clone(self), bytes: 0 }
    }

    /// Counts bytes that are there in any case, within the limit or not.
    pub(super) fn count(self: &Arc<Self>, bytes: usize) -> ReservedBytes {
        self.now.fetch_add(bytes, Relaxed);
        ReservedBytes { of: Arc::clone(self), bytes }
    }
}

impl ReservedBytes {
    /// Reserves so many more bytes, within the limit. There is always room if nothing else is in flight.
    pub(super) fn grow(&mut self, bytes: usize) -> Option<()> {
        let own = self.bytes.saturating_add(bytes);
        let fits = |sum: &usize| *sum == own || *sum <= self.of.limit;
        let add = |now: usize| Some(now.saturating_add(bytes)).filter(fits);
        self.of.now.fetch_update(Relaxed, Relaxed, add).ok()?;
        self.bytes = own;
        Some(())
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

    fn reserve(unread: &Arc<BytesInFlight>, bytes: usize) -> Option<ReservedBytes> {
        let mut reserved = unread.reserve_none();
        reserved.grow(bytes).map(|()| reserved)
    }

    #[test]
    fn answers_have_room_within_the_limit_until_they_are_dropped() {
        let unread = BytesInFlight::new(100);
        let first = reserve(&unread, 60).expect("room");
        let _second = reserve(&unread, 40).expect("room");
        assert!(reserve(&unread, 1).is_none());
        drop(first);
        let _third = reserve(&unread, 60).expect("room again");
    }

    #[test]
    fn a_single_request_may_have_more_than_the_limit_even_in_parts() {
        let unread = BytesInFlight::new(100);
        let mut large = reserve(&unread, 300).expect("room");
        large.grow(50).expect("room");
        assert_eq!(unread.now(), 350);
        assert!(reserve(&unread, 1).is_none());
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let unread = BytesInFlight::new(100);
        let (_other, mut growing) = (reserve(&unread, 60).expect("room"), reserve(&unread, 20).expect("room"));
        assert!(growing.grow(21).is_none());
        assert_eq!(unread.now(), 80);
        growing.grow(20).expect("room");
        drop(growing);
        assert_eq!(unread.now(), 60);
    }

    #[test]
    fn an_answer_that_has_to_be_given_counts_beyond_the_limit() {
        let unread = BytesInFlight::new(100);
        let answers = (unread.count(80), unread.count(80));
        assert!(reserve(&unread, 10).is_none());
        drop(answers.0);
        assert!(reserve(&unread, 10).is_some());
    }
}
