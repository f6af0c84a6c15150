//! Limits how often a repeated failure is logged.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// With this many names, old ones are removed.
const MAX_NAMES: usize = 256;

/// Lets a line of each name pass once per interval, and counts the suppressed ones.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    interval: Duration,
    lines: Mutex<HashMap<String, LastLine>>,
}

#[derive(Debug)]
struct LastLine {
    at: Instant,
    suppressed: u64,
}

impl LogThrottle {
    pub(crate) fn new(interval: Duration) -> Self {
        LogThrottle { interval, lines: Mutex::default() }
    }

    /// How many lines of this name were suppressed since the last one; `None`: this one is suppressed too.
    pub(crate) fn should_log(&self, name: &str) -> Option<u64> {
        let now = Instant::now();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = lines.get_mut(name) {
            if now.duration_since(last.at) < self.interval {
                last.suppressed += 1;
                return None;
            }
            last.at = now;
            return Some(std::mem::take(&mut last.suppressed));
        }
        if lines.len() >= MAX_NAMES {
            lines.retain(|_, last| now.duration_since(last.at) < self.interval);
        }
        lines.insert(name.to_owned(), LastLine { at: now, suppressed: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_per_interval_passes_with_the_count_of_suppressed_ones() {
        let throttle = LogThrottle::new(Duration::from_secs(1));
        assert_eq!(throttle.should_log("busy"), Some(0));
        assert_eq!([throttle.should_log("busy"), throttle.should_log("busy")], [None, None]);
        assert_eq!(throttle.should_log("internal"), Some(0), "each name counts for itself");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!([throttle.should_log("busy"), throttle.should_log("busy")], [Some(2), None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(throttle.should_log("busy"), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn old_names_are_removed() {
        let throttle = LogThrottle::new(Duration::from_secs(1));
        for nth in 0..10 * MAX_NAMES {
            assert_eq!(throttle.should_log(&nth.to_string()), Some(0));
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!(throttle.lines.lock().expect("no panic").len() <= MAX_NAMES);
    }
}
