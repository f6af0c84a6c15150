//! The ordered bytes below the engine: a directory, or memory for tests.

mod disk;
mod files;
mod journal;
mod manifest;
mod mark;
mod tag;

use std::{
    collections::BTreeMap,
    io,
    ops::{Bound, ControlFlow},
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use fjall::{LsmError, Readable as _, Slice};
use nagaya_store::Error;

use self::disk::Published;
pub(crate) use self::{
    disk::{Disk, Lost, data, kept_aside},
    files::{sync_folder, sync_folders},
    journal::{Journals, Tail},
    mark::{Acknowledged, Mark},
    tag::CommitKey,
};
use crate::{layout::Space, options::Options, upgrade};

/// Ordered bytes that are changed in atomic, durable batches.
pub(crate) enum Backing {
    Disk(Disk),
    Memory(RwLock<Spaces>),
}

type Spaces = [BTreeMap<Slice, Slice>; Space::ALL.len()];

/// One change of a batch.
#[derive(Debug)]
pub(crate) enum Op {
    /// The value is counted by references: an item goes into its table and into each index without being copied.
    Put(Space, Slice, Slice),
    Remove(Space, Slice),
}

impl Op {
    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Op::Put(_, key, value) => key.len() + value.len(),
            Op::Remove(_, key) => key.len(),
        }
    }
}

/// The state at one moment: commits that come later are not seen, and none is seen by half.
pub(crate) enum View<'b> {
    Disk(Arc<Published>),
    Memory(RwLockReadGuard<'b, Spaces>),
}

impl Backing {
    pub(crate) fn memory() -> Self {
        Backing::Memory(RwLock::default())
    }

    /// Makes the data of a directory. A mark lies beside it until it is whole and has its format: what a process leaves that
    /// is killed meanwhile is not taken for a store.
    pub(crate) fn make<T>(
        directory: &Path,
        options: &Options,
        fill: impl FnOnce(&Backing) -> Result<T, Error>,
    ) -> Result<(Self, T), Error> {
        let disk = Disk::begin(directory, options)?;
        let current = upgrade::current(disk.commit_key())?;
        let backing = Backing::Disk(disk);
        let made = fill(&backing)?;
        backing.commit(current)?;
        if let Backing::Disk(disk) = &backing {
            disk.finish()?;
        }
        Ok((backing, made))
    }

    /// Opens the data of a directory; makes it if it is not there.
    pub(crate) fn open(directory: &Path, options: &Options) -> Result<Self, Error> {
        match Disk::open(directory, options)? {
            Some(disk) => Ok(Backing::Disk(disk)),
            None => Backing::make(directory, options, |_| Ok(())).map(|(backing, ())| backing),
        }
    }

    /// Makes all changes or none; when it returns, they survive a power cut. Only one thread commits.
    pub(crate) fn commit(&self, ops: Vec<Op>) -> Result<(), Error> {
        match self {
            Backing::Disk(disk) => disk.commit(ops),
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

    /// The state after the last commit. Fails while the directory is being opened again after a fault.
    pub(crate) fn view(&self) -> Result<View<'_>, Error> {
        match self {
            Backing::Disk(disk) => disk.published().map(View::Disk),
            Backing::Memory(spaces) => Ok(View::Memory(spaces.read().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// The directory, if there is one.
    pub(crate) fn disk(&self) -> Option<&Disk> {
        match self {
            Backing::Disk(disk) => Some(disk),
            Backing::Memory(_) => None,
        }
    }

    /// One value as it is now, for the thread that commits: nobody else can tell whether the commit it belongs to is whole.
    pub(crate) fn latest(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, Error> {
        match self {
            Backing::Disk(disk) => disk.latest(space, key),
            Backing::Memory(_) => self.view()?.get(space, key),
        }
    }
}

impl View<'_> {
    pub(crate) fn get(&self, space: Space, key: &[u8]) -> Result<Option<Slice>, Error> {
        match self {
            View::Disk(state) => state.snapshot.get(state.space(space), key).map_err(failed),
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
            View::Disk(state) => {
                let mut entries = state.snapshot.range(state.space(space), (from, to));
                loop {
                    let entry = if descending { entries.next_back() } else { entries.next() };
                    let Some(entry) = entry else { return Ok(()) };
                    let (key, value) = entry.into_inner().map_err(failed)?;
                    // A long read would keep a directory from being opened again.
                    state.check_open()?;
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

/// A file that is there, and cannot be read: by this user, most likely.
fn unreadable(path: &Path, error: &io::Error) -> Error {
    Error::engine(format!("{} cannot be read: {error}", path.display()))
}

/// A failure of fjall, in the words of whoever looks after the store.
fn failed(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => Error::engine(error),
        fjall::Error::Storage(error) => Error::engine(format!(
            "a sorted file of the store is missing or damaged ({error:?}). `nagaya store verify` names it; restore a backup"
        )),
        error => Error::engine(error),
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
