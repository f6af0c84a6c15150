//! Ordered bytes with atomic, durable batches: a directory, or memory for tests.

mod acknowledged;
mod commit_tag;
mod disk;
mod journal;
mod manifest;

use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use fjall::{Readable as _, Slice};
use nagaya_store::Error;
use serde::de::DeserializeOwned;

use self::disk::PublishedState;
pub(crate) use self::{
    acknowledged::{Acknowledged, AcknowledgedFile},
    commit_tag::CommitKey,
    disk::{Disk, LostCommits, data_folder, torn_folder},
    journal::{JournalTail, Journals},
};
use crate::{
    encryption,
    layout::{self, Keyspace},
    options::Options,
    record, upgrade,
};

/// Ordered bytes that are changed in atomic, durable batches.
pub(crate) enum Storage {
    Disk(Disk),
    Memory(RwLock<MemoryKeyspaces>),
}

type MemoryKeyspaces = [BTreeMap<Slice, Slice>; Keyspace::ALL.len()];

/// One operation of a batch.
#[derive(Debug)]
pub(crate) enum Op {
    /// The value is reference-counted: an item is not copied for its table and each index.
    Put(Keyspace, Slice, Slice),
    Remove(Keyspace, Slice),
}

impl Op {
    /// Its size in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Op::Put(_, key, value) => key.len() + value.len(),
            Op::Remove(_, key) => key.len(),
        }
    }
}

/// A snapshot: it shows whole commits only, and no later ones.
pub(crate) enum View<'s> {
    Disk(Arc<PublishedState>),
    Memory(RwLockReadGuard<'s, MemoryKeyspaces>),
}

impl Storage {
    pub(crate) fn memory() -> Self {
        Storage::Memory(RwLock::default())
    }

    /// Creates the data of a directory. Until it is complete a marker file lies beside it, so that what a killed
    /// process leaves is not opened as a store.
    pub(crate) fn create<T>(
        directory: &Path,
        options: &Options,
        fill: impl FnOnce(&Storage) -> Result<T, Error>,
    ) -> Result<(Self, T), Error> {
        let disk = Disk::begin_create(directory, options)?;
        let mut initial = upgrade::initial_records(disk.commit_key())?;
        let storage = Storage::Disk(disk);
        initial.extend(encryption::initial_record(&storage, options.encryption_key.as_ref())?);
        let filled = fill(&storage)?;
        storage.commit(initial)?;
        if let Storage::Disk(disk) = &storage {
            disk.finish_create()?;
        }
        Ok((storage, filled))
    }

    /// Opens the data of a directory, or creates it if it does not exist.
    pub(crate) fn open(directory: &Path, options: &Options) -> Result<Self, Error> {
        match Disk::open(directory, options)? {
            Some(disk) => Ok(Storage::Disk(disk)),
            None => Storage::create(directory, options, |_| Ok(())).map(|(storage, ())| storage),
        }
    }

    /// Performs all operations or none. When it returns, they survive a power cut. Only one thread commits.
    pub(crate) fn commit(&self, ops: Vec<Op>) -> Result<(), Error> {
        match self {
            Storage::Disk(disk) => disk.commit(ops),
            Storage::Memory(keyspaces) => {
                // A poisoned lock means that a reader panicked; the data is intact.
                let mut keyspaces = keyspaces.write().unwrap_or_else(PoisonError::into_inner);
                for op in ops {
                    match op {
                        Op::Put(keyspace, key, value) => keyspaces[keyspace as usize].insert(key, value),
                        Op::Remove(keyspace, key) => keyspaces[keyspace as usize].remove(&key),
                    };
                }
                Ok(())
            }
        }
    }

    /// The state after the last commit. Fails while the directory is being reopened after a fault.
    pub(crate) fn view(&self) -> Result<View<'_>, Error> {
        match self {
            Storage::Disk(disk) => disk.published().map(View::Disk),
            Storage::Memory(keyspaces) => Ok(View::Memory(keyspaces.read().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    /// The directory; `None` in memory.
    pub(crate) fn disk(&self) -> Option<&Disk> {
        match self {
            Storage::Disk(disk) => Some(disk),
            Storage::Memory(_) => None,
        }
    }

    /// The current value of a key, for the committing thread only: other threads could see half of a commit.
    pub(crate) fn latest(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Slice>, Error> {
        match self {
            Storage::Disk(disk) => disk.latest(keyspace, key),
            Storage::Memory(_) => self.view()?.get(keyspace, key),
        }
    }
}

impl View<'_> {
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Slice>, Error> {
        match self {
            View::Disk(state) => {
                let stored =
                    state.snapshot.get(state.keyspace(keyspace), key).map_err(|error| state.read_error(&error))?;
                stored.map(|stored| state.open_value(keyspace, key, stored)).transpose()
            }
            View::Memory(keyspaces) => Ok(keyspaces[keyspace as usize].get(key).cloned()),
        }
    }

    /// The decoded value of a key.
    pub(crate) fn get_decoded<T: DeserializeOwned>(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<T>, Error> {
        self.get(keyspace, key)?.map(|value| record::decode(&value)).transpose()
    }

    /// Visits the entries whose keys start with a prefix, until `visit` breaks.
    pub(crate) fn scan_prefix(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
        visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let end = layout::prefix_end(&prefix);
        self.range(keyspace, Bound::Included(prefix), end, false, visit)
    }

    /// The last entry whose key starts with a prefix.
    pub(crate) fn last_with_prefix(
        &self,
        keyspace: Keyspace,
        prefix: Vec<u8>,
    ) -> Result<Option<(Slice, Slice)>, Error> {
        let end = layout::prefix_end(&prefix);
        let mut last = None;
        self.range(keyspace, Bound::Included(prefix), end, true, |key, value| {
            last = Some((key.into(), value.into()));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(last)
    }

    /// Visits the entries from `from` up to but excluding `to`, until `visit` breaks.
    pub(crate) fn range(
        &self,
        keyspace: Keyspace,
        from: Bound<Vec<u8>>,
        to: Option<Vec<u8>>,
        descending: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        match self {
            View::Disk(state) if state.is_encrypted() => {
                self.range_stored(keyspace, from, to, descending, |key, stored| {
                    visit(key, &state.open_value(keyspace, key, stored.clone())?)
                })
            }
            _ => self.range_stored(keyspace, from, to, descending, |key, stored| visit(key, stored)),
        }
    }

    /// The same with the values as they are stored, which may be encrypted.
    pub(crate) fn range_stored(
        &self,
        keyspace: Keyspace,
        from: Bound<Vec<u8>>,
        to: Option<Vec<u8>>,
        descending: bool,
        mut visit: impl FnMut(&[u8], &Slice) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        if is_empty(&from, &to) {
            return Ok(());
        }
        match self {
            View::Disk(state) => {
                let mut entries = state.snapshot.range(state.keyspace(keyspace), (from, to));
                loop {
                    let entry = if descending { entries.next_back() } else { entries.next() };
                    let Some(entry) = entry else { return Ok(()) };
                    let (key, value) = entry.into_inner().map_err(|error| state.read_error(&error))?;
                    // A long read would delay reopening the directory after a fault.
                    state.check_open()?;
                    if visit(&key, &value)?.is_break() {
                        return Ok(());
                    }
                }
            }
            View::Memory(keyspaces) => {
                let mut entries = keyspaces[keyspace as usize].range::<[u8], _>((as_slice(&from), as_slice(&to)));
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

/// Ends a [`View::range`] on a condition.
pub(crate) fn break_if(condition: bool) -> Result<ControlFlow<()>, Error> {
    Ok(if condition { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

/// Whether a range is empty. fjall and `BTreeMap` do not accept an inverted range.
fn is_empty(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
