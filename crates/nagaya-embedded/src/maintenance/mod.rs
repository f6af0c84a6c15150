//! Maintenance of a directory: statistics, verification, repair, recovery, backup and restore.

mod backup;
mod recover;
mod repair;
mod restore;
mod stat;
mod timestamp;
mod verify;

use std::ops::ControlFlow;

pub(crate) use backup::ObjectWalk;
pub use backup::{
    BackupContent, BackupPosition, BackupSource, BackupSummary, VerifiedBackup, is_backup_damaged, new_backup_id,
    verify_backup, verify_chain, verify_encrypted_backup, verify_objects, write_backup,
};
use nagaya_store::{Error, Item};
pub use recover::{JournalState, Recovery, discard_damaged_commits, inspect_damage};
pub use repair::RepairSummary;
pub use restore::{KeyFile, RestoreExtras, RestoreSummary, restore_backup, restore_backups};
pub(crate) use restore::{UnfinishedRestore, refuse_unfinished_restore};
pub use stat::{StoreStats, TableStats};
pub use verify::Finding;

use crate::{
    layout::{self, Keyspace},
    read,
    record::{self, INCARNATION_KEY, SEQUENCE_KEY, Table},
    storage::View,
};

/// Called with the number of entries processed so far.
pub type Progress<'p> = &'p mut dyn FnMut(u64);

/// The tables of a snapshot, sorted by name.
fn sorted_tables(view: &View<'_>) -> Result<Vec<Table>, Error> {
    let mut tables: Vec<Table> = read::tables(view)?.into_values().map(|table| (*table).clone()).collect();
    tables.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
    Ok(tables)
}

/// The incarnation of the directory of a snapshot.
fn incarnation(view: &View<'_>) -> Result<Option<Vec<u8>>, Error> {
    Ok(view.get(Keyspace::Meta, INCARNATION_KEY)?.map(|value| value.to_vec()))
}

/// The highest sequence number of a snapshot.
fn highest_sequence(view: &View<'_>, tables: &[Table]) -> Result<u64, Error> {
    let mut highest: u64 = view.get_decoded(Keyspace::Meta, SEQUENCE_KEY)?.unwrap_or(0);
    for table in tables {
        highest = highest.max(read::trim_point(view, table.id)?.sequence).max(read::newest_sequence(view, table)?);
    }
    Ok(highest)
}

/// Visits every item of a table, with its byte key.
fn for_each_item(
    view: &View<'_>,
    table: &Table,
    mut visit: impl FnMut(&[u8], &[u8], Item) -> Result<(), Error>,
) -> Result<(), Error> {
    view.scan_prefix(Keyspace::Items, layout::table_prefix(table.id), |key, value| {
        visit(key, value, record::decode_item(value)?)?;
        Ok(ControlFlow::Continue(()))
    })
}

/// The hash of all tables and items of a store. It does not depend on their history.
#[derive(Default)]
struct ContentHash(blake3::Hasher);

impl ContentHash {
    fn table(&mut self, table: &Table) -> Result<(), Error> {
        self.part(&record::encode(&(&table.spec.name, &table.spec.key))?);
        Ok(())
    }

    fn item(&mut self, value: &[u8]) {
        self.part(value);
    }

    /// Hashes the length first, so that other parts cannot give the same bytes.
    fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn to_hex(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}
