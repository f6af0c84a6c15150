//! A directory with the data of a store: committing to it, publishing snapshots, and refusing commits after a fault.

mod database;
mod open;
mod reopen;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use fjall::{PersistMode, Slice};
use nagaya_store::Error;

use self::database::{Database, describe};
pub(crate) use self::open::LostCommits;
use super::{
    Op,
    acknowledged::AcknowledgedFile,
    commit_tag::{Commit, CommitKey},
    manifest,
};
use crate::{
    encryption::{DataKeys, Keyring},
    free_space,
    layout::{self, Keyspace},
    options::Options,
};

/// The folder of a directory with the data.
pub(crate) fn data_folder(directory: &Path) -> PathBuf {
    directory.join("data")
}

/// The folder of a directory with the bytes that were cut off journals.
pub(crate) fn torn_folder(directory: &Path) -> PathBuf {
    directory.join("torn")
}

/// A directory with the data of a store.
pub(crate) struct Disk {
    directory: PathBuf,
    options: Options,
    /// What readers see; `None` while the directory is being reopened.
    published: RwLock<Option<Arc<PublishedState>>>,
    /// The number of the last acknowledged commit.
    commits: AtomicU64,
    acknowledged: AcknowledgedFile,
    /// The keys that values are encrypted with.
    keyring: Arc<Keyring>,
    /// Why commits are refused.
    failure: RwLock<Option<String>>,
    /// The database that is being closed, as long as readers still use it.
    closing: Mutex<Option<Arc<Database>>>,
}

/// The database, and a snapshot of it after a commit.
///
/// Only the committing thread takes snapshots, between two commits. A snapshot that a reader takes could show half of a
/// commit: a flush moves fjall's visible sequence number while a batch is still being applied.
pub(crate) struct PublishedState {
    database: Arc<Database>,
    pub(super) snapshot: fjall::Snapshot,
    /// The keys of all values in it.
    keys: Option<Arc<DataKeys>>,
}

impl Disk {
    /// The key of the commits.
    pub(crate) fn commit_key(&self) -> &CommitKey {
        self.acknowledged.key()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// The keys that values are encrypted with, if they are.
    pub(crate) fn keys(&self) -> Option<Arc<DataKeys>> {
        self.keyring.keys()
    }

    /// Encrypts with these keys from now on. Between two commits, and after these keys were recorded.
    pub(crate) fn install_keys(&self, keys: DataKeys) {
        self.keyring.install(keys);
        self.republish();
    }

    /// About how many values can be encrypted.
    pub(crate) fn approximate_values(&self) -> Result<u64, Error> {
        let published = self.published()?;
        let keyspaces = [Keyspace::Items, Keyspace::Index, Keyspace::Changes];
        Ok(keyspaces.into_iter().map(|keyspace| published.keyspace(keyspace).approximate_len() as u64).sum())
    }

    /// What readers see.
    pub(super) fn published(&self) -> Result<Arc<PublishedState>, Error> {
        let published = self.published.read().unwrap_or_else(PoisonError::into_inner);
        published.as_ref().map(Arc::clone).ok_or_else(|| self.unavailable())
    }

    /// Shows readers the state after the last commit. For the committing thread.
    fn publish(&self, database: Arc<Database>) {
        let published = Arc::new(PublishedState::new(database, self.keys()));
        let former = self.published.write().unwrap_or_else(PoisonError::into_inner).replace(published);
        // After the lock is released: dropping a snapshot may take time.
        drop(former);
    }

    /// Publishes a new snapshot of the same state, so that files that compaction has replaced can be removed. For the
    /// committing thread.
    pub(crate) fn republish(&self) {
        if let Ok(published) = self.published() {
            self.publish(Arc::clone(&published.database));
        }
    }

    pub(super) fn latest(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Slice>, Error> {
        let published = self.published()?;
        let stored = published.keyspace(keyspace).get(key).map_err(|error| published.read_error(&error))?;
        stored.map(|stored| published.open_value(keyspace, key, stored)).transpose()
    }

    /// Performs all operations or none. When it returns, they survive a power cut.
    pub(crate) fn commit(&self, ops: Vec<Op>) -> Result<(), Error> {
        if self.failure().is_some() {
            return Err(self.unavailable());
        }
        let published = self.published()?;
        let database = &published.database;
        if let Err(error) = database.wait_while(|| database.would_stall()) {
            return Err(self.fail(self.background_failure(&error)));
        }
        let commit = self.commits.load(Ordering::Acquire) + 1;
        let keys = self.keys();
        let mut batch = database.fjall.batch().durability(Some(PersistMode::SyncData));
        for op in ops {
            match op {
                Op::Put(keyspace, key, value) => {
                    let value = match &keys {
                        Some(keys) => keys.seal_value(keyspace, &key, value)?,
                        None => value,
                    };
                    batch.insert(database.keyspace(keyspace), key, value);
                }
                Op::Remove(keyspace, key) => batch.remove(database.keyspace(keyspace), key),
            }
        }
        let record = Commit { number: commit, sequence: database.fjall.seqno() };
        batch.insert(database.keyspace(Keyspace::Changes), layout::COMMIT_KEY, self.commit_key().encode(record));
        match batch.commit() {
            Ok(()) => {}
            // fjall refused the batch before it wrote anything.
            Err(error @ fjall::Error::Poisoned) => return Err(self.fail(self.background_failure(&error))),
            Err(error) => {
                let cause = format!("cannot write {}: {}", data_folder(&self.directory).display(), describe(&error));
                self.fail(cause.clone());
                return Err(Error::outcome_unknown(cause));
            }
        }
        self.commits.store(commit, Ordering::Release);
        if let Err(error) = self.acknowledged.write(commit) {
            // The commit itself is safe.
            tracing::warn!(%error, "the number of acknowledged commits was not written");
        }
        self.publish(Arc::clone(database));
        Ok(())
    }

    /// Syncs the file with the number of acknowledged commits.
    pub(crate) fn sync_acknowledged(&self) {
        if let Err(error) = self.acknowledged.sync() {
            tracing::warn!(%error, "the number of acknowledged commits was not synced");
        }
    }

    /// Why commits are refused, if they are.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_failure(&self, cause: Option<String>) {
        *self.failure.write().unwrap_or_else(PoisonError::into_inner) = cause;
    }

    fn fail(&self, cause: String) -> Error {
        tracing::error!(cause, "the store has failed; writes are refused until it has been reopened");
        self.set_failure(Some(cause));
        self.unavailable()
    }

    /// Describes a failure of fjall's background threads. fjall often does not say why, and mostly the disk is full.
    fn background_failure(&self, error: &fjall::Error) -> String {
        const SMALL_BYTES: u64 = 16 * 1024 * 1024;
        let cause = match error {
            fjall::Error::Poisoned => String::new(),
            error => format!(": {}", describe(error)),
        };
        let free = free_space::available_bytes(&self.directory).filter(|free| *free < SMALL_BYTES);
        let full = free.map_or(String::new(), |free| format!("; the disk is full: it has {} KiB left", free / 1024));
        format!("cannot write sorted files of {}{cause}{full}", self.directory.display())
    }

    fn unavailable(&self) -> Error {
        Error::unavailable(self.failure().unwrap_or_else(|| "it is being reopened".to_owned()))
    }

    /// Detects failures in the background. For the committing thread.
    pub(crate) fn check_background(&self) {
        if self.failure().is_none()
            && let Ok(published) = self.published()
            && let Err(error) = published.database.fjall.persist(PersistMode::Buffer)
        {
            self.fail(self.background_failure(&error));
        }
    }

    /// Sorted files that are missing or damaged.
    pub(crate) fn damaged_files(&self) -> Result<Vec<PathBuf>, Error> {
        manifest::damaged_files(&data_folder(&self.directory))
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        let published = self.published()?;
        published.database.fjall.disk_space().map_err(|error| published.read_error(&error))
    }

    /// Bytes of the journals.
    pub(crate) fn journal_bytes(&self) -> Result<u64, Error> {
        let published = self.published()?;
        published.database.fjall.journal_disk_space().map_err(|error| published.read_error(&error))
    }

    /// The numbers of running and completed compactions.
    pub(crate) fn compactions(&self) -> Result<(usize, usize), Error> {
        let published = self.published()?;
        let fjall = &published.database.fjall;
        Ok((fjall.active_compactions(), fjall.compactions_completed()))
    }

    /// Rewrites all keyspaces without overwritten and removed entries.
    pub(crate) fn compact(&self) -> Result<(), Error> {
        Keyspace::ALL.into_iter().try_for_each(|keyspace| self.published()?.database.compact(keyspace))
    }
}

impl PublishedState {
    fn new(database: Arc<Database>, keys: Option<Arc<DataKeys>>) -> Self {
        let snapshot = database.fjall.snapshot();
        PublishedState { database, snapshot, keys }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.keys.is_some()
    }

    /// The value that is stored under a key.
    pub(super) fn open_value(&self, keyspace: Keyspace, key: &[u8], stored: Slice) -> Result<Slice, Error> {
        match &self.keys {
            Some(keys) => keys.open_value(keyspace, key, stored),
            None => Ok(stored),
        }
    }

    pub(super) fn keyspace(&self, keyspace: Keyspace) -> &fjall::Keyspace {
        self.database.keyspace(keyspace)
    }

    pub(super) fn read_error(&self, error: &fjall::Error) -> Error {
        self.database.error("read", error)
    }

    /// Fails if the directory is being closed.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match self.database.closing.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::unavailable("it is being reopened")),
        }
    }
}
