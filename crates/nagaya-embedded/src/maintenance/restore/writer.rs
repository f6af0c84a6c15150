//! Writing tables, items with their index entries and expiries, and changes to a new directory.

use std::collections::HashMap;

use fjall::Slice;
use nagaya_store::{Error, Item, Key};

use crate::maintenance::backup::BackupDamage;
use crate::{
    layout::{self, Keyspace},
    prepare::Image,
    record::{self, Change, SEQUENCE_KEY, Table, TrimPoint},
    storage::{Op, Storage},
};

/// The maximum number of operations in one commit.
const MAX_OPS: usize = 2_000;
/// The maximum size of one commit, so that large items do not fill the memory.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Writes to a new directory, in large commits.
pub(super) struct RestoreWriter<'b> {
    storage: &'b Storage,
    ops: Vec<Op>,
    bytes: usize,
    /// Items that are not committed yet, and so cannot be read from the directory.
    pending: HashMap<Slice, Option<Slice>>,
    /// The number of items and changes so far.
    pub(super) entries: u64,
}

impl<'b> RestoreWriter<'b> {
    pub(super) fn new(storage: &'b Storage) -> Self {
        RestoreWriter { storage, ops: Vec::new(), bytes: 0, pending: HashMap::new(), entries: 0 }
    }

    pub(super) fn table(&mut self, table: &Table, trimmed: TrimPoint) -> Result<(), Error> {
        let key = record::table_key(&table.spec.name);
        self.ops.push(Op::Put(Keyspace::Meta, key.into(), record::encode(table)?.into()));
        let key = record::trim_point_key(table.id);
        self.ops.push(Op::Put(Keyspace::Meta, key.into(), record::encode(&trimmed)?.into()));
        Ok(())
    }

    /// Sets the highest sequence number used: new changes get higher ones.
    pub(super) fn sequence(&mut self, sequence: u64) -> Result<(), Error> {
        self.ops.push(Op::Put(Keyspace::Meta, SEQUENCE_KEY.into(), record::encode(&sequence)?.into()));
        Ok(())
    }

    pub(super) fn item(&mut self, table: &Table, item: Item) -> Result<(), Error> {
        let key = table.spec.key.key_of(&item).ok_or_else(|| Error::engine("an item has no key"))?;
        self.replace(table, &key, [None, Some(item)])
    }

    /// Applies a change, if it starts at the current item.
    pub(super) fn apply(&mut self, table: &Table, change: Change) -> Result<(), Error> {
        let Change { key, old, new, .. } = change;
        let item_key = Slice::from(layout::item_key(table.id, &key));
        let found = match self.pending.get(&item_key) {
            Some(pending) => pending.clone(),
            None => self.storage.latest(Keyspace::Items, &item_key)?,
        };
        let expected = old.as_ref().map(record::encode).transpose()?;
        if found.as_deref() != expected.as_deref() {
            let name = &table.spec.name;
            return Err(BackupDamage::chain(format!(
                "a change of `{key}` in `{name}` does not start at the item before it"
            )));
        }
        self.replace(table, &key, [old, new])
    }

    /// Writes the record of a change.
    pub(super) fn change(&mut self, table: &Table, sequence: u64, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len();
        self.ops.push(Op::Put(Keyspace::Changes, layout::change_key(table.id, sequence).into(), bytes.into()));
        self.step()
    }

    /// Replaces one item by another.
    pub(super) fn replace(&mut self, table: &Table, key: &Key, items: [Option<Item>; 2]) -> Result<(), Error> {
        let item_key = Slice::from(layout::item_key(table.id, key));
        let image = |item: Option<Item>| item.map(|item| Image::encode(table, key, &item_key, item)).transpose();
        let [old, new] = items;
        let new = image(new)?;
        Image::replace(&item_key, image(old)?.as_ref(), new.as_ref(), &mut self.ops);
        self.bytes += new.as_ref().map_or(0, |new| new.bytes.len());
        self.pending.insert(item_key, new.map(|new| new.bytes));
        self.step()
    }

    fn step(&mut self) -> Result<(), Error> {
        self.entries += 1;
        if self.ops.len() >= MAX_OPS || self.bytes >= MAX_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        self.pending.clear();
        self.storage.commit(std::mem::take(&mut self.ops))
    }
}
