//! What is in a directory.

use std::ops::{Bound, ControlFlow};

use nagaya_store::Error;

use super::{Hash, each_item, tables as tables_of};
use crate::{
    Embedded,
    layout::{self, Space},
    record,
};

/// What is in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The format of the directory.
    pub format: u32,
    /// The tables, by name.
    pub tables: Vec<TableStat>,
    /// Bytes on disk; 0 in memory.
    pub disk_bytes: u64,
    /// The hash of all tables and items.
    pub content_hash: String,
}

/// What is in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStat {
    /// Its name.
    pub name: String,
    /// Its items.
    pub items: u64,
    /// The bytes of its items, as stores count them.
    pub item_bytes: u64,
    /// Its indexes, with the number of their entries.
    pub indexes: Vec<(String, u64)>,
    /// Changes that are kept.
    pub changes: u64,
    /// Milliseconds since 1970 of the oldest change that is kept.
    pub oldest_change: Option<i64>,
}

impl Embedded {
    /// Counts what is there. Reads everything once.
    pub fn stat(&self) -> Result<Stat, Error> {
        let view = self.backing().view()?;
        let mut hash = Hash::default();
        let mut tables = Vec::new();
        // The tables of the snapshot: one that is made meanwhile is not in it.
        for table in tables_of(&view)? {
            hash.table(&table)?;
            let (mut items, mut item_bytes) = (0, 0);
            each_item(&view, &table, |_, value, item| {
                hash.item(value);
                items += 1;
                item_bytes += item.size() as u64;
                Ok(())
            })?;
            let mut indexes = Vec::new();
            for (at, index) in table.spec.indexes.iter().enumerate() {
                let mut prefix = layout::table(table.id);
                prefix.push(crate::read::index_number(at)?);
                let end = layout::after_prefix(&prefix);
                let mut entries = 0;
                view.range(Space::Index, Bound::Included(prefix), end, false, |_, _| {
                    entries += 1;
                    Ok(ControlFlow::Continue(()))
                })?;
                indexes.push((index.name.clone(), entries));
            }
            let (mut changes, mut oldest_change) = (0, None);
            let prefix = layout::table(table.id);
            let end = layout::after_prefix(&prefix);
            view.range(Space::Changes, Bound::Included(prefix), end, false, |_, value| {
                if changes == 0 {
                    oldest_change = Some(record::decode_change(value)?.at);
                }
                changes += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            tables.push(TableStat {
                name: table.spec.name.clone(),
                items,
                item_bytes,
                indexes,
                changes,
                oldest_change,
            });
        }
        Ok(Stat {
            format: record::FORMAT,
            tables,
            disk_bytes: self.backing().disk().map_or(Ok(0), |disk| disk.bytes())?,
            content_hash: hash.text(),
        })
    }

    /// Rewrites what is on disk without what has been overwritten or deleted.
    pub fn compact(&self) -> Result<(), Error> {
        self.backing().disk().map_or(Ok(()), |disk| disk.compact())
    }
}
