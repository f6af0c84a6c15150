//! Looking after a directory: what is in it, whether it is whole, copies of it.

mod backup;
mod recover;
mod repair;
mod restore;
mod stat;
mod verify;

use std::ops::{Bound, ControlFlow};

pub use backup::{Backup, restore_backup};
use fjall::Slice;
use nagaya_store::{Error, Item, Key};
pub use recover::{JournalState, Recovery, accept_loss, inspect_damage};
pub use repair::Repair;
pub use stat::{Stat, TableStat};
pub use verify::Finding;

use crate::{
    backing::{Disk, Op, View},
    layout::{self, Space},
    plan::{self, Image},
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
        visit(key, value, record::decode_item(value)?)?;
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
    disk: &'b Disk,
    ops: Vec<Op>,
    hash: Hash,
    items: u64,
}

impl<'b> Filler<'b> {
    fn new(disk: &'b Disk) -> Self {
        Filler { disk, ops: Vec::new(), hash: Hash::default(), items: 0 }
    }

    fn table(&mut self, table: &Table) -> Result<(), Error> {
        self.hash.table(table)?;
        let key = record::table_key(&table.spec.name);
        self.ops.push(Op::Put(Space::Meta, key.into(), record::encode(table)?.into()));
        Ok(())
    }

    fn item(&mut self, table: &Table, item: Item) -> Result<(), Error> {
        let key = table.spec.key.key_of(&item).ok_or_else(|| Error::engine("an item lacks its key"))?;
        self.hash.item(&record::encode(&item)?);
        self.items += 1;
        self.replace(table, &key, [None, Some(item)])
    }

    /// Puts one item in the place of another that has been filled in before.
    fn replace(&mut self, table: &Table, key: &Key, items: [Option<Item>; 2]) -> Result<(), Error> {
        let place = Slice::from(layout::item(table.id, key));
        let image = |item: Option<Item>| item.map(|item| Image::of(table, key, &place, item)).transpose();
        let [old, new] = items;
        plan::replace(&place, image(old)?.as_ref(), image(new)?.as_ref(), &mut self.ops);
        if self.ops.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.disk.commit(std::mem::take(&mut self.ops))
    }
}
