//! Opening the data of a directory, and creating it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock, atomic::AtomicU64},
};

use nagaya_store::Error;

use super::{Database, Disk, PublishedState, data_folder, torn_folder};
use crate::{
    files::{IoContext as _, exists, parent_folder, private_file, private_folder, sync_folder, sync_folders},
    layout::Keyspace,
    maintenance::{UnfinishedRestore, refuse_unfinished_restore},
    options::Options,
    read,
    storage::{
        Op, View,
        acknowledged::AcknowledgedFile,
        commit_tag::CommitKey,
        journal::{self, Journals},
        manifest,
    },
    upgrade,
};

/// The file that exists beside the data until it is complete.
const UNFINISHED: &str = "data.unfinished";

/// Acknowledged commits are missing.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}. `nagaya store recover` shows what can be saved; a backup may have more", self.summary())]
pub(crate) struct LostCommits {
    pub(super) directory: PathBuf,
    pub(crate) acknowledged: u64,
    pub(crate) found: u64,
}

impl LostCommits {
    /// The directory, and how many commits it has lost.
    pub(crate) fn summary(&self) -> String {
        let LostCommits { directory, acknowledged, found } = self;
        let directory = directory.display();
        format!("{directory} has lost acknowledged commits: {acknowledged} were acknowledged, {found} were found")
    }
}

impl Disk {
    /// Opens the data of a directory; `None` if it has no data, or if creating the data was interrupted.
    pub(crate) fn open(directory: &Path, options: &Options) -> Result<Option<Self>, Error> {
        refuse_unfinished_restore(directory)?;
        let data = data_folder(directory);
        match (exists(&data)?, exists(&directory.join(UNFINISHED))?) {
            (true, false) => return Disk::open_existing(directory, options).map(Some),
            (false, false) => return refuse_missing_data(directory).map(|()| None),
            (false, true) => return Ok(None),
            (true, true) => {}
        }
        // Creating a store was interrupted before anything was acknowledged: it is created again. Earlier versions
        // marked a restore in the same way, but a new store has no tables before it is complete.
        let database = Database::open(&data, options);
        let tables = database
            .and_then(|database| read::tables(&View::Disk(Arc::new(PublishedState::new(Arc::new(database), None)))));
        if tables.is_ok_and(|tables| !tables.is_empty()) {
            return Err(Error::engine(UnfinishedRestore(directory.to_path_buf())));
        }
        Ok(None)
    }

    fn open_existing(directory: &Path, options: &Options) -> Result<Self, Error> {
        let (data, stored) = (data_folder(directory), AcknowledgedFile::read(directory)?);
        let acknowledged = stored.commit;
        let journals = Journals::read(&data, stored.key.as_ref())?;
        if let Some(damage) = journals.damage(acknowledged) {
            return Err(Error::engine(damage));
        }
        if let Some(kept) = journals.cut_torn(&torn_folder(directory)).context("repair the journals of", &data)? {
            let kept = kept.display();
            tracing::warn!(%kept, "the end of a journal was torn, as after a power cut; it was cut off and is kept");
        }
        if journals.last_commit.is_some_and(|last| last > acknowledged) {
            journals.rewrite_newest().context("rewrite the journals of", &data)?;
        }
        manifest::check(&data)?;
        let database = Database::open(&data, options)?;
        if !options.upgrade {
            upgrade::refuse_older(database.format()?)?;
        }
        database.check_oldest(journals.first, directory)?;
        let found = database.last_commit()?;
        // Sorted files may contain commits that the journals have lost: a disk may lose one file and keep another.
        let readable = journals.last_commit.map_or(found, |last| last.min(found));
        let acknowledged = acknowledged.max(found).max(journals.last_commit.unwrap_or(0));
        if readable < acknowledged {
            let directory = directory.to_path_buf();
            return Err(Error::engine(LostCommits { directory, acknowledged, found: readable }));
        }
        // A directory of format 1 has no key yet.
        let key = database.commit_key()?.or(stored.key).map_or_else(CommitKey::random, Ok)?;
        Disk::new(directory, options, database, key, found)
    }

    fn new(
        directory: &Path,
        options: &Options,
        database: Database,
        key: CommitKey,
        commits: u64,
    ) -> Result<Self, Error> {
        let acknowledged = AcknowledgedFile::open(directory, key)?;
        // The file may have been lost, and the key with it.
        acknowledged.write(commits)?;
        let disk = Disk {
            directory: directory.to_path_buf(),
            options: options.clone(),
            published: RwLock::new(None),
            commits: AtomicU64::new(commits),
            acknowledged,
            keyring: Arc::default(),
            failure: RwLock::new(None),
            closing: Mutex::new(None),
        };
        disk.publish(Arc::new(database));
        Ok(disk)
    }

    /// Starts to create the data of a directory.
    pub(in crate::storage) fn begin_create(directory: &Path, options: &Options) -> Result<Self, Error> {
        let (data, unfinished) = (data_folder(directory), directory.join(UNFINISHED));
        if exists(&data)? {
            // Only data that is marked as unfinished is replaced.
            if !exists(&unfinished)? {
                return Err(Error::engine(format!("another process has created {}; try again", data.display())));
            }
            fs::remove_dir_all(&data).context("remove", &data)?;
        }
        private_file().create(true).truncate(true).open(&unfinished).context("create", &unfinished)?;
        sync_folder(directory).context("sync", directory)?;
        private_folder().create(&data).context("create", &data)?;
        AcknowledgedFile::remove(directory)?;
        let disk = Disk::new(directory, options, Database::open(&data, options)?, CommitKey::random()?, 0)?;
        // fjall does not sync the names of the folders that it creates, and a journal is useless without them.
        sync_folders(&data).context("sync", &data)?;
        Ok(disk)
    }

    /// Marks the data as complete.
    pub(in crate::storage) fn finish_create(&self) -> Result<(), Error> {
        self.acknowledged.sync()?;
        let unfinished = self.directory.join(UNFINISHED);
        fs::remove_file(&unfinished).context("remove", &unfinished)?;
        sync_folder(&self.directory).context("sync", &self.directory)?;
        let parent = parent_folder(&self.directory);
        sync_folder(parent).context("sync", parent)
    }

    /// Writes everything to sorted files, and empties the journals: they contain what has been overwritten since. The
    /// directory is not open. An interruption at any point is safe, because the sorted files have all commits before the
    /// first journal is removed.
    pub(crate) fn purge_journals(directory: &Path, options: &Options) -> Result<(), Error> {
        let data = data_folder(directory);
        let database = Database::open(&data, options)?;
        let flushed = Keyspace::ALL.into_iter().try_for_each(|keyspace| database.flush(keyspace));
        flushed.map_err(|error| database.error("write", &error))?;
        drop(database);
        sync_folders(&data).context("sync", &data)?;
        journal::empty(&data).context("write the journals of", &data)
    }

    /// Writes everything to sorted files, with one more operation, and empties the journals: numbering continues from
    /// here.
    pub(crate) fn empty_journals(directory: &Path, with: Op) -> Result<(), Error> {
        let data = data_folder(directory);
        if Journals::read(&data, None)?.files.is_empty() {
            journal::empty(&data).context("write the journals of", &data)?;
        }
        manifest::check(&data)?;
        let database = Database::open(&data, &Options::default())?;
        let written = match with {
            Op::Put(keyspace, key, value) => database.keyspace(keyspace).insert(key, value),
            Op::Remove(keyspace, key) => database.keyspace(keyspace).remove(key),
        };
        let flushed =
            written.and_then(|()| Keyspace::ALL.into_iter().try_for_each(|keyspace| database.flush(keyspace)));
        flushed.map_err(|error| database.error("write", &error))?;
        drop(database);
        journal::empty(&data).context("write the journals of", &data)
    }
}

/// Refuses a directory whose data is gone: a volume may be unmounted, and an empty store must not replace it.
fn refuse_missing_data(directory: &Path) -> Result<(), Error> {
    match AcknowledgedFile::read(directory)?.commit {
        0 => Ok(()),
        acknowledged => Err(Error::engine(format!(
            "{} is missing, although {acknowledged} commits to it were acknowledged. Bring it back, or restore a backup into \
             a new directory",
            data_folder(directory).display()
        ))),
    }
}
