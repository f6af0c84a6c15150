//! The fjall database of a directory, and its errors in plain words.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::Duration,
};

use fjall::{AbstractTree as _, CompressionType, KeyspaceCreateOptions, LsmError, PersistMode, Readable as _};
use nagaya_store::Error;

use super::LostCommits;
use crate::{
    files,
    layout::{self, Keyspace},
    options::Options,
    record::{self, COMMIT_KEY_KEY, FORMAT_KEY},
    storage::commit_tag::{Commit, CommitKey},
};

pub(super) struct Database {
    path: PathBuf,
    pub(super) fjall: fjall::Database,
    keyspaces: [fjall::Keyspace; Keyspace::ALL.len()],
    /// Set when the database is being closed: readers should stop.
    pub(super) closing: AtomicBool,
}

impl Database {
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let failed = |error: fjall::Error| database_error("open", path, &error);
        let fjall = fjall::Database::builder(path)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.journal_bytes)
            // fjall compresses again to check what it replays, and another version of the compressor may give other
            // bytes.
            .journal_compression(CompressionType::None)
            .open()
            .map_err(failed)?;
        let settings = || KeyspaceCreateOptions::default().max_memtable_size(options.write_buffer_bytes);
        let open = |keyspace: Keyspace| fjall.keyspace(keyspace.name(), settings).map_err(failed);
        let [a, b, c, d, e] = Keyspace::ALL;
        let keyspaces = [open(a)?, open(b)?, open(c)?, open(d)?, open(e)?];
        Ok(Database { path: path.to_path_buf(), fjall, keyspaces, closing: AtomicBool::new(false) })
    }

    pub(super) fn keyspace(&self, keyspace: Keyspace) -> &fjall::Keyspace {
        &self.keyspaces[keyspace as usize]
    }

    /// A failure of fjall, with the path of the database.
    pub(super) fn error(&self, action: &str, error: &fjall::Error) -> Error {
        database_error(action, &self.path, error)
    }

    /// Whether so many flushes or compactions are pending that fjall would stall the next commit. fjall would wait for
    /// ever if the thread that does them has failed.
    pub(super) fn would_stall(&self) -> bool {
        const SEALED_MEMTABLES: usize = 2;
        const L0_RUNS: usize = 28;
        self.keyspaces.iter().any(|keyspace| {
            keyspace.tree.sealed_memtable_count() >= SEALED_MEMTABLES || keyspace.tree.l0_run_count() >= L0_RUNS
        })
    }

    /// Waits for the background threads of fjall, unless they have failed.
    pub(super) fn wait_while(&self, mut waits: impl FnMut() -> bool) -> Result<(), fjall::Error> {
        while waits() {
            self.fjall.persist(PersistMode::Buffer)?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Writes the memtable of a keyspace to a sorted file.
    pub(super) fn flush(&self, keyspace: Keyspace) -> Result<(), fjall::Error> {
        let keyspace = self.keyspace(keyspace);
        keyspace.rotate_memtable()?;
        self.wait_while(|| keyspace.tree.sealed_memtable_count() > 0)
    }

    /// Rewrites a keyspace without overwritten and removed entries.
    pub(super) fn compact(&self, keyspace: Keyspace) -> Result<(), Error> {
        self.flush(keyspace).map_err(|error| Error::unavailable(describe(&error)))?;
        self.keyspace(keyspace).major_compact().map_err(|error| self.error("compact", &error))
    }

    /// The number of the last commit; 0 in a directory of format 1, which does not number commits.
    pub(super) fn last_commit(&self) -> Result<u64, Error> {
        let damaged = || Error::engine("the number of the last commit is damaged");
        self.get(Keyspace::Changes, layout::COMMIT_KEY)?
            .map_or(Ok(0), |bytes| Commit::decode_unverified(&bytes).map(|commit| commit.number).ok_or_else(damaged))
    }

    /// The key of the commits, if the directory has one.
    pub(super) fn commit_key(&self) -> Result<Option<CommitKey>, Error> {
        Ok(self.get(Keyspace::Meta, COMMIT_KEY_KEY)?.and_then(|bytes| CommitKey::from_bytes(&bytes)))
    }

    /// The format of the directory.
    pub(super) fn format(&self) -> Result<Option<u32>, Error> {
        self.get(Keyspace::Meta, FORMAT_KEY)?.map(|bytes| record::decode(&bytes)).transpose()
    }

    fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<fjall::Slice>, Error> {
        self.fjall.snapshot().get(self.keyspace(keyspace), key).map_err(|error| self.error("read", &error))
    }

    /// Checks that sorted files contain everything before the first commit of the journals. If not, an older journal is
    /// missing.
    pub(super) fn check_oldest(&self, first: Option<Commit>, directory: &Path) -> Result<(), Error> {
        let Some(Commit { number, sequence }) = first else { return Ok(()) };
        let changes = &self.keyspace(Keyspace::Changes).tree;
        if changes.get_highest_persisted_seqno().is_some_and(|persisted| persisted >= sequence) {
            return Ok(());
        }
        let before = changes.get(layout::COMMIT_KEY, sequence).map_err(|error| self.error("read", &error.into()))?;
        let found = before.and_then(|bytes| Commit::decode_unverified(&bytes)).map_or(0, |commit| commit.number);
        if found + 1 < number {
            let lost = LostCommits { directory: directory.to_path_buf(), acknowledged: number - 1, found };
            return Err(Error::engine(lost));
        }
        Ok(())
    }
}

fn database_error(action: &str, path: &Path, error: &fjall::Error) -> Error {
    Error::engine(format!("cannot {action} {}: {}", path.display(), describe(error)))
}

/// An error of fjall in plain words.
pub(super) fn describe(error: &fjall::Error) -> String {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => files::describe(error),
        fjall::Error::Storage(error) => format!(
            "a sorted file of the store is missing or damaged ({error:?}). `nagaya store verify` names it; restore a backup"
        ),
        fjall::Error::Locked => "another process has it open".to_owned(),
        fjall::Error::Poisoned => "an earlier write failed in the background".to_owned(),
        error => format!("{error:?}"),
    }
}
