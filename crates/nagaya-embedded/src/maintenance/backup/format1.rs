//! Backups of format 1: tables and items only. They can be read, but are no longer written.

use std::io::Read;

use nagaya_store::{Error, Item, TableSpec};
use serde::Deserialize;

use super::{BackupSummary, damage::BackupDamage, frame::read_error};
use crate::{
    maintenance::{ContentHash, Progress},
    record::{self, Table},
};

/// The first bytes of a backup of format 1.
pub(super) const MAGIC: &[u8; 8] = b"NAGAYA01";

/// The maximum length of a record; a larger one is damage.
const MAX_RECORD: usize = 1 << 20;

/// One record.
#[derive(Debug, Deserialize)]
enum Record {
    Table(Format1Table),
    Item(Item),
    /// The last record: the number of items, and the hash of everything.
    End {
        items: u64,
        content_hash: String,
    },
}

#[derive(Debug, Deserialize)]
struct Format1Table {
    id: u16,
    spec: TableSpec,
}

/// A part of a backup of format 1.
pub(in crate::maintenance) enum Format1Part<'p> {
    Table(&'p Table),
    Item(&'p Table, Item),
}

/// Reads and verifies a whole backup.
pub(in crate::maintenance) fn read_all(
    input: &mut impl Read,
    progress: Progress<'_>,
    mut visit: impl FnMut(Format1Part<'_>) -> Result<(), Error>,
) -> Result<BackupSummary, Error> {
    let mut hash = ContentHash::default();
    let (mut tables, mut items) = (0, 0);
    let mut table: Option<Table> = None;
    loop {
        match read(input)? {
            Record::Table(Format1Table { id, spec }) => {
                let next = Table::new(id, spec);
                tables += 1;
                hash.table(&next)?;
                visit(Format1Part::Table(&next))?;
                table = Some(next);
            }
            Record::Item(item) => {
                let table = table.as_ref().ok_or_else(|| BackupDamage::error("an item belongs to no table"))?;
                items += 1;
                hash.item(&record::encode(&item)?);
                if table.spec.key.key_of(&item).is_none() {
                    return Err(BackupDamage::error("an item has no key"));
                }
                if items % 1_000 == 0 {
                    progress(items);
                }
                visit(Format1Part::Item(table, item))?;
            }
            Record::End { items: expected, content_hash } => {
                if expected != items || content_hash != hash.to_hex() {
                    return Err(BackupDamage::error("its content does not match its hash"));
                }
                if input.read(&mut [0]).map_err(read_error)? != 0 {
                    return Err(BackupDamage::error("something follows the end"));
                }
                return Ok(BackupSummary {
                    tables,
                    items,
                    content_hash: Some(content_hash),
                    ..BackupSummary::default()
                });
            }
        }
    }
}

/// The encoded variant number of [`Record::Item`].
const ITEM: u8 = 1;

fn read(input: &mut impl Read) -> Result<Record, Error> {
    let ends_early = |_| BackupDamage::error("it ends too early");
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(ends_early)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_RECORD {
        return Err(BackupDamage::error("the length of a record is impossible"));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map_err(ends_early)?;
    let unreadable = || BackupDamage::error("a record cannot be read");
    match bytes.split_first() {
        // Damaged items may be nested too deeply for the general decoder.
        Some((&ITEM, item)) => match record::take_item(None, item) {
            Ok((item, [])) => Ok(Record::Item(item)),
            _ => Err(unreadable()),
        },
        _ => match postcard::take_from_bytes(&bytes) {
            Ok((record, [])) => Ok(record),
            _ => Err(unreadable()),
        },
    }
}
