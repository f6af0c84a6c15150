//! How many commits have been acknowledged, kept outside of the journal.
//!
//! A journal that ends early looks like one that was never longer. This file knows better. It is written after each commit
//! and synced now and then: after a killed process it is exact, after a power cut it may be some commits behind, and it
//! never claims more than has been synced.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use xxhash_rust::xxh3::xxh3_64;

/// The name of the file in the directory of a store.
const NAME: &str = "acknowledged";
/// The number, and its checksum.
const LENGTH: usize = 16;

/// The file with the number of the last acknowledged commit.
#[derive(Debug)]
pub(crate) struct Mark {
    file: Mutex<File>,
    unsynced: AtomicBool,
}

impl Mark {
    /// Opens the file of a directory, or makes it.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(directory.join(NAME))?;
        Ok(Mark { file: Mutex::new(file), unsynced: AtomicBool::new(false) })
    }

    /// The number that a directory has; 0 if it has none that can be read.
    pub(crate) fn read(directory: &Path) -> io::Result<u64> {
        let mut bytes = Vec::new();
        match File::open(directory.join(NAME)) {
            Ok(file) => file.take(LENGTH as u64).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let number = bytes.first_chunk::<8>().zip(bytes.last_chunk::<8>()).filter(|_| bytes.len() == LENGTH);
        let whole = number.filter(|(number, sum)| xxh3_64(*number) == u64::from_be_bytes(**sum));
        if whole.is_none() && !bytes.is_empty() {
            tracing::warn!(
                "the number of acknowledged commits cannot be read: lost commits cannot be noticed this time"
            );
        }
        Ok(whole.map_or(0, |(number, _)| u64::from_be_bytes(*number)))
    }

    /// Removes the file: commits that are given up on purpose are not asked for again.
    pub(crate) fn forget(directory: &Path) -> io::Result<()> {
        match fs::remove_file(directory.join(NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the number down, without waiting for the disk.
    pub(crate) fn write(&self, commit: u64) -> io::Result<()> {
        let mut bytes = [0; LENGTH];
        let number = commit.to_be_bytes();
        bytes[..8].copy_from_slice(&number);
        bytes[8..].copy_from_slice(&xxh3_64(&number).to_be_bytes());
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.rewind()?;
        file.write_all(&bytes)?;
        self.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    /// Syncs what has been written.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if !self.unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // A handle of its own: commits go on meanwhile.
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?;
        file.sync_data().inspect_err(|_| self.unsynced.store(true, Ordering::Release))
    }
}
