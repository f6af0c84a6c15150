//! Statistics of a store.

use std::ops::ControlFlow;

use nagaya_store::Error;

use super::{ContentHash, for_each_item, sorted_tables};
use crate::{
    EmbeddedStore,
    encryption::EncryptionState,
    layout::{self, Keyspace},
    record,
};

/// Statistics of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreStats {
    /// The format of the directory.
    pub format: u32,
    /// The tables, sorted by name.
    pub tables: Vec<TableStats>,
    /// Bytes on disk; 0 in memory.
    pub disk_bytes: u64,
    /// The hash of all tables and items.
    pub content_hash: String,
    /// The key of the store, and how far values are encrypted with it; `None` if the store is not encrypted.
    pub encryption: Option<EncryptionState>,
}

/// Statistics of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableStats {
    /// Its name.
    pub name: String,
    /// The number of its items.
    pub items: u64,
    /// The size of its items as DynamoDB counts it.
    pub item_bytes: u64,
    /// The names of its indexes, with the numbers of their entries.
    pub indexes: Vec<(String, u64)>,
    /// The number of retained changes.
    pub changes: u64,
    /// The time of the oldest retained change, in milliseconds since 1970.
    pub oldest_change: Option<i64>,
}

impl EmbeddedStore {
    /// Reads the whole store and counts its content.
    pub fn stats(&self) -> Result<StoreStats, Error> {
        let view = self.storage().view()?;
        let mut hash = ContentHash::default();
        let mut tables = Vec::new();
        for table in sorted_tables(&view)? {
            hash.table(&table)?;
            let (mut items, mut item_bytes) = (0, 0);
            for_each_item(&view, &table, |_, value, item| {
                hash.item(value);
                items += 1;
                item_bytes += item.size() as u64;
                Ok(())
            })?;
            let mut indexes = Vec::new();
            for (at, index) in table.spec.indexes.iter().enumerate() {
                let mut prefix = layout::table_prefix(table.id);
                prefix.push(crate::read::index_number(at)?);
                let mut entries = 0;
                view.scan_prefix(Keyspace::Index, prefix, |_, _| {
                    entries += 1;
                    Ok(ControlFlow::Continue(()))
                })?;
                indexes.push((index.name.clone(), entries));
            }
            let (mut changes, mut oldest_change) = (0, None);
            view.scan_prefix(Keyspace::Changes, layout::table_prefix(table.id), |_, value| {
                if changes == 0 {
                    oldest_change = Some(record::decode_change(value)?.at);
                }
                changes += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            tables.push(TableStats {
                name: table.spec.name.clone(),
                items,
                item_bytes,
                indexes,
                changes,
                oldest_change,
            });
        }
        Ok(StoreStats {
            format: view.get_decoded(Keyspace::Meta, record::FORMAT_KEY)?.unwrap_or(record::FORMAT),
            tables,
            disk_bytes: self.storage().disk().map_or(Ok(0), |disk| disk.bytes())?,
            content_hash: hash.to_hex(),
            encryption: self.encryption()?,
        })
    }

    /// Rewrites the files on disk without overwritten and deleted entries.
    pub fn compact(&self) -> Result<(), Error> {
        self.storage().disk().map_or(Ok(()), |disk| disk.compact())
    }
}
