//! Tokio's timers, moved by tests.

use std::{sync::mpsc, time::Duration};

/// Pauses tokio's timers in the current runtime until it is dropped; [`advance`](PausedTokioClock::advance) moves them.
pub struct PausedTokioClock {
    _end: mpsc::Sender<()>,
}

impl PausedTokioClock {
    /// Pauses the timers.
    ///
    /// A paused clock jumps to the next timer whenever all tasks wait for sockets. A blocking task prevents that.
    pub fn pause() -> Self {
        let (end, ended) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || ended.recv());
        tokio::time::pause();
        PausedTokioClock { _end: end }
    }

    /// Moves the timers forward.
    pub async fn advance(&self, by: Duration) {
        tokio::time::advance(by).await;
    }
}
