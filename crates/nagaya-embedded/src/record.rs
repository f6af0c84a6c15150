//! What is stored as values: items, tables, changes.

use fjall::Slice;
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

/// The bytes of a [`Change`], put together from what is encoded already.
pub(crate) fn change(key: &Key, images: [Option<Slice>; 2], cause: Cause, at: i64) -> Result<Vec<u8>, Error> {
    let items: usize = images.iter().flatten().map(|image| image.len()).sum();
    let mut bytes = Vec::with_capacity(items + key.partition.size() + key.sort.size() + 24);
    bytes = postcard::to_extend(key, bytes).map_err(Error::engine)?;
    for image in images {
        bytes.push(u8::from(image.is_some()));
        bytes.extend_from_slice(image.as_deref().unwrap_or_default());
    }
    postcard::to_extend(&(cause, at), bytes).map_err(Error::engine)
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Error> {
    postcard::to_stdvec(value).map_err(Error::engine)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    postcard::from_bytes(bytes).map_err(Error::engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_put_together_is_the_one_that_is_read() -> Result<(), Error> {
        let item = |text: &str| Item::new().with("PK", "p").with("SK", "s").with("text", text);
        let (key, cause, at) = (Key::new("p", 7), Cause::Expiry, 1_800_000_000_123);
        for old in [None, Some(item("old"))] {
            for new in [None, Some(item("new"))] {
                let bytes = |item: &Option<Item>| item.as_ref().map(|item| encode(item).map(Slice::from)).transpose();
                let put_together = change(&key, [bytes(&old)?, bytes(&new)?], cause, at)?;
                let whole = Change { key: key.clone(), old: old.clone(), new, cause, at };
                assert_eq!(put_together, encode(&whole)?);
            }
        }
        Ok(())
    }
}
