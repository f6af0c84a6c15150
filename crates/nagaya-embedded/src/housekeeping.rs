//! What a store does for itself beside the requests: sweeping, looking at the disk, syncing what is not urgent.

use std::{
    sync::{
        atomic::Ordering,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
};

use nagaya_store::{Error, Health, Measurement};

use crate::engine::{Client, Shared};

/// The maintenance thread; it ends when this is dropped.
pub(crate) struct Housekeeping {
    /// `None` only while it is dropped: closing the channel ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeping {
    /// Starts the thread, unless everything is done by hand.
    pub(crate) fn start(client: &Client) -> Result<Option<Self>, Error> {
        let Some(every) = client.shared.options.sweep_every else { return Ok(None) };
        let (stop, stopped) = channel::<()>();
        let client = client.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(Error::engine)?;
        let mut failures = 0_u32;
        let work = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                client.shared.maintain();
                // A sweep that fails is tried again; what it should have removed is not returned meanwhile.
                match runtime.block_on(client.sweep()) {
                    Ok(()) => failures = 0,
                    Err(error) => {
                        failures = failures.saturating_add(1);
                        if failures.is_power_of_two() && client.check_running().is_ok() {
                            tracing::warn!(%error, failures, "what has expired or is too old could not be removed");
                        }
                    }
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("nagaya-maintain".to_owned()).spawn(work).map_err(Error::engine)?;
        Ok(Some(Housekeeping { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Looks at the disk, and syncs what is not urgent.
    pub(crate) fn maintain(&self) {
        self.space.look(&self.backing);
        if let Some(disk) = self.backing.disk() {
            disk.sync_mark();
        }
    }

    /// Whether the store can serve.
    pub(crate) fn health(&self) -> Health {
        if self.committer_died.load(Ordering::Acquire) {
            return Health::Unavailable("the committing thread has panicked".to_owned());
        }
        if let Some(failure) = self.backing.disk().and_then(|disk| disk.failure()) {
            return Health::Unavailable(failure);
        }
        // A disk that is nearly full keeps nobody from reading, and a restart does not help.
        match self.space.shortage() {
            None => Health::Ready,
            Some(reason) if self.space.check().is_err() => Health::ReadOnly(reason),
            Some(reason) => Health::Warning(reason),
        }
    }

    /// What the store measures about itself.
    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let mut found = Vec::new();
        let Some(disk) = self.backing.disk() else { return found };
        let mut gauge = |name, help, value: Option<u64>| {
            found.extend(value.map(|value| Measurement::gauge(name, help, value as f64)));
        };
        gauge("disk_bytes", "Bytes of the store on disk", disk.bytes().ok());
        gauge("journal_bytes", "Bytes of the store's journals", disk.journal_bytes().ok());
        gauge("disk_free_bytes", "Bytes that the disk has left", self.space.free());
        gauge("disk_free_min_bytes", "Free bytes below which writes are refused", Some(self.options.min_free_bytes));
        if let Ok((active, completed)) = disk.compactions() {
            found.push(Measurement::gauge("compactions_active", "Compactions that run", active as f64));
            found.push(Measurement::counter("compactions", "Compactions that have ended", completed as f64));
        }
        found
    }
}
