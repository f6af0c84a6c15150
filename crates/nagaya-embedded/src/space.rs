//! Room on the disk: writes are refused while there is still enough of it to tidy up.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use nagaya_store::{Error, ErrorKind};

use crate::{backing::Backing, options::Options};

/// What the disk has left, as it was last looked at.
#[derive(Debug)]
pub(crate) struct FreeSpace {
    least: u64,
    free: AtomicU64,
}

impl FreeSpace {
    pub(crate) fn of(backing: &Backing, options: &Options) -> Self {
        let space = FreeSpace { least: options.min_free_bytes, free: AtomicU64::new(u64::MAX) };
        space.look(backing);
        space
    }

    /// Looks at the disk.
    pub(crate) fn look(&self, backing: &Backing) {
        let Some(free) = backing.disk().and_then(|disk| free(disk.directory())) else { return };
        let before = self.free.swap(free, Ordering::Relaxed);
        let (least, warned) = (self.least, self.least.saturating_mul(2));
        if free < least && before >= least {
            tracing::error!(free, least, "the disk is nearly full: writes are refused until there is more room");
        } else if free < warned && before >= warned {
            tracing::warn!(free, refused_below = least, "the disk is filling up");
        } else if free >= warned && before < warned {
            tracing::info!(free, "the disk has room again");
        }
    }

    /// Bytes that are left, if that is known.
    pub(crate) fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Whether there is room to write.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.free.load(Ordering::Relaxed) {
            free if free < self.least => Err(ErrorKind::OutOfSpace(self.reason(free)).into()),
            _ => Ok(()),
        }
    }

    /// What to say while there is little room.
    pub(crate) fn shortage(&self) -> Option<String> {
        let free = self.free()?;
        (free < self.least.saturating_mul(2)).then(|| self.reason(free))
    }

    fn reason(&self, free: u64) -> String {
        let mib = |bytes: u64| bytes / 1024 / 1024;
        format!("the disk has {} MiB left, and writes are refused below {} MiB", mib(free), mib(self.least))
    }
}

/// Bytes that the disk of a directory has left for this process.
#[cfg(unix)]
pub(crate) fn free(directory: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
pub(crate) fn free(_: &Path) -> Option<u64> {
    None
}
