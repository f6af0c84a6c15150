//! Restoring backups, or the state of a store at a past time, into a new directory.

mod chain;
mod extras;
mod point_in_time;
mod target;
mod writer;

use std::{path::Path, sync::Arc};

pub use chain::{restore_backup, restore_backups};
pub use extras::{KeyFile, RestoreExtras};
use nagaya_store::Error;
pub(crate) use target::{UnfinishedRestore, refuse_unfinished_restore};

use self::{extras::ObjectWriter, target::RestoreTarget, writer::RestoreWriter};
use super::{ContentHash, backup::BackupDamage, for_each_item, highest_sequence, is_backup_damaged, sorted_tables};
use crate::{Options, encryption::EncryptionKey, storage::Storage};

/// The result of a restore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoreSummary {
    /// The names of the tables.
    pub tables: Vec<String>,
    /// The number of items.
    pub items: u64,
    /// The number of objects.
    pub objects: u64,
    /// The number of key files.
    pub keys: u64,
    /// The highest sequence number used; new changes get higher ones.
    pub sequence: u64,
    /// The hash of all tables and items, read back from the directory.
    pub content_hash: String,
    /// Whether the timestamps of changes go back somewhere: the restored time is then approximate.
    pub clock_went_back: bool,
}

/// Creates a directory and fills it, encrypted with a key if one is given; nothing is left of it if that fails. `fill` returns the expected content hash, if
/// known.
fn restore_into_new_directory(
    directory: &Path,
    key: Option<&EncryptionKey>,
    fill: impl FnOnce(&mut RestoreWriter<'_>, &mut ObjectWriter) -> Result<Option<String>, Error>,
) -> Result<RestoreSummary, Error> {
    let target = RestoreTarget::claim(directory)?;
    let options = Options { encryption_key: key.cloned(), ..Options::default() };
    let filled = Storage::create(directory, &options, |storage| {
        let mut writer = RestoreWriter::new(storage);
        let keyring = storage.disk().map_or_else(Arc::default, |disk| Arc::clone(disk.keyring()));
        let mut objects = ObjectWriter::new(directory, keyring);
        let expected = fill(&mut writer, &mut objects)?;
        writer.flush()?;
        let content = read_back(storage)?;
        if expected.is_some_and(|expected| expected != content.content_hash) {
            return Err(Error::engine("the restored directory does not have the content of the backup"));
        }
        Ok(RestoreSummary { objects: objects.count, ..content })
    });
    match filled {
        Ok((storage, restored)) => {
            drop(storage);
            target.finish().map(|()| restored)
        }
        Err(error) => {
            target.discard();
            Err(error)
        }
    }
}

/// Reads back the content of a directory.
fn read_back(storage: &Storage) -> Result<RestoreSummary, Error> {
    let view = storage.view()?;
    let tables = sorted_tables(&view)?;
    let mut hash = ContentHash::default();
    let mut items = 0;
    for table in &tables {
        hash.table(table)?;
        for_each_item(&view, table, |_, value, _| {
            items += 1;
            hash.item(value);
            Ok(())
        })?;
    }
    let sequence = highest_sequence(&view, &tables)?;
    let tables = tables.into_iter().map(|table| table.spec.name).collect();
    Ok(RestoreSummary { tables, items, sequence, content_hash: hash.to_hex(), ..RestoreSummary::default() })
}

/// The error of a restore that has left nothing behind.
fn nothing_restored(error: &Error) -> Error {
    let message = format!("{error}; nothing was restored");
    // Keep the information that the backup is damaged.
    if is_backup_damaged(error) { BackupDamage::message(message) } else { Error::engine(message) }
}
