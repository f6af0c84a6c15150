//! The stored values: items, tables and changes.

use std::collections::BTreeMap;

use fjall::Slice;
use nagaya_store::{ChangeCause, Error, Item, Key, SmolStr, TableSpec, Value, limits};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The format of directories that this version writes. It upgrades older ones when it opens them.
///
/// 1: the first. 2: tables record their pending builds; directories have an incarnation, and number and tag their
/// commits.
pub(crate) const FORMAT: u32 = 2;
/// The format of directories that are encrypted; otherwise it is the same as [`FORMAT`]. Versions that cannot decrypt
/// refuse it.
pub(crate) const ENCRYPTED_FORMAT: u32 = 3;

/// The key of the format in [`Keyspace::Meta`](crate::layout::Keyspace::Meta).
pub(crate) const FORMAT_KEY: &[u8] = b"format";
/// The key of the incarnation: random bytes that identify the directory. A restored copy gets new ones.
pub(crate) const INCARNATION_KEY: &[u8] = b"incarnation";
/// The key of the [`CommitKey`](crate::storage::CommitKey); the file `acknowledged` contains it too.
pub(crate) const COMMIT_KEY_KEY: &[u8] = b"commit-key";
/// The key of the highest sequence number used; it is written when changes are removed.
pub(crate) const SEQUENCE_KEY: &[u8] = b"sequence";

/// The key of a table's record.
pub(crate) fn table_key(name: &str) -> Vec<u8> {
    [b"table/", name.as_bytes()].concat()
}

/// The key of the record that a file exists beside the store.
pub(crate) fn file_key(name: &str) -> Vec<u8> {
    [b"file/", name.as_bytes()].concat()
}

/// The newest change of a table that has been removed.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct TrimPoint {
    pub(crate) sequence: u64,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
}

/// The key of a table's [`TrimPoint`].
pub(crate) fn trim_point_key(table: u16) -> Vec<u8> {
    [b"trimmed/".as_slice(), &table.to_be_bytes()].concat()
}

/// The record of a table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) id: u16,
    pub(crate) spec: TableSpec,
    /// The builds that have not finished.
    pub(crate) pending_builds: Vec<PendingBuild>,
}

/// Entries that are being built from the items of a table. Writes maintain them meanwhile, but reads do not use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PendingBuild {
    /// The entries of an index are being removed. Writes do not maintain it until they are gone.
    Clear { index: u8 },
    /// The entries of an index are being added.
    Fill { index: u8 },
    /// The expiries are being added.
    Expiries,
}

impl Table {
    /// A table without pending builds.
    pub(crate) fn new(id: u16, spec: TableSpec) -> Self {
        Table { id, spec, pending_builds: Vec::new() }
    }

    /// Whether writes maintain the entries of an index.
    pub(crate) fn is_maintained(&self, index: u8) -> bool {
        !self.pending_builds.contains(&PendingBuild::Clear { index })
    }

    /// Whether an index has the entries of all items.
    pub(crate) fn is_built(&self, index: u8) -> bool {
        self.is_maintained(index) && !self.pending_builds.contains(&PendingBuild::Fill { index })
    }
}

/// The record of a table in format 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TableFormat1 {
    pub(crate) id: u16,
    pub(crate) spec: TableSpec,
}

impl From<TableFormat1> for Table {
    fn from(TableFormat1 { id, spec }: TableFormat1) -> Self {
        Table::new(id, spec)
    }
}

/// The record of a change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) old: Option<Item>,
    pub(crate) new: Option<Item>,
    pub(crate) cause: ChangeCause,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
}

/// Encodes a [`Change`] from encoded items.
pub(crate) fn encode_change(
    key: &Key,
    images: [Option<Slice>; 2],
    cause: ChangeCause,
    at: i64,
) -> Result<Vec<u8>, Error> {
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
    postcard::from_bytes(bytes).map_err(damaged)
}

/// Decodes a change like [`decode`], but limits how deeply its items are nested.
pub(crate) fn decode_change(bytes: &[u8]) -> Result<Change, Error> {
    let (key, rest) = postcard::take_from_bytes(bytes).map_err(damaged)?;
    let (old, rest) = take_image(rest)?;
    let (new, rest) = take_image(rest)?;
    let (cause, at) = postcard::from_bytes(rest).map_err(damaged)?;
    Ok(Change { key, old, new, cause, at })
}

fn take_image(bytes: &[u8]) -> Result<(Option<Item>, &[u8]), Error> {
    match bytes.split_first() {
        Some((0, rest)) => Ok((None, rest)),
        Some((1, rest)) => take_item(None, rest).map(|(item, rest)| (Some(item), rest)),
        _ => Err(Error::engine("a stored change ends early")),
    }
}

pub(crate) fn decode_item(bytes: &[u8]) -> Result<Item, Error> {
    decode_item_like(None, bytes)
}

/// Decodes an item like [`decode`], but twice as fast for strings. Every item of every page is decoded here. The items
/// of a page mostly have the same attributes, so the names are shared with the item before.
pub(crate) fn decode_item_like(before: Option<&Item>, bytes: &[u8]) -> Result<Item, Error> {
    take_item(before, bytes).map(|(item, _)| item)
}

/// Decodes an item, and returns the bytes after it.
pub(crate) fn take_item<'b>(before: Option<&Item>, bytes: &'b [u8]) -> Result<(Item, &'b [u8]), Error> {
    let (count, mut rest) = postcard::take_from_bytes::<usize>(bytes).map_err(damaged)?;
    // A damaged count must not allocate memory: an attribute has at least two bytes.
    let mut attributes: Vec<(SmolStr, Value)> = Vec::with_capacity(count.min(rest.len() / 2));
    let mut names = before.into_iter().flat_map(Item::names);
    for _ in 0..count {
        let (name, after) = take_text(rest)?;
        let name = match names.next() {
            Some(known) if known.as_bytes() == name => known.clone(),
            _ => utf8(name)?,
        };
        let value;
        (value, rest) = take_value(after, 0)?;
        attributes.push((name, value));
    }
    Ok((attributes.into_iter().collect(), rest))
}

/// The encoded variant number of [`Value::String`].
const STRING: u8 = 3;
/// The encoded variant number of [`Value::List`].
const LIST: u8 = 5;
/// The encoded variant number of [`Value::Map`].
const MAP: u8 = 6;

/// Decodes a value, and returns the bytes after it.
fn take_value(bytes: &[u8], depth: usize) -> Result<(Value, &[u8]), Error> {
    // No valid item is nested deeper. Damaged bytes must not overflow the stack.
    if depth > limits::MAX_DEPTH + 1 {
        return Err(Error::engine("a stored value is nested too deeply"));
    }
    match bytes.split_first() {
        Some((&STRING, after)) => {
            let (text, rest) = take_text(after)?;
            Ok((Value::String(utf8(text)?), rest))
        }
        Some((&LIST, after)) => {
            let (count, mut rest) = postcard::take_from_bytes::<usize>(after).map_err(Error::engine)?;
            let mut values = Vec::with_capacity(count.min(rest.len()));
            for _ in 0..count {
                let value;
                (value, rest) = take_value(rest, depth + 1)?;
                values.push(value);
            }
            Ok((Value::List(values), rest))
        }
        Some((&MAP, after)) => {
            let (count, mut rest) = postcard::take_from_bytes::<usize>(after).map_err(Error::engine)?;
            let mut values = BTreeMap::new();
            for _ in 0..count {
                let (name, after) = take_text(rest)?;
                let value;
                (value, rest) = take_value(after, depth + 1)?;
                values.insert(str::from_utf8(name).map_err(damaged)?.to_owned(), value);
            }
            Ok((Value::Map(values), rest))
        }
        _ => postcard::take_from_bytes(bytes).map_err(damaged),
    }
}

/// The bytes of a string, and the bytes after it.
fn take_text(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let (length, rest) = match bytes.split_first() {
        // A length below 128 is encoded in one byte.
        Some((&length @ ..128, rest)) => (usize::from(length), rest),
        _ => postcard::take_from_bytes::<usize>(bytes).map_err(damaged)?,
    };
    rest.split_at_checked(length).ok_or_else(|| Error::engine("a stored string ends early"))
}

fn utf8(text: &[u8]) -> Result<SmolStr, Error> {
    Ok(str::from_utf8(text).map_err(damaged)?.into())
}

fn damaged(error: impl std::error::Error) -> Error {
    Error::engine(format!("a stored record is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_decoders_give_the_same_item() -> Result<(), Error> {
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
    fn a_change_encoded_from_parts_is_the_same_as_a_whole_one() -> Result<(), Error> {
        let item = |text: &str| Item::new().with("PK", "p").with("SK", "s").with("text", text);
        let (key, cause, at) = (Key::new("p", 7), ChangeCause::Expiry, 1_800_000_000_123);
        for old in [None, Some(item("old"))] {
            for new in [None, Some(item("new"))] {
                let bytes = |item: &Option<Item>| item.as_ref().map(|item| encode(item).map(Slice::from)).transpose();
                let encoded = encode_change(&key, [bytes(&old)?, bytes(&new)?], cause, at)?;
                let whole = Change { key: key.clone(), old: old.clone(), new, cause, at };
                assert_eq!(encoded, encode(&whole)?);
                let read = decode_change(&encoded)?;
                assert_eq!(
                    (read.key, read.old, read.new, read.cause, read.at),
                    (whole.key, whole.old, whole.new, cause, at)
                );
                for end in 0..encoded.len() {
                    assert!(decode_change(&encoded[..end]).is_err(), "cut at {end}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn damaged_bytes_do_not_overflow_the_stack() -> Result<(), Error> {
        let nested = |depth: usize| (0..depth).fold(Value::Null, |inner, _| Value::List(vec![inner]));
        let deepest = Item::new().with("deep", nested(limits::MAX_DEPTH));
        assert_eq!(decode_item(&encode(&deepest)?)?, deepest);
        for kind in [vec![LIST, 1], vec![MAP, 1, 0]] {
            let bytes = [vec![1, 1, b'a'], kind.repeat(1_000_000)].concat();
            assert!(decode_item(&bytes).is_err());
            let change = [encode(&Key::new("p", "s"))?, vec![1], bytes].concat();
            assert!(decode_change(&change).is_err());
        }
        Ok(())
    }
}
