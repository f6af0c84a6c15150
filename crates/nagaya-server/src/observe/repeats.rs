//! What goes on failing is told once, and then now and again.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// With so many names, those that were last told long ago are forgotten.
const MANY: usize = 256;

/// Lets a line through once in a while, and counts those in between.
#[derive(Debug)]
pub(crate) struct Repeats {
    every: Duration,
    told: Mutex<HashMap<String, Told>>,
}

#[derive(Debug)]
struct Told {
    at: Instant,
    suppressed: u64,
}

impl Repeats {
    /// Lets a line of each name through once in this time.
    pub(crate) fn new(every: Duration) -> Self {
        Repeats { every, told: Mutex::default() }
    }

    /// How many lines of this name were suppressed since the last one; `None`: this one is suppressed too.
    pub(crate) fn pass(&self, name: &str) -> Option<u64> {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = told.get_mut(name) {
            if now.duration_since(told.at) < self.every {
                told.suppressed += 1;
                return None;
            }
            told.at = now;
            return Some(std::mem::take(&mut told.suppressed));
        }
        if told.len() >= MANY {
            told.retain(|_, told| now.duration_since(told.at) < self.every);
        }
        told.insert(name.to_owned(), Told { at: now, suppressed: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_line_passes_and_then_one_in_a_while_with_the_count_of_the_others() {
        let repeats = Repeats::new(Duration::from_secs(1));
        assert_eq!(repeats.pass("busy"), Some(0));
        assert_eq!([repeats.pass("busy"), repeats.pass("busy")], [None, None]);
        assert_eq!(repeats.pass("internal"), Some(0), "each name counts for itself");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!([repeats.pass("busy"), repeats.pass("busy")], [Some(2), None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(repeats.pass("busy"), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_long_ago_are_forgotten() {
        let repeats = Repeats::new(Duration::from_secs(1));
        for nth in 0..10 * MANY {
            assert_eq!(repeats.pass(&nth.to_string()), Some(0));
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!(repeats.told.lock().expect("no panic").len() <= MANY);
    }
}
