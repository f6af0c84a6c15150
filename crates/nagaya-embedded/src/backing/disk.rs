//! A directory: opening it, committing to it, and opening it again after a fault.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fjall::{
    AbstractTree as _, CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _, Slice,
};
use nagaya_store::Error;

use super::{
    Op, View, failed,
    files::{is_there, probe, sync_folder, sync_folders},
    journal, manifest,
    mark::Mark,
    tag::{self, Commit, CommitKey},
};
use crate::{
    layout::{self, Space},
    maintain::{UnfinishedRestore, refuse_unfinished_restore},
    options::Options,
    read,
    record::COMMIT_KEY_KEY,
    space,
};

/// What the data of a directory lies under.
const DATA: &str = "data";
/// What lies beside it until it is whole.
const UNFINISHED: &str = "data.unfinished";
/// Where bytes are kept that were cut off a journal.
const ASIDE: &str = "torn";
/// How long reads that are under way may take before a directory is opened again.
const READS: Duration = Duration::from_secs(2);

/// Where the data of a directory lies.
pub(crate) fn data(directory: &Path) -> PathBuf {
    directory.join(DATA)
}

/// Where bytes of a directory are kept that were cut off a journal.
pub(crate) fn kept_aside(directory: &Path) -> PathBuf {
    directory.join(ASIDE)
}

/// A directory with the data of a store.
pub(crate) struct Disk {
    directory: PathBuf,
    options: Options,
    /// What readers see; nothing while the directory is being opened again.
    published: RwLock<Option<Arc<Published>>>,
    /// The number of the last acknowledged commit.
    commits: AtomicU64,
    mark: Mark,
    /// Why commits are refused.
    failure: RwLock<Option<String>>,
    /// What is being closed, as long as somebody still reads it.
    closing: Mutex<Option<Arc<Data>>>,
}

/// The data, and the state after a commit.
///
/// Snapshots are taken by the committing thread between two commits. One that a reader takes may see half a commit: a flush
/// moves what fjall calls visible while a batch is still being applied.
pub(crate) struct Published {
    data: Arc<Data>,
    pub(super) snapshot: fjall::Snapshot,
}

struct Data {
    database: Database,
    spaces: [Keyspace; Space::ALL.len()],
    closing: AtomicBool,
}

/// Commits that were acknowledged are not there.
#[derive(Debug, Clone)]
pub(crate) struct Lost {
    directory: PathBuf,
    pub(crate) acknowledged: u64,
    pub(crate) found: u64,
}

impl Lost {
    /// Where it is, and what.
    pub(crate) fn place(&self) -> String {
        let Lost { directory, acknowledged, found } = self;
        let directory = directory.display();
        format!("{directory} has lost acknowledged commits: {acknowledged} were acknowledged, {found} are there")
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        write!(f, "{place}. `nagaya store recover` shows what can be saved; a backup may have more")
    }
}

impl std::error::Error for Lost {}

impl Disk {
    /// Opens the data of a directory; `None` if it has none, or only what was left when making it was interrupted.
    pub(crate) fn open(directory: &Path, options: &Options) -> Result<Option<Self>, Error> {
        refuse_unfinished_restore(directory)?;
        let (has_data, unfinished) = (is_there(&data(directory))?, is_there(&directory.join(UNFINISHED))?);
        match (has_data, unfinished) {
            (true, false) => return Disk::open_existing(directory, options).map(Some),
            (false, false) => return refuse_lost_data(directory).map(|()| None),
            (false, true) => return Ok(None),
            (true, true) => {}
        }
        // Making a fresh store was interrupted: nothing was ever acknowledged, and it is made anew. Earlier versions marked a
        // restore in the same way, but a fresh store has no tables before it is whole.
        let left = Data::open(&data(directory), options);
        let tables = left.and_then(|data| read::tables(&View::Disk(Arc::new(Published::of(Arc::new(data))))));
        if tables.is_ok_and(|tables| !tables.is_empty()) {
            return Err(Error::engine(UnfinishedRestore(directory.to_path_buf())));
        }
        Ok(None)
    }

    fn open_existing(directory: &Path, options: &Options) -> Result<Self, Error> {
        let said = Mark::read(directory)?;
        let acknowledged = said.commit;
        let journals = journal::Journals::read(&data(directory), said.key.as_ref())?;
        if let Some(damage) = journals.damage(acknowledged) {
            return Err(Error::engine(damage));
        }
        if let Some(kept) = journals.cut_torn(&kept_aside(directory)).map_err(Error::engine)? {
            let kept = kept.display();
            tracing::warn!(%kept, "the end of a journal was torn, as after a power cut; it was cut off and is kept");
        }
        if journals.last_commit.is_some_and(|last| last > acknowledged) {
            journals.rewrite_newest().map_err(Error::engine)?;
        }
        manifest::check(&data(directory))?;
        let data = Data::open(&data(directory), options)?;
        data.check_oldest(journals.first, directory)?;
        let found = data.last_commit()?;
        // Sorted files may know of commits that the journals have lost: a disk may lose one file and keep another.
        let there = journals.last_commit.map_or(found, |last| last.min(found));
        let acknowledged = acknowledged.max(found).max(journals.last_commit.unwrap_or(0));
        if there < acknowledged {
            let directory = directory.to_path_buf();
            return Err(Error::engine(Lost { directory, acknowledged, found: there }));
        }
        // A directory of the first format has none yet.
        let key = data.commit_key()?.or(said.key).map_or_else(CommitKey::random, Ok)?;
        Disk::of(directory, options, data, key, found)
    }

    fn of(directory: &Path, options: &Options, data: Data, key: CommitKey, commits: u64) -> Result<Self, Error> {
        let mark = Mark::open(directory, key).map_err(Error::engine)?;
        // The file may have been lost, and with it the key.
        mark.write(commits).map_err(Error::engine)?;
        let disk = Disk {
            directory: directory.to_path_buf(),
            options: options.clone(),
            published: RwLock::new(None),
            commits: AtomicU64::new(commits),
            mark,
            failure: RwLock::new(None),
            closing: Mutex::new(None),
        };
        disk.publish(Arc::new(data));
        Ok(disk)
    }

    /// Begins to make the data of a directory.
    pub(super) fn begin(directory: &Path, options: &Options) -> Result<Self, Error> {
        let data = data(directory);
        if is_there(&data)? {
            // Only what is marked as never finished is made anew.
            if !is_there(&directory.join(UNFINISHED))? {
                return Err(Error::engine(format!("{} has appeared meanwhile; try again", data.display())));
            }
            fs::remove_dir_all(&data).map_err(Error::engine)?;
        }
        File::create(directory.join(UNFINISHED)).map_err(Error::engine)?;
        sync(directory)?;
        Mark::forget(directory).map_err(Error::engine)?;
        let disk = Disk::of(directory, options, Data::open(&data, options)?, CommitKey::random()?, 0)?;
        // fjall does not sync the names of the folders that it makes. A journal is of no use without them.
        sync_folders(&data).map_err(Error::engine)?;
        Ok(disk)
    }

    /// Ends making it: what is there is whole.
    pub(super) fn finish(&self) -> Result<(), Error> {
        self.mark.sync().map_err(Error::engine)?;
        fs::remove_file(self.directory.join(UNFINISHED)).map_err(Error::engine)?;
        sync(&self.directory)?;
        self.directory.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync)
    }

    /// The key of the commits.
    pub(crate) fn commit_key(&self) -> &CommitKey {
        self.mark.key()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// What readers see.
    pub(super) fn published(&self) -> Result<Arc<Published>, Error> {
        let published = self.published.read().unwrap_or_else(PoisonError::into_inner);
        published.as_ref().map(Arc::clone).ok_or_else(|| self.unavailable())
    }

    /// Lets readers see the state after the last commit. For the committing thread.
    fn publish(&self, data: Arc<Data>) {
        let published = Arc::new(Published::of(data));
        let former = self.published.write().unwrap_or_else(PoisonError::into_inner).replace(published);
        // Outside of the lock: closing a snapshot may sweep.
        drop(former);
    }

    /// Publishes the same state once more, so that files which compaction has replaced can go. For the committing thread.
    pub(crate) fn republish(&self) {
        if let Ok(published) = self.published() {
            self.publish(Arc::clone(&published.data));
        }
    }

    pub(super) fn latest(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, Error> {
        self.published()?.space(space).get(key).map_err(failed)
    }

    /// Makes all changes or none; when it returns, they survive a power cut.
    pub(crate) fn commit(&self, ops: Vec<Op>) -> Result<(), Error> {
        if self.failure().is_some() {
            return Err(self.unavailable());
        }
        let published = self.published()?;
        let data = &published.data;
        if let Err(error) = data.wait_while(|| data.is_behind()) {
            return Err(self.fail(&self.background_failure(&format!(" ({error})"))));
        }
        let commit = self.commits.load(Ordering::Acquire) + 1;
        let mut batch = data.database.batch().durability(Some(PersistMode::SyncData));
        for op in ops {
            match op {
                Op::Put(space, key, value) => batch.insert(data.space(space), key, value),
                Op::Remove(space, key) => batch.remove(data.space(space), key),
            }
        }
        let tagged = self.mark.key().tagged(Commit { number: commit, sequence: data.database.seqno() });
        batch.insert(data.space(Space::Changes), layout::COMMIT, tagged);
        match batch.commit() {
            Ok(()) => {}
            // Refused before anything was written: something failed in the background.
            Err(fjall::Error::Poisoned) => return Err(self.fail(&self.background_failure(""))),
            Err(error) => {
                self.fail(&error.to_string());
                return Err(Error::unanswered(error));
            }
        }
        self.commits.store(commit, Ordering::Release);
        if let Err(error) = self.mark.write(commit) {
            // The commit itself is safe.
            tracing::warn!(%error, "the number of acknowledged commits cannot be written down");
        }
        self.publish(Arc::clone(data));
        Ok(())
    }

    /// Syncs what tells how many commits were acknowledged.
    pub(crate) fn sync_mark(&self) {
        if let Err(error) = self.mark.sync() {
            tracing::warn!(%error, "the number of acknowledged commits cannot be synced");
        }
    }

    /// Why commits are refused, if they are.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, cause: &str) -> Error {
        tracing::error!(cause, "the store has failed; writes are refused until it could be opened again");
        *self.failure.write().unwrap_or_else(PoisonError::into_inner) = Some(cause.to_owned());
        self.unavailable()
    }

    /// What to say when fjall does not tell why something failed. Mostly the disk is full, so that is looked at.
    fn background_failure(&self, error: &str) -> String {
        const LITTLE: u64 = 16 * 1024 * 1024;
        let free = space::free(&self.directory).filter(|free| *free < LITTLE);
        let full = free.map_or(String::new(), |free| format!("; the disk is full: it has {} KiB left", free / 1024));
        format!("writing sorted files failed in the background{error}{full}")
    }

    fn unavailable(&self) -> Error {
        let cause = self.failure().unwrap_or_else(|| "it is being opened again".to_owned());
        Error::unavailable(cause)
    }

    /// Notices what has failed in the background. For the committing thread.
    pub(crate) fn check(&self) {
        if self.failure().is_none()
            && let Ok(published) = self.published()
            && let Err(error) = published.data.database.persist(PersistMode::Buffer)
        {
            self.fail(&self.background_failure(&format!(" ({error})")));
        }
    }

    /// Opens the directory again after a fault, without what was not acknowledged. For the committing thread.
    ///
    /// Readers go on with the last state until the cause seems to be gone, and are refused for the moment of opening.
    pub(crate) fn reopen(&self) -> Result<(), Error> {
        let note = |error: io::Error| {
            let cause = format!("the disk cannot be written: {error}");
            *self.failure.write().unwrap_or_else(PoisonError::into_inner) = Some(cause.clone());
            Error::unavailable(cause)
        };
        probe(&self.directory).map_err(note)?;
        self.close()?;
        let (path, acknowledged) = (data(&self.directory), self.commits.load(Ordering::Acquire));
        journal::cut_after(&path, self.mark.key(), acknowledged, &kept_aside(&self.directory)).map_err(note)?;
        let journals = journal::Journals::read(&path, Some(self.mark.key()))?;
        if let Some(damage) = journals.damage(acknowledged) {
            return Err(Error::engine(damage));
        }
        journals.cut_torn(&kept_aside(&self.directory)).map_err(note)?;
        journals.detach_newest().map_err(note)?;
        manifest::check(&path)?;
        let data = Data::open(&path, &self.options)?;
        let found = data.last_commit()?;
        if found != acknowledged {
            let directory = self.directory.clone();
            return Err(Error::engine(Lost { directory, acknowledged, found }));
        }
        self.publish(Arc::new(data));
        *self.failure.write().unwrap_or_else(PoisonError::into_inner) = None;
        tracing::info!("the store has been opened again and takes writes");
        Ok(())
    }

    /// Closes the data, once nobody reads it any more.
    fn close(&self) -> Result<(), Error> {
        let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        let former = self.published.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(former) = former {
            former.data.closing.store(true, Ordering::Release);
            *closing = Some(Arc::clone(&former.data));
        }
        let Some(data) = closing.take() else { return Ok(()) };
        let began = Instant::now();
        while Arc::strong_count(&data) > 1 {
            if began.elapsed() > READS {
                *closing = Some(data);
                return Err(Error::unavailable("reads are still under way"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // The threads of fjall end with it. Should one of them still write what is left in a buffer, it has to do so to a file
        // that has been replaced by then.
        drop(data);
        Ok(())
    }

    /// Moves everything to sorted files, together with one more value, and empties the journals: what comes next is numbered
    /// from here.
    pub(crate) fn empty_journals(directory: &Path, with: Op) -> Result<(), Error> {
        let path = data(directory);
        if journal::Journals::read(&path, None)?.files.is_empty() {
            journal::empty(&path).map_err(Error::engine)?;
        }
        manifest::check(&path)?;
        let opened = Data::open(&path, &Options::default())?;
        match with {
            Op::Put(space, key, value) => opened.space(space).insert(key, value),
            Op::Remove(space, key) => opened.space(space).remove(key),
        }
        .map_err(Error::engine)?;
        for space in &opened.spaces {
            space.rotate_memtable().map_err(Error::engine)?;
            opened.wait_while(|| space.tree.sealed_memtable_count() > 0).map_err(Error::engine)?;
        }
        drop(opened);
        journal::empty(&path).map_err(Error::engine)
    }

    /// Sorted files that are missing or not what was written.
    pub(crate) fn damaged_files(&self) -> Result<Vec<PathBuf>, Error> {
        manifest::damaged_files(&data(&self.directory))
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        self.published()?.data.database.disk_space().map_err(Error::engine)
    }

    /// Bytes of the journals.
    pub(crate) fn journal_bytes(&self) -> Result<u64, Error> {
        self.published()?.data.database.journal_disk_space().map_err(Error::engine)
    }

    /// Compactions that run and that have ended.
    pub(crate) fn compactions(&self) -> Result<(usize, usize), Error> {
        let published = self.published()?;
        let database = &published.data.database;
        Ok((database.active_compactions(), database.compactions_completed()))
    }

    /// Rewrites everything without what has been overwritten or removed.
    pub(crate) fn compact(&self) -> Result<(), Error> {
        Space::ALL.into_iter().try_for_each(|space| self.compact_space(space))
    }

    /// Rewrites a space without what has been overwritten or removed.
    pub(crate) fn compact_space(&self, space: Space) -> Result<(), Error> {
        let published = self.published()?;
        let (data, space) = (&published.data, published.space(space));
        space.rotate_memtable().map_err(Error::engine)?;
        data.wait_while(|| space.tree.sealed_memtable_count() > 0).map_err(Error::unavailable)?;
        space.major_compact().map_err(failed)
    }
}

impl Published {
    fn of(data: Arc<Data>) -> Self {
        let snapshot = data.database.snapshot();
        Published { data, snapshot }
    }

    pub(super) fn space(&self, space: Space) -> &Keyspace {
        self.data.space(space)
    }

    /// Whether the directory is still open.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        match self.data.closing.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::unavailable("it is being opened again")),
        }
    }
}

impl Data {
    fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let database = Database::builder(path)
            .cache_size(options.cache_bytes)
            .max_journaling_size(options.journal_bytes)
            // fjall compresses once more to check what it replays, and another version of the compressor may give other bytes.
            .journal_compression(CompressionType::None)
            .open()
            .map_err(failed)?;
        let settings = || KeyspaceCreateOptions::default().max_memtable_size(options.write_buffer_bytes);
        let open = |space: Space| database.keyspace(space.name(), settings).map_err(failed);
        let [a, b, c, d, e] = Space::ALL;
        let spaces = [open(a)?, open(b)?, open(c)?, open(d)?, open(e)?];
        Ok(Data { database, spaces, closing: AtomicBool::new(false) })
    }

    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    /// Whether so much waits for being flushed or compacted that fjall would hold up the next commit. It does not notice when
    /// nobody is left to do that, and would wait for ever.
    fn is_behind(&self) -> bool {
        const SEALED: usize = 2;
        const RUNS: usize = 28;
        let behind =
            |space: &Keyspace| space.tree.sealed_memtable_count() >= SEALED || space.tree.l0_run_count() >= RUNS;
        self.spaces.iter().any(behind)
    }

    /// Waits for what happens in the background, unless that has failed.
    fn wait_while(&self, mut waits: impl FnMut() -> bool) -> Result<(), fjall::Error> {
        while waits() {
            self.database.persist(PersistMode::Buffer)?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// The number of the last commit; 0 in a directory of the first format, which has none.
    fn last_commit(&self) -> Result<u64, Error> {
        let found = self.database.snapshot().get(self.space(Space::Changes), layout::COMMIT).map_err(Error::engine)?;
        let damaged = || Error::engine("the number of the last commit is damaged");
        found.map_or(Ok(0), |bytes| tag::read(&bytes).map(|commit| commit.number).ok_or_else(damaged))
    }

    /// Whether everything before the first commit of the journals is in sorted files: if not, an older journal is missing.
    fn check_oldest(&self, first: Option<Commit>, directory: &Path) -> Result<(), Error> {
        let Some(Commit { number, sequence }) = first else { return Ok(()) };
        let changes = &self.space(Space::Changes).tree;
        if changes.get_highest_persisted_seqno().is_some_and(|persisted| persisted >= sequence) {
            return Ok(());
        }
        let before = changes.get(layout::COMMIT, sequence).map_err(Error::engine)?;
        let found = before.and_then(|bytes| tag::read(&bytes)).map_or(0, |commit| commit.number);
        if found + 1 < number {
            let lost = Lost { directory: directory.to_path_buf(), acknowledged: number - 1, found };
            return Err(Error::engine(lost));
        }
        Ok(())
    }

    /// The key of the commits, if the directory has one.
    fn commit_key(&self) -> Result<Option<CommitKey>, Error> {
        let found = self.database.snapshot().get(self.space(Space::Meta), COMMIT_KEY_KEY).map_err(Error::engine)?;
        Ok(found.and_then(|bytes| CommitKey::of(&bytes)))
    }
}

/// Refuses a directory without data that had some: a volume may be away, and an empty store must not take its place.
fn refuse_lost_data(directory: &Path) -> Result<(), Error> {
    let (data, acknowledged) = (data(directory), Mark::read(directory)?.commit);
    if acknowledged == 0 {
        return Ok(());
    }
    Err(Error::engine(format!(
        "{} is missing, although {acknowledged} commits to it were acknowledged. Bring it back, or restore a backup into a new \
         directory",
        data.display()
    )))
}

/// Makes the names in a directory last.
fn sync(directory: &Path) -> Result<(), Error> {
    sync_folder(directory).map_err(Error::engine)
}
