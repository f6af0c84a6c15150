//! Time that passes when the test says so.

use std::{sync::mpsc, time::Duration};

/// Stops the clock of this test's runtime until it is dropped.
pub(crate) struct Stopped {
    _end: mpsc::Sender<()>,
}

impl Stopped {
    /// Stops the clock. It would jump to the next timer whenever everybody waits for a socket; a thread at work keeps it
    /// from that.
    pub(crate) fn now() -> Self {
        let (end, ended) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || ended.recv());
        tokio::time::pause();
        Stopped { _end: end }
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}
