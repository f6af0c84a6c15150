//! Filling a new directory: tables, items with their indexes and expiries, changes, and where sequences go on.

use std::collections::HashMap;

use fjall::Slice;
use nagaya_store::{Error, Item, Key};

use super::backup::Damage;
use crate::{
    backing::{Backing, Op},
    layout::{self, Space},
    plan::{self, Image},
    record::{self, Change, SEQUENCE_KEY, Table, Trimmed},
};

/// Entries that are written to a new directory at once.
const CHUNK: usize = 2_000;
/// Bytes that are written at once, so that large items do not pile up in memory.
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Fills a new directory.
pub(super) struct Filler<'b> {
    backing: &'b Backing,
    ops: Vec<Op>,
    bytes: usize,
    /// Items of this chunk, which cannot be read from the directory yet.
    pending: HashMap<Slice, Option<Slice>>,
    /// What has been filled in so far.
    pub(super) entries: u64,
}

impl<'b> Filler<'b> {
    pub(super) fn new(backing: &'b Backing) -> Self {
        Filler { backing, ops: Vec::new(), bytes: 0, pending: HashMap::new(), entries: 0 }
    }

    pub(super) fn table(&mut self, table: &Table, trimmed: Trimmed) -> Result<(), Error> {
        let key = record::table_key(&table.spec.name);
        self.ops.push(Op::Put(Space::Meta, key.into(), record::encode(table)?.into()));
        let key = record::trimmed_key(table.id);
        self.ops.push(Op::Put(Space::Meta, key.into(), record::encode(&trimmed)?.into()));
        Ok(())
    }

    /// The highest sequence given out: those to come are higher.
    pub(super) fn sequence(&mut self, sequence: u64) -> Result<(), Error> {
        self.ops.push(Op::Put(Space::Meta, SEQUENCE_KEY.into(), record::encode(&sequence)?.into()));
        Ok(())
    }

    pub(super) fn item(&mut self, table: &Table, item: Item) -> Result<(), Error> {
        let key = table.spec.key.key_of(&item).ok_or_else(|| Error::engine("an item lacks its key"))?;
        self.replace(table, &key, [None, Some(item)])
    }

    /// Makes a change again, if it follows from what has been filled in before.
    pub(super) fn apply(&mut self, table: &Table, change: Change) -> Result<(), Error> {
        let Change { key, old, new, .. } = change;
        let place = Slice::from(layout::item(table.id, &key));
        let found = match self.pending.get(&place) {
            Some(pending) => pending.clone(),
            None => self.backing.latest(Space::Items, &place)?,
        };
        let expected = old.as_ref().map(record::encode).transpose()?;
        if found.as_deref() != expected.as_deref() {
            let name = &table.spec.name;
            return Err(Damage::chain(format!(
                "a change of `{key}` in `{name}` does not follow from what is before it"
            )));
        }
        self.replace(table, &key, [old, new])
    }

    /// The record of a change, as it was stored.
    pub(super) fn change(&mut self, table: &Table, sequence: u64, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len();
        self.ops.push(Op::Put(Space::Changes, layout::change(table.id, sequence).into(), bytes.into()));
        self.step()
    }

    /// Puts one item in the place of another that has been filled in before.
    pub(super) fn replace(&mut self, table: &Table, key: &Key, items: [Option<Item>; 2]) -> Result<(), Error> {
        let place = Slice::from(layout::item(table.id, key));
        let image = |item: Option<Item>| item.map(|item| Image::of(table, key, &place, item)).transpose();
        let [old, new] = items;
        let new = image(new)?;
        plan::replace(&place, image(old)?.as_ref(), new.as_ref(), &mut self.ops);
        self.bytes += new.as_ref().map_or(0, |new| new.bytes.len());
        self.pending.insert(place, new.map(|new| new.bytes));
        self.step()
    }

    fn step(&mut self) -> Result<(), Error> {
        self.entries += 1;
        if self.ops.len() >= CHUNK || self.bytes >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        self.pending.clear();
        self.backing.commit(std::mem::take(&mut self.ops))
    }
}
