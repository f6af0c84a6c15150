//! The work beside the requests that is not about changes of items alone.

use std::time::Duration;

use nagaya_server::StopSignal;
use nagaya_tenancy::Nagaya;

use super::Todos;
use crate::notes::NoteSweep;

/// The pause when there are no changes.
const IDLE_PAUSE: Duration = Duration::from_millis(20);

impl Todos {
    /// Runs the feed, and the sweep of notes that no event names.
    pub(super) async fn run_background(&self, nagaya: &Nagaya, mut stop: StopSignal) {
        let sweep = NoteSweep::new(nagaya, &self.notes).run(stop.clone());
        // A feed is for the listeners of this process, so it reads the changes of its own time alone.
        let feed = self.feed.run(nagaya, IDLE_PAUSE, stop.wait());
        tokio::join!(feed, sweep);
    }
}
