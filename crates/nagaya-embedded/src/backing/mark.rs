//! How many commits have been acknowledged, kept outside of the journal.
//!
//! A journal that ends early looks like one that was never longer. This file knows better. It is written after each commit
//! and synced now and then: after a killed process it is exact, after a power cut it may be some commits behind, and it
//! never claims more than has been synced.
//!
//! The file also has the key by which commits are recognised in a journal, before the store can be read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use nagaya_store::Error;

use super::{tag::CommitKey, unreadable};

/// The name of the file in the directory of a store.
const NAME: &str = "acknowledged";
/// The number, the key, and a checksum of both.
const LENGTH: usize = 8 + CommitKey::LENGTH + 8;

/// The file with the number of the last acknowledged commit.
#[derive(Debug)]
pub(crate) struct Mark {
    file: Mutex<File>,
    key: CommitKey,
    unsynced: AtomicBool,
}

/// What the file of a directory says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acknowledged {
    /// The number of the last acknowledged commit; 0 if it is not known.
    pub(crate) commit: u64,
    /// The key of the commits, if it is known.
    pub(crate) key: Option<CommitKey>,
}

impl Mark {
    /// Opens the file of a directory, or makes it.
    pub(crate) fn open(directory: &Path, key: CommitKey) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Mark { file: Mutex::new(options.open(directory.join(NAME))?), key, unsynced: AtomicBool::new(false) })
    }

    /// What the file of a directory says.
    pub(crate) fn read(directory: &Path) -> Result<Acknowledged, Error> {
        let mut bytes = Vec::new();
        let path = directory.join(NAME);
        let read = File::open(&path).and_then(|file| file.take(LENGTH as u64).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Acknowledged::default()),
            read => read.map_err(|error| unreadable(&path, &error))?,
        };
        let whole =
            bytes.split_last_chunk::<8>().filter(|(said, sum)| bytes.len() == LENGTH && checksum(said) == **sum);
        let Some((number, key)) = whole.and_then(|(said, _)| said.split_first_chunk::<8>()) else {
            tracing::warn!("the file `{NAME}` is damaged: lost commits cannot be noticed this time");
            return Ok(Acknowledged::default());
        };
        Ok(Acknowledged { commit: u64::from_be_bytes(*number), key: CommitKey::of(key) })
    }

    /// Forgets the number, but not the key: commits that are given up on purpose are not asked for again.
    pub(crate) fn reset(directory: &Path) -> Result<(), Error> {
        let reset = match Mark::read(directory)?.key {
            Some(key) => Mark::open(directory, key).and_then(|mark| mark.write(0).and_then(|()| mark.sync())),
            None => Mark::forget(directory),
        };
        reset.map_err(Error::engine)
    }

    /// Removes the file.
    pub(crate) fn forget(directory: &Path) -> io::Result<()> {
        match fs::remove_file(directory.join(NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn key(&self) -> &CommitKey {
        &self.key
    }

    /// Writes the number down, without waiting for the disk.
    pub(crate) fn write(&self, commit: u64) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(commit.to_be_bytes());
        bytes.extend(self.key.bytes());
        bytes.extend(checksum(&bytes));
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

fn checksum(bytes: &[u8]) -> [u8; 8] {
    xxhash_rust::xxh3::xxh3_64(bytes).to_be_bytes()
}
