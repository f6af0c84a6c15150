//! The work beside the requests: the projections, the feed, and their metrics.

use std::time::Duration;

use nagaya_events::{Processor, ProcessorOptions, refresh_generations};
use nagaya_server::{ExtensionFuture, StopSignal};
use nagaya_store::Measurement;
use nagaya_tenancy::Nagaya;

use super::Todos;
use crate::{
    notes::{NoteCleanup, NoteSweep},
    projections,
};

/// How often the current generations are read, in case another process has switched them.
const GENERATIONS_INTERVAL: Duration = Duration::from_secs(1);
/// The pause when there are no changes.
const IDLE_PAUSE: Duration = Duration::from_millis(20);

impl Todos {
    /// Keeps the projections up to date, runs the feed, and notices switches to other generations.
    pub(super) async fn run_background(&self, nagaya: &Nagaya, stop: StopSignal) {
        let mut work: Vec<ExtensionFuture<'_, ()>> = Vec::new();
        let mut processors = Vec::new();
        for projection in projections() {
            let name = projection.entity().to_owned();
            match Processor::new(nagaya, projection, ProcessorOptions { pause: IDLE_PAUSE, ..Default::default() }) {
                Ok(processor) => {
                    processors.push(processor.clone());
                    let mut stop = stop.clone();
                    work.push(Box::pin(async move { processor.run(stop.wait()).await }));
                }
                Err(error) => tracing::error!(%error, name, "the projection is not kept up to date"),
            }
        }
        let _ = self.processors.set(processors);
        let (mut feed_stop, mut generations_stop, sweep_stop) = (stop.clone(), stop.clone(), stop.clone());
        work.push(Box::pin(async move { self.feed.run(nagaya, IDLE_PAUSE, feed_stop.wait()).await }));
        work.push(Box::pin(async move {
            loop {
                if let Err(error) = refresh_generations(nagaya).await {
                    tracing::warn!(%error, "generations cannot be read");
                }
                tokio::select! {
                    () = generations_stop.wait() => return,
                    () = tokio::time::sleep(GENERATIONS_INTERVAL) => {}
                }
            }
        }));
        let cleanup = NoteCleanup::new(nagaya, &self.notes, stop);
        work.push(Box::pin(async move { cleanup.run().await }));
        work.push(Box::pin(NoteSweep::new(nagaya, &self.notes).run(sweep_stop)));
        futures_util::future::join_all(work).await;
    }

    /// How far the projections are behind, and what has failed.
    pub(super) async fn measurements(&self) -> Vec<Measurement> {
        let mut measurements = Vec::new();
        for processor in self.processors.get().into_iter().flatten() {
            measurements.extend(processor.measurements().await);
        }
        measurements
    }
}
