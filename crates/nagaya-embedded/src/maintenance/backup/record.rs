//! The records in the frames of a backup.
//!
//! A backup is, in this order: a header, the snapshot, every table with its items and changes, the end of the store
//! part, every object, the sealed keys, and the end.

use nagaya_store::{Error, TableSpec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::damage::BackupDamage;
use crate::record::{self, Table, TrimPoint};

/// The identity of a backup, and the backup that it continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintenance) struct Header {
    pub(in crate::maintenance) id: [u8; 16],
    /// `None` for a full backup.
    pub(in crate::maintenance) parent: Option<Parent>,
}

/// The backup that an incremental one continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintenance) struct Parent {
    pub(in crate::maintenance) id: [u8; 16],
    /// The hash in its last frame.
    pub(in crate::maintenance) hash: [u8; 32],
}

/// The snapshot that the store part contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintenance) struct Snapshot {
    /// The format of the directory.
    pub(in crate::maintenance) format: u32,
    /// The incarnation of the directory; `None` if an older version created it without one.
    pub(in crate::maintenance) incarnation: Option<Vec<u8>>,
    /// The highest sequence number used.
    pub(in crate::maintenance) sequence: u64,
    /// The hash of the change with that number, if it was retained.
    pub(in crate::maintenance) last_change: Option<[u8; 32]>,
    /// An incremental backup contains the changes after this sequence number, and no items.
    pub(in crate::maintenance) since: Option<u64>,
    /// Its time, in milliseconds since 1970.
    pub(in crate::maintenance) at: i64,
}

/// A table; its items and changes follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::maintenance) struct TableRecord {
    pub(in crate::maintenance) id: u16,
    pub(in crate::maintenance) spec: TableSpec,
    /// Its newest removed change.
    pub(in crate::maintenance) trimmed: TrimPoint,
}

impl TableRecord {
    pub(in crate::maintenance) fn table(&self) -> Table {
        Table::new(self.id, self.spec.clone())
    }
}

/// The end of the store part: counts of its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintenance) struct StoreEnd {
    pub(in crate::maintenance) tables: u64,
    pub(in crate::maintenance) items: u64,
    pub(in crate::maintenance) changes: u64,
    /// The hash of all tables and items; `None` in an incremental backup.
    pub(in crate::maintenance) content_hash: Option<String>,
}

/// An object; its bytes follow if they are in this file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintenance) struct Object {
    /// Its path below the directory of objects, with `/` as the separator.
    pub(in crate::maintenance) path: String,
    pub(in crate::maintenance) size: u64,
    /// Whether this file contains its bytes; otherwise an earlier backup does.
    #[serde(rename = "here")]
    pub(in crate::maintenance) is_included: bool,
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    record::decode(bytes).map_err(|_| BackupDamage::error("a record cannot be read by this version"))
}
