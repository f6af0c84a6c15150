//! What is stored as values: items, tables, changes.

use nagaya_store::{Cause, Error, Item, Key, TableSpec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The format that this version reads and writes.
pub(crate) const FORMAT: u32 = 1;

/// The format's key in the meta space.
pub(crate) const FORMAT_KEY: &[u8] = b"format";
/// The key of the highest sequence that has been given out, kept when changes are swept away.
pub(crate) const SEQUENCE_KEY: &[u8] = b"sequence";

/// The key of a table's description.
pub(crate) fn table_key(name: &str) -> Vec<u8> {
    [b"table/", name.as_bytes()].concat()
}

/// The last change of a table that has been swept away.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Trimmed {
    pub(crate) sequence: u64,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
}

/// The key of the last change of a table that has been swept away.
pub(crate) fn trimmed_key(table: u16) -> Vec<u8> {
    [b"trimmed/".as_slice(), &table.to_be_bytes()].concat()
}

/// A table as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) id: u16,
    pub(crate) spec: TableSpec,
}

/// A change as stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) old: Option<Item>,
    pub(crate) new: Option<Item>,
    pub(crate) cause: Cause,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
}

/// A change to be stored, without copies of what it tells. Has the same bytes as [`Change`].
#[derive(Debug, Serialize)]
pub(crate) struct NewChange<'c> {
    pub(crate) key: &'c Key,
    pub(crate) old: Option<&'c Item>,
    pub(crate) new: Option<&'c Item>,
    pub(crate) cause: Cause,
    pub(crate) at: i64,
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    postcard::to_stdvec(value).map_err(Error::engine)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    postcard::from_bytes(bytes).map_err(Error::engine)
}
