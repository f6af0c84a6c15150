//! Reopening a directory after a fault.

use std::{
    io,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

use nagaya_store::Error;

use super::{Database, Disk, LostCommits, data_folder, torn_folder};
use crate::{
    files::{describe_failure, probe},
    storage::{
        journal::{self, Journals},
        manifest,
    },
};

/// How long running reads may take before the directory is reopened.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

impl Disk {
    /// Reopens the directory without the commits that were not acknowledged. For the committing thread.
    ///
    /// Readers keep the last state until the cause seems to be gone, and are refused only while the directory is
    /// opened.
    pub(crate) fn reopen(&self) -> Result<(), Error> {
        let failed = |error: io::Error| {
            let cause = describe_failure("write", &self.directory, &error);
            self.set_failure(Some(cause.clone()));
            Error::unavailable(cause)
        };
        probe(&self.directory).map_err(failed)?;
        self.close()?;
        let (data, torn) = (data_folder(&self.directory), torn_folder(&self.directory));
        let acknowledged = self.commits.load(Ordering::Acquire);
        journal::cut_after(&data, self.commit_key(), acknowledged, &torn).map_err(failed)?;
        let journals = Journals::read(&data, Some(self.commit_key()))?;
        if let Some(damage) = journals.damage(acknowledged) {
            return Err(Error::engine(damage));
        }
        journals.cut_torn(&torn).map_err(failed)?;
        journals.detach_newest().map_err(failed)?;
        manifest::check(&data)?;
        let database = Database::open(&data, &self.options)?;
        let found = database.last_commit()?;
        if found != acknowledged {
            let directory = self.directory.clone();
            return Err(Error::engine(LostCommits { directory, acknowledged, found }));
        }
        self.publish(Arc::new(database));
        self.set_failure(None);
        tracing::info!("the store has been reopened and accepts writes");
        Ok(())
    }

    /// Closes the database once no reader uses it any more.
    fn close(&self) -> Result<(), Error> {
        let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let former = self.published.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(former) = former {
            former.database.closing.store(true, Ordering::Release);
            *closing = Some(Arc::clone(&former.database));
        }
        let Some(database) = closing.take() else { return Ok(()) };
        let began = Instant::now();
        while Arc::strong_count(&database) > 1 {
            if began.elapsed() > READ_TIMEOUT {
                *closing = Some(database);
                return Err(Error::unavailable("reads are still running"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // The threads of fjall end with it. If one of them still writes what is left in a buffer, it writes to a file
        // that has been replaced by then: see `Journals::detach_newest`.
        drop(database);
        Ok(())
    }
}
