//! Free space on the disk. Writes are refused while there is still enough of it for compactions.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use nagaya_store::{Error, ErrorKind};

use crate::{options::Options, storage::Storage};

/// The free space on the disk when it was last checked.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    min_free: u64,
    /// `u64::MAX` if unknown.
    free: AtomicU64,
}

impl FreeSpace {
    pub(crate) fn new(storage: &Storage, options: &Options) -> Self {
        let space = FreeSpace { min_free: options.min_free_bytes, free: AtomicU64::new(u64::MAX) };
        space.refresh(storage);
        space
    }

    /// Checks the disk, and logs when a threshold is crossed.
    pub(crate) fn refresh(&self, storage: &Storage) {
        let Some(free) = storage.disk().and_then(|disk| available_bytes(disk.directory())) else { return };
        let before = self.free.swap(free, Ordering::Relaxed);
        let (min_free, warn_below) = (self.min_free, self.warn_below());
        if free < min_free && before >= min_free {
            tracing::error!(free, min_free, "the disk is nearly full: writes are refused until there is more space");
        } else if free < warn_below && before >= warn_below {
            tracing::warn!(free, min_free, "the disk is filling up");
        } else if free >= warn_below && before < warn_below {
            tracing::info!(free, "the disk has enough space again");
        }
    }

    /// The free bytes, if known.
    pub(crate) fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Fails if there is too little space to write.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.free.load(Ordering::Relaxed) {
            free if free < self.min_free => Err(ErrorKind::OutOfSpace(self.describe(free)).into()),
            _ => Ok(()),
        }
    }

    /// A description of the shortage; `None` if there is enough space.
    pub(crate) fn shortage(&self) -> Option<String> {
        self.free().filter(|free| *free < self.warn_below()).map(|free| self.describe(free))
    }

    fn warn_below(&self) -> u64 {
        self.min_free.saturating_mul(2)
    }

    fn describe(&self, free: u64) -> String {
        let mib = |bytes: u64| bytes / 1024 / 1024;
        format!("the disk has {} MiB left, and writes are refused below {} MiB", mib(free), mib(self.min_free))
    }
}

/// The bytes that the disk of a directory has left for this process.
#[cfg(unix)]
pub fn available_bytes(directory: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Not known here.
#[cfg(not(unix))]
pub fn available_bytes(_: &Path) -> Option<u64> {
    None
}
