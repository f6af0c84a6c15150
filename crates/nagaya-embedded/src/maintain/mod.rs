//! Looking after a directory: what is in it, whether it is whole, copies of it.

mod backup;
mod restore;
mod stat;
mod verify;

use std::ops::{Bound, ControlFlow};

pub use backup::{Backup, restore_backup};
use fjall::Slice;
use nagaya_store::{Error, Item};
pub use stat::{Stat, TableStat};
pub use verify::Finding;

use crate::{
    backing::{Backing, Op, View},
    layout::{self, Space},
    read::index_number,
    record::{self, Table},
};

/// Told how many entries have been dealt with so far.
pub type Progress<'p> = &'p mut dyn FnMut(u64);

/// Entries that are written to a new directory at once.
const CHUNK: usize = 2_000;

/// Visits every item of a table, with its byte key.
fn each_item(
    view: &View<'_>,
    table: &Table,
    mut visit: impl FnMut(&[u8], &[u8], Item) -> Result<(), Error>,
) -> Result<(), Error> {
    let prefix = layout::table(table.id);
    let end = layout::after_prefix(&prefix);
    view.range(Space::Items, Bound::Included(prefix), end, false, |key, value| {
        visit(key, value, record::decode(value)?)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// The hash of everything that a store holds: the same for the same tables and items, whatever their history.
#[derive(Default)]
struct Hash(blake3::Hasher);

impl Hash {
    fn table(&mut self, table: &Table) -> Result<(), Error> {
        self.part(&record::encode(&(&table.spec.name, &table.spec.key))?);
        Ok(())
    }

    fn item(&mut self, value: &[u8]) {
        self.part(value);
    }

    /// The length goes in front, so that two parts cannot be taken for two others.
    fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn text(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// Fills a new directory with tables and items, their indexes and expiries; without a past.
struct Filler<'b> {
    backing: &'b Backing,
    ops: Vec<Op>,
    hash: Hash,
    items: u64,
}

impl<'b> Filler<'b> {
    fn new(backing: &'b Backing) -> Self {
        Filler { backing, ops: Vec::new(), hash: Hash::default(), items: 0 }
    }

    fn table(&mut self, table: &Table) -> Result<(), Error> {
        self.hash.table(table)?;
        self.put(Op::Put(Space::Meta, record::table_key(&table.spec.name), record::encode(table)?.into()))
    }

    fn item(&mut self, table: &Table, item: &Item) -> Result<(), Error> {
        let damaged = || Error::engine("an item lacks its key");
        let key = table.spec.key.key_of(item).ok_or_else(damaged)?;
        let bytes = layout::item(table.id, &key);
        let value = Slice::from(record::encode(item)?);
        self.hash.item(&value);
        self.items += 1;
        for (at, index) in table.spec.indexes.iter().enumerate() {
            if let Some(index_key) = index.key_of(item) {
                let entry = layout::index_entry(table.id, index_number(at)?, &index_key, &key);
                self.put(Op::Put(Space::Index, entry, value.clone()))?;
            }
        }
        if let Some(second) = table.spec.expiry_of(item) {
            self.put(Op::Put(Space::Expiry, layout::expiry(second, &bytes), Slice::empty()))?;
        }
        self.put(Op::Put(Space::Items, bytes, value))
    }

    fn put(&mut self, op: Op) -> Result<(), Error> {
        self.ops.push(op);
        if self.ops.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.backing.commit(std::mem::take(&mut self.ops))
    }
}
