//! Backups of the format before this one: tables and items, and nothing else. They are read, and no longer written.

use std::io::Read;

use nagaya_store::{Error, Item, TableSpec};
use serde::Deserialize;

use super::{Backup, damage::Damage};
use crate::{
    maintain::{Hash, Progress},
    record::{self, Table},
};

/// The first bytes of such a backup.
pub(super) const MAGIC: &[u8; 8] = b"NAGAYA01";

/// The largest record; anything larger is damage.
const MAX_RECORD: usize = 1 << 20;

/// One record.
#[derive(Debug, Deserialize)]
enum Record {
    Table(OldTable),
    Item(Item),
    /// Closes the file: how many items there are, and the hash of everything.
    End {
        items: u64,
        content_hash: String,
    },
}

#[derive(Debug, Deserialize)]
struct OldTable {
    id: u16,
    spec: TableSpec,
}

/// What is read.
pub(in crate::maintain) enum OldPart<'p> {
    Table(&'p Table),
    Item(&'p Table, Item),
}

/// Reads a backup to its end without doing anything with it.
pub(super) fn check(input: &mut impl Read, progress: Progress<'_>) -> Result<Backup, Error> {
    read_all(input, progress, |_| Ok(()))
}

/// Reads a backup to its end.
pub(in crate::maintain) fn read_all(
    input: &mut impl Read,
    progress: Progress<'_>,
    mut visit: impl FnMut(OldPart<'_>) -> Result<(), Error>,
) -> Result<Backup, Error> {
    let mut hash = Hash::default();
    let (mut tables, mut items) = (0, 0);
    let mut table: Option<Table> = None;
    loop {
        match read(input)? {
            Record::Table(OldTable { id, spec }) => {
                let next = Table::new(id, spec);
                tables += 1;
                hash.table(&next)?;
                visit(OldPart::Table(&next))?;
                table = Some(next);
            }
            Record::Item(item) => {
                let table = table.as_ref().ok_or_else(|| Damage::error("an item is of no table"))?;
                items += 1;
                hash.item(&record::encode(&item)?);
                if table.spec.key.key_of(&item).is_none() {
                    return Err(Damage::error("an item lacks its key"));
                }
                if items % 1_000 == 0 {
                    progress(items);
                }
                visit(OldPart::Item(table, item))?;
            }
            Record::End { items: told, content_hash } => {
                if told != items || content_hash != hash.text() {
                    return Err(Damage::error("it does not have the content that it should"));
                }
                if input.read(&mut [0]).map_err(Error::engine)? != 0 {
                    return Err(Damage::error("something follows the end"));
                }
                return Ok(Backup { tables, items, content_hash: Some(content_hash), ..Backup::default() });
            }
        }
    }
}

/// The number of [`Record::Item`] among the records.
const ITEM: u8 = 1;

fn read(input: &mut impl Read) -> Result<Record, Error> {
    let cut = |_| Damage::error("it ends too early");
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(cut)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_RECORD {
        return Err(Damage::error("the length of a record is impossible"));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map_err(cut)?;
    let unreadable = || Damage::error("a record cannot be read");
    match bytes.split_first() {
        // Items may be nested deeper than any that was written.
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
