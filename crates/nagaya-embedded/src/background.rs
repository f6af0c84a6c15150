//! The background thread: it sweeps expired items and old changes, checks the disk, and syncs what is not urgent.

use std::{
    sync::{
        atomic::Ordering,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
};

use nagaya_store::{Error, Health, Measurement};

use crate::engine::{CommitClient, Shared};

/// The background thread; it ends when this is dropped.
pub(crate) struct BackgroundThread {
    /// `None` only while it is dropped: closing the channel ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts the thread; `None` if the options turn sweeping off.
    pub(crate) fn start(client: &CommitClient) -> Result<Option<Self>, Error> {
        let Some(interval) = client.shared.options.sweep_interval else { return Ok(None) };
        let (stop, stopped) = channel::<()>();
        let client = client.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(Error::engine)?;
        let mut failures = 0_u32;
        let work = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                client.shared.run_periodic_checks();
                // A failed sweep is repeated. Meanwhile, expired items are not returned by reads.
                match runtime.block_on(client.sweep()) {
                    Ok(()) => failures = 0,
                    Err(error) => {
                        failures = failures.saturating_add(1);
                        if failures.is_power_of_two() && client.check_running().is_ok() {
                            tracing::warn!(%error, failures, "expired items or old changes were not removed");
                        }
                    }
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("nagaya-maintain".to_owned()).spawn(work).map_err(Error::engine)?;
        Ok(Some(BackgroundThread { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Checks the free space, and syncs what is not urgent.
    pub(crate) fn run_periodic_checks(&self) {
        self.free_space.refresh(&self.storage);
        if let Some(disk) = self.storage.disk() {
            disk.sync_acknowledged();
        }
    }

    /// Whether the store can serve requests.
    pub(crate) fn health(&self) -> Health {
        if self.committer_died.load(Ordering::Acquire) {
            return Health::Unavailable("the committing thread has panicked".to_owned());
        }
        if let Some(failure) = self.storage.disk().and_then(|disk| disk.failure()) {
            return Health::Unavailable(failure);
        }
        // Reads still work when the disk is nearly full, and a restart does not help.
        match self.free_space.shortage() {
            None => Health::Ready,
            Some(reason) if self.free_space.check().is_err() => Health::ReadOnly(reason),
            Some(reason) => Health::Warning(reason),
        }
    }

    /// The metrics of the store.
    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let mut found = Vec::new();
        let Some(disk) = self.storage.disk() else { return found };
        let mut gauge = |name, help, value: Option<u64>| {
            found.extend(value.map(|value| Measurement::gauge(name, help, value as f64)));
        };
        gauge("disk_bytes", "Bytes of the store on disk", disk.bytes().ok());
        gauge("journal_bytes", "Bytes of the store's journals", disk.journal_bytes().ok());
        gauge("disk_free_bytes", "Bytes that the disk has left", self.free_space.free());
        gauge("disk_free_min_bytes", "Free bytes below which writes are refused", Some(self.options.min_free_bytes));
        if let Ok((active, completed)) = disk.compactions() {
            found.push(Measurement::gauge("compactions_active", "Compactions that run", active as f64));
            found.push(Measurement::counter("compactions", "Compactions that have ended", completed as f64));
        }
        found
    }
}
