//! What the frames of a backup hold.
//!
//! A backup is, in this order: a header, the snapshot, then every table with its items and changes, the end of the store's
//! part, every object, the sealed keys, and the end.

use nagaya_store::{Error, TableSpec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::damage::Damage;
use crate::record::{self, Table, Trimmed};

/// Which backup this is, and what it goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintain) struct Header {
    pub(in crate::maintain) id: [u8; 16],
    /// `None`: it is a full one.
    pub(in crate::maintain) parent: Option<Parent>,
}

/// The backup that an incremental one goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintain) struct Parent {
    pub(in crate::maintain) id: [u8; 16],
    /// The hash at its end.
    pub(in crate::maintain) hash: [u8; 32],
}

/// The moment that the store's part shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintain) struct Snapshot {
    /// The format of the directory.
    pub(in crate::maintain) format: u32,
    /// Which directory it is of; `None` where an earlier version made it without an id.
    pub(in crate::maintain) incarnation: Option<Vec<u8>>,
    /// The highest sequence given out.
    pub(in crate::maintain) sequence: u64,
    /// The hash of the change with that sequence, if it was kept.
    pub(in crate::maintain) last_change: Option<[u8; 32]>,
    /// An incremental one has the changes after this sequence, and no items.
    pub(in crate::maintain) since: Option<u64>,
    /// Milliseconds since 1970.
    pub(in crate::maintain) at: i64,
}

/// A table; what follows is of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::maintain) struct TableRecord {
    pub(in crate::maintain) id: u16,
    pub(in crate::maintain) spec: TableSpec,
    /// How far its changes have been swept away.
    pub(in crate::maintain) trimmed: Trimmed,
}

impl TableRecord {
    pub(in crate::maintain) fn table(&self) -> Table {
        Table::new(self.id, self.spec.clone())
    }
}

/// Closes the store's part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintain) struct StoreEnd {
    pub(in crate::maintain) tables: u64,
    pub(in crate::maintain) items: u64,
    pub(in crate::maintain) changes: u64,
    /// The hash of all tables and items; an incremental one has not read them.
    pub(in crate::maintain) content_hash: Option<String>,
}

/// An object; its parts follow if it is in this file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::maintain) struct Object {
    /// Below the directory of objects, with `/` between the parts.
    pub(in crate::maintain) path: String,
    pub(in crate::maintain) size: u64,
    /// Else one of the backups before this one has it.
    pub(in crate::maintain) here: bool,
}

pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    record::encode(value)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    record::decode(bytes).map_err(|_| Damage::error("a record cannot be read by this version"))
}
