//! Bytes of answers that clients have not read yet.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How many there are, of a tenant or of all, and how many there may be.
#[derive(Debug)]
pub(crate) struct UnreadBytes {
    limit: usize,
    now: AtomicUsize,
}

/// An answer that counts, until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the answer"]
pub(crate) struct UnreadAnswer {
    of: Arc<UnreadBytes>,
    bytes: usize,
}

impl UnreadBytes {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(UnreadBytes { limit, now: AtomicUsize::new(0) })
    }

    /// Room for an answer of at most this size, within the limit. A single answer always has room.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<UnreadAnswer> {
        let fits = |sum: &usize| *sum == bytes || *sum <= self.limit;
        let add = |now: usize| Some(now.saturating_add(bytes)).filter(fits);
        self.now.fetch_update(Relaxed, Relaxed, add).ok()?;
        Some(UnreadAnswer { of: Arc::clone(self), bytes })
    }

    /// Counts an answer that has to be given, within the limit or not.
    pub(super) fn count(self: &Arc<Self>, bytes: usize) -> UnreadAnswer {
        self.now.fetch_add(bytes, Relaxed);
        UnreadAnswer { of: Arc::clone(self), bytes }
    }
}

impl Drop for UnreadAnswer {
    fn drop(&mut self) {
        self.of.now.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_room_within_the_limit_until_they_are_dropped() {
        let unread = UnreadBytes::new(100);
        let first = unread.reserve(60).expect("room");
        let _second = unread.reserve(40).expect("room");
        assert!(unread.reserve(1).is_none());
        drop(first);
        let _third = unread.reserve(60).expect("room again");
    }

    #[test]
    fn a_single_answer_may_be_larger_than_the_limit() {
        let unread = UnreadBytes::new(100);
        let _large = unread.reserve(300).expect("room");
        assert!(unread.reserve(1).is_none());
    }

    #[test]
    fn an_answer_that_has_to_be_given_counts_beyond_the_limit() {
        let unread = UnreadBytes::new(100);
        let answers = (unread.count(80), unread.count(80));
        assert!(unread.reserve(10).is_none());
        drop(answers.0);
        assert!(unread.reserve(10).is_some());
    }
}
