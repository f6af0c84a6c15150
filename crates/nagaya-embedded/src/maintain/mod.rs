//! Looking after a directory: what is in it, whether it is whole, copies of it.

mod backup;
mod filler;
mod instant;
mod recover;
mod repair;
mod restore;
mod stat;
mod verify;

use std::ops::{Bound, ControlFlow};

pub use backup::{
    Backup, Checked, Content, Since, Source, check_backup, check_chain, is_damaged, new_id, verify_objects,
    write_backup,
};
use nagaya_store::{Error, ErrorKind, Item};
pub use recover::{JournalState, Recovery, accept_loss, inspect_damage};
pub use repair::Repair;
pub use restore::{KeyFile, ObjectsAndKeys, Restored, restore_backup, restore_backups};
pub(crate) use restore::{UnfinishedRestore, refuse_unfinished_restore};
pub use stat::{Stat, TableStat};
pub use verify::Finding;

use crate::{
    backing::View,
    layout::{self, Space},
    read,
    record::{self, INCARNATION_KEY, SEQUENCE_KEY, Table},
};

/// What an error says of looking after a directory, in its own words.
pub fn reason(error: &Error) -> String {
    match error.kind() {
        ErrorKind::Engine(cause) => cause.to_string(),
        _ => error.to_string(),
    }
}

/// Told how many entries have been dealt with so far.
pub type Progress<'p> = &'p mut dyn FnMut(u64);

/// The tables of a snapshot, by name.
fn tables(view: &View<'_>) -> Result<Vec<Table>, Error> {
    let mut tables: Vec<Table> = read::tables(view)?.into_values().map(|table| (*table).clone()).collect();
    tables.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
    Ok(tables)
}

/// Which directory a snapshot is of.
fn incarnation(view: &View<'_>) -> Result<Option<Vec<u8>>, Error> {
    Ok(view.get(Space::Meta, INCARNATION_KEY)?.map(|value| value.to_vec()))
}

/// The highest sequence of a snapshot.
fn sequence(view: &View<'_>, tables: &[Table]) -> Result<u64, Error> {
    let mut highest: u64 =
        view.get(Space::Meta, SEQUENCE_KEY)?.map(|value| record::decode(&value)).transpose()?.unwrap_or(0);
    for table in tables {
        highest = highest.max(read::trimmed(view, table.id)?.sequence);
        let prefix = layout::table(table.id);
        let end = layout::after_prefix(&prefix);
        view.range(Space::Changes, Bound::Included(prefix), end, true, |key, _| {
            highest = highest.max(layout::sequence(key).unwrap_or(0));
            Ok(ControlFlow::Break(()))
        })?;
    }
    Ok(highest)
}

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
