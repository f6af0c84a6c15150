//! The ordered bytes below the engine: a directory, or memory for tests.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    ops::{Bound, ControlFlow},
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _, Slice};
use nagaya_store::Error;

use crate::{
    layout::Space,
    maintain::{UnfinishedRestore, refuse_unfinished_restore},
    read,
    record::{self, FORMAT, FORMAT_KEY, INCARNATION_KEY},
};

/// Ordered bytes that are changed in atomic, durable batches.
pub(crate) enum Backing {
    Disk(Disk),
    Memory(RwLock<Spaces>),
}

pub(crate) struct Disk {
    database: Database,
    spaces: [Keyspace; Space::ALL.len()],
}

/// What the data of a directory lies under.
const DATA: &str = "data";

/// What lies beside it until it is whole.
const UNFINISHED: &str = "data.unfinished";

/// Bytes of a space that are held in memory before they go to sorted files: with the cache, what keeps the process small
/// however large the directory grows.
const WRITE_BUFFER: u64 = 16 * 1024 * 1024;

/// Bytes of journals after which spaces that are rarely written are flushed, so that old journals can go.
const JOURNALS: u64 = 192 * 1024 * 1024;

type Spaces = [BTreeMap<Slice, Slice>; Space::ALL.len()];

/// One change of a batch.
#[derive(Debug)]
pub(crate) enum Op {
    /// The value is counted by references: an item goes into its table and into each index without being copied.
    Put(Space, Slice, Slice),
    Remove(Space, Slice),
}

/// The state at one moment: commits that come later are not seen, and none is seen by half.
pub(crate) enum View<'b> {
    Disk(&'b Disk, fjall::Snapshot),
    Memory(RwLockReadGuard<'b, Spaces>),
}

impl Backing {
    pub(crate) fn memory() -> Self {
        Backing::Memory(RwLock::default())
    }

    pub(crate) fn disk(path: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let database = Database::builder(path)
            .cache_size(cache_bytes)
            .max_journaling_size(JOURNALS)
            .open()
            .map_err(Error::engine)?;
        let settings = || KeyspaceCreateOptions::default().max_memtable_size(WRITE_BUFFER);
        let open = |space: Space| database.keyspace(space.name(), settings).map_err(Error::engine);
        let [a, b, c, d, e] = Space::ALL;
        let spaces = [open(a)?, open(b)?, open(c)?, open(d)?, open(e)?];
        Ok(Backing::Disk(Disk { database, spaces }))
    }

    /// Opens the data of a directory; makes it if it is not there.
    pub(crate) fn open(directory: &Path, cache_bytes: u64) -> Result<Self, Error> {
        refuse_unfinished_restore(directory)?;
        let data = directory.join(DATA);
        if data.exists() && !directory.join(UNFINISHED).exists() {
            return Backing::disk(&data, cache_bytes);
        }
        // Making a fresh store was interrupted: nothing was ever acknowledged, and it is made anew. Earlier versions marked a
        // restore in the same way, but a fresh store has no tables before it is whole.
        if data.exists() {
            let tables = Backing::disk(&data, cache_bytes).and_then(|backing| read::tables(&backing.view()));
            if tables.is_ok_and(|tables| !tables.is_empty()) {
                return Err(Error::engine(UnfinishedRestore(directory.to_path_buf())));
            }
        }
        Backing::make(directory, cache_bytes, |_| Ok(())).map(|(backing, ())| backing)
    }

    /// Makes the data of a directory. A mark lies beside it until it is whole and has its format: what a process leaves that
    /// is killed meanwhile is not taken for a store, and made anew.
    pub(crate) fn make<T>(
        directory: &Path,
        cache_bytes: u64,
        fill: impl FnOnce(&Backing) -> Result<T, Error>,
    ) -> Result<(Self, T), Error> {
        let (mark, data) = (directory.join(UNFINISHED), directory.join(DATA));
        let synced = || File::open(directory).and_then(|directory| directory.sync_all()).map_err(Error::engine);
        File::create(&mark).map_err(Error::engine)?;
        synced()?;
        if data.exists() {
            fs::remove_dir_all(&data).map_err(Error::engine)?;
        }
        let backing = Backing::disk(&data, cache_bytes)?;
        let made = fill(&backing)?;
        let mut incarnation = [0; 16];
        getrandom::fill(&mut incarnation).map_err(|error| Error::engine(error.to_string()))?;
        backing.commit(vec![
            Op::Put(Space::Meta, INCARNATION_KEY.into(), incarnation.into()),
            Op::Put(Space::Meta, FORMAT_KEY.into(), record::encode(&FORMAT)?.into()),
        ])?;
        fs::remove_file(&mark).map_err(Error::engine)?;
        synced()?;
        Ok((backing, made))
    }

    /// Makes all changes or none; when it returns, they survive a power cut.
    pub(crate) fn commit(&self, ops: Vec<Op>) -> Result<(), Error> {
        match self {
            Backing::Disk(disk) => {
                let mut batch = disk.database.batch().durability(Some(PersistMode::SyncData));
                for op in ops {
                    match op {
                        Op::Put(space, key, value) => batch.insert(disk.space(space), key, value),
                        Op::Remove(space, key) => batch.remove(disk.space(space), key),
                    }
                }
                batch.commit().map_err(Error::engine)
            }
            Backing::Memory(spaces) => {
                // A poisoned lock means that a reader panicked; the data is whole all the same.
                let mut spaces = spaces.write().unwrap_or_else(PoisonError::into_inner);
                for op in ops {
                    match op {
                        Op::Put(space, key, value) => spaces[space as usize].insert(key, value),
                        Op::Remove(space, key) => spaces[space as usize].remove(&key),
                    };
                }
                Ok(())
            }
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Backing::Disk(disk) => View::Disk(disk, disk.database.snapshot()),
            Backing::Memory(spaces) => View::Memory(spaces.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Bytes on disk.
    pub(crate) fn disk_bytes(&self) -> Result<u64, Error> {
        match self {
            Backing::Disk(disk) => disk.database.disk_space().map_err(Error::engine),
            Backing::Memory(_) => Ok(0),
        }
    }

    /// Rewrites everything without what has been overwritten or removed.
    pub(crate) fn compact(&self) -> Result<(), Error> {
        match self {
            Backing::Disk(disk) => {
                for space in &disk.spaces {
                    space.rotate_memtable_and_wait().map_err(Error::engine)?;
                    space.major_compact().map_err(Error::engine)?;
                }
                Ok(())
            }
            Backing::Memory(_) => Ok(()),
        }
    }

    /// One value as it is now.
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, Error> {
        match self {
            Backing::Disk(disk) => disk.space(space).get(key).map_err(Error::engine),
            Backing::Memory(_) => self.view().get(space, key),
        }
    }
}

impl Disk {
    fn space(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }
}

impl View<'_> {
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, Error> {
        match self {
            View::Disk(disk, snapshot) => snapshot.get(disk.space(space), key).map_err(Error::engine),
            View::Memory(spaces) => Ok(spaces[space as usize].get(key).cloned()),
        }
    }

    /// Visits the entries from `from` up to but without `to`, until told to stop.
    pub(crate) fn range(
        &self,
        space: Space,
        from: Bound<Vec<u8>>,
        to: Option<Vec<u8>>,
        descending: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        if is_empty(&from, &to) {
            return Ok(());
        }
        match self {
            View::Disk(disk, snapshot) => {
                let mut entries = snapshot.range(disk.space(space), (from, to));
                loop {
                    let entry = if descending { entries.next_back() } else { entries.next() };
                    let Some(entry) = entry else { return Ok(()) };
                    let (key, value) = entry.into_inner().map_err(Error::engine)?;
                    if visit(&key, &value)?.is_break() {
                        return Ok(());
                    }
                }
            }
            View::Memory(spaces) => {
                let mut entries = spaces[space as usize].range::<[u8], _>((as_slice(&from), as_slice(&to)));
                loop {
                    let entry = if descending { entries.next_back() } else { entries.next() };
                    let Some((key, value)) = entry else { return Ok(()) };
                    if visit(key, value)?.is_break() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Whether no key can lie between; an inverted range is nothing to ask a store for.
fn is_empty(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
