//! What is stored as values: items, tables, changes.

use std::collections::BTreeMap;

use fjall::Slice;
use nagaya_store::{Cause, Error, Item, Key, SmolStr, TableSpec, Value};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The format that this version writes. It reads the ones before, and brings them up to date when it opens them.
///
/// 1: the first. 2: tables say what is being built of them; directories have an incarnation, and number and tag their commits.
pub(crate) const FORMAT: u32 = 2;

/// The format's key in the meta space.
pub(crate) const FORMAT_KEY: &[u8] = b"format";
/// The key of the random bytes that tell this directory from all others: a copy that is restored is another one.
pub(crate) const INCARNATION_KEY: &[u8] = b"incarnation";
/// The key of what commits are tagged with; the file `acknowledged` has it too.
pub(crate) const COMMIT_KEY_KEY: &[u8] = b"commit-key";
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
    /// What is being built from its items.
    pub(crate) building: Vec<Building>,
}

/// Something that is being built from the items of a table. Writes keep it up to date meanwhile, but nobody reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Building {
    /// The entries of an index are being removed: it is not kept up to date until they are gone.
    Clear { index: u8 },
    /// The entries of an index are being added.
    Fill { index: u8 },
    /// The expiries are being added.
    Expiries,
}

impl Table {
    /// A table of which everything is built.
    pub(crate) fn new(id: u16, spec: TableSpec) -> Self {
        Table { id, spec, building: Vec::new() }
    }

    /// Whether writes keep the entries of an index up to date.
    pub(crate) fn is_maintained(&self, index: u8) -> bool {
        !self.building.contains(&Building::Clear { index })
    }

    /// Whether an index has the entries of all items.
    pub(crate) fn is_built(&self, index: u8) -> bool {
        self.is_maintained(index) && !self.building.contains(&Building::Fill { index })
    }
}

/// A table as format 1 and backups have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BuiltTable {
    pub(crate) id: u16,
    pub(crate) spec: TableSpec,
}

impl From<BuiltTable> for Table {
    fn from(BuiltTable { id, spec }: BuiltTable) -> Self {
        Table::new(id, spec)
    }
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

pub(crate) fn decode_item(bytes: &[u8]) -> Result<Item, Error> {
    decode_item_like(None, bytes)
}

/// Reads an item: what [`decode`] does, in half of the time for the texts that most attributes are. Every item of every
/// page goes through here. Items of a page mostly have the same attributes, so names are taken from the one before.
pub(crate) fn decode_item_like(before: Option<&Item>, bytes: &[u8]) -> Result<Item, Error> {
    let (count, mut rest) = postcard::take_from_bytes::<usize>(bytes).map_err(Error::engine)?;
    // A damaged count must not claim memory: an attribute has two bytes at least.
    let mut attributes: Vec<(SmolStr, Value)> = Vec::with_capacity(count.min(rest.len() / 2));
    let mut names = before.into_iter().flat_map(Item::names);
    for _ in 0..count {
        let (name, after) = text(rest)?;
        let name = match names.next() {
            Some(known) if known.as_bytes() == name => known.clone(),
            _ => utf8(name)?,
        };
        let value;
        (value, rest) = decode_value(after)?;
        attributes.push((name, value));
    }
    Ok(attributes.into_iter().collect())
}

/// The number of [`Value::String`] among the kinds of values.
const STRING: u8 = 3;
/// The number of [`Value::Map`] among them.
const MAP: u8 = 6;

/// Reads a value, and what comes after it.
fn decode_value(bytes: &[u8]) -> Result<(Value, &[u8]), Error> {
    match bytes.split_first() {
        Some((&STRING, after)) => {
            let (text, rest) = text(after)?;
            Ok((Value::String(utf8(text)?), rest))
        }
        Some((&MAP, after)) => {
            let (count, mut rest) = postcard::take_from_bytes::<usize>(after).map_err(Error::engine)?;
            let mut values = BTreeMap::new();
            for _ in 0..count {
                let (name, after) = text(rest)?;
                let value;
                (value, rest) = decode_value(after)?;
                values.insert(str::from_utf8(name).map_err(Error::engine)?.to_owned(), value);
            }
            Ok((Value::Map(values), rest))
        }
        _ => postcard::take_from_bytes(bytes).map_err(Error::engine),
    }
}

fn text(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let (length, rest) = match bytes.split_first() {
        // A length below 128 is one byte.
        Some((&length @ ..128, rest)) => (usize::from(length), rest),
        _ => postcard::take_from_bytes::<usize>(bytes).map_err(Error::engine)?,
    };
    rest.split_at_checked(length).ok_or_else(|| Error::engine("a stored text is cut off"))
}

fn utf8(text: &[u8]) -> Result<SmolStr, Error> {
    Ok(str::from_utf8(text).map_err(Error::engine)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_reads_the_same_both_ways() -> Result<(), Error> {
        let long = "長".repeat(100);
        let item = Item::new()
            .with("PK", "p")
            .with("", "")
            .with(&long, long.as_str())
            .with("n", 7)
            .with("b", true)
            .with("null", Value::Null)
            .with("bytes", Value::Binary(vec![0, 255]))
            .with("list", Value::List(vec!["x".into(), Value::List(Vec::new())]))
            .with("map", Value::Map([("k".to_owned(), "v".into()), (long.clone(), 7.into())].into()))
            .with("maps", Value::Map([("m".to_owned(), Value::Map([("".to_owned(), Value::Null)].into()))].into()))
            .with("set", Value::StringSet(["a".to_owned()].into()))
            .with("z", "after all the others");
        let bytes = encode(&item)?;
        assert_eq!(decode_item(&bytes)?, item);
        assert_eq!(decode::<Item>(&bytes)?, item);
        for before in [item.clone(), Item::new().with("PK", 1).with("x", 2), Item::new()] {
            assert_eq!(decode_item_like(Some(&before), &bytes)?, item);
        }
        for end in 0..bytes.len() {
            assert!(decode_item(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(decode_item(&[255; 10]).is_err());
        Ok(())
    }

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
