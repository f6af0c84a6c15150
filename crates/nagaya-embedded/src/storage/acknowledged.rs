//! The number of acknowledged commits, stored outside of the journal.
//!
//! A journal that was cut looks like one that was never longer; this file shows the difference. It is written after
//! each commit and synced from time to time: after a killed process it is exact, after a power cut it may be some
//! commits behind, and it never claims more commits than were synced.
//!
//! The file also holds the key that recognises commits in a journal, which is needed before the store can be read.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use nagaya_store::Error;

use super::commit_tag::CommitKey;
use crate::files::{IoContext as _, private_file};

/// The name of the file in the directory of a store.
const NAME: &str = "acknowledged";
/// The number, the key, and a checksum of both.
const LENGTH: usize = 8 + CommitKey::LENGTH + 8;

/// The open file with the number of the last acknowledged commit.
#[derive(Debug)]
pub(crate) struct AcknowledgedFile {
    path: PathBuf,
    file: Mutex<File>,
    key: CommitKey,
    unsynced: AtomicBool,
}

/// The content of the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acknowledged {
    /// The number of the last acknowledged commit; 0 if unknown.
    pub(crate) commit: u64,
    /// The key of the commits, if known.
    pub(crate) key: Option<CommitKey>,
}

impl AcknowledgedFile {
    /// Opens the file of a directory, or creates it.
    pub(crate) fn open(directory: &Path, key: CommitKey) -> Result<Self, Error> {
        let path = directory.join(NAME);
        let file = private_file().read(true).create(true).truncate(false).open(&path).context("open", &path)?;
        Ok(AcknowledgedFile { path, file: Mutex::new(file), key, unsynced: AtomicBool::new(false) })
    }

    /// Reads the file of a directory. A missing or damaged file counts as empty.
    pub(crate) fn read(directory: &Path) -> Result<Acknowledged, Error> {
        let mut bytes = Vec::new();
        let path = directory.join(NAME);
        let read = File::open(&path).and_then(|file| file.take(LENGTH as u64).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Acknowledged::default()),
            read => read.context("read", &path)?,
        };
        let valid =
            bytes.split_last_chunk::<8>().filter(|(content, sum)| bytes.len() == LENGTH && checksum(content) == **sum);
        let Some((number, key)) = valid.and_then(|(content, _)| content.split_first_chunk::<8>()) else {
            tracing::warn!("the file `{NAME}` is damaged: lost commits cannot be detected this time");
            return Ok(Acknowledged::default());
        };
        Ok(Acknowledged { commit: u64::from_be_bytes(*number), key: CommitKey::from_bytes(key) })
    }

    /// Sets the number to 0 and keeps the key: commits that were discarded on purpose are not missed again.
    pub(crate) fn reset(directory: &Path) -> Result<(), Error> {
        match AcknowledgedFile::read(directory)?.key {
            Some(key) => {
                let file = AcknowledgedFile::open(directory, key)?;
                file.write(0)?;
                file.sync()
            }
            None => AcknowledgedFile::remove(directory),
        }
    }

    /// Removes the file.
    pub(crate) fn remove(directory: &Path) -> Result<(), Error> {
        let path = directory.join(NAME);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.context("remove", &path),
        }
    }

    pub(crate) fn key(&self) -> &CommitKey {
        &self.key
    }

    /// Writes the number without syncing it.
    pub(crate) fn write(&self, commit: u64) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(commit.to_be_bytes());
        bytes.extend(self.key.bytes());
        bytes.extend(checksum(&bytes));
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.rewind().and_then(|()| file.write_all(&bytes)).context("write", &self.path)?;
        self.unsynced.store(true, Ordering::Release);
        Ok(())
    }

    /// Syncs the last written number.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if !self.unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // A second handle, so that commits are not blocked meanwhile.
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).try_clone().context("sync", &self.path)?;
        let synced = file.sync_data().inspect_err(|_| self.unsynced.store(true, Ordering::Release));
        synced.context("sync", &self.path)
    }
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    xxhash_rust::xxh3::xxh3_64(bytes).to_be_bytes()
}
