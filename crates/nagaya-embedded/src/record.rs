//! What is stored as values: items, tables, changes.

use std::collections::BTreeMap;

use fjall::Slice;
use nagaya_store::{Cause, Error, Item, Key, SmolStr, TableSpec, Value, limits};
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

/// Reads a change; what [`decode`] would do, without trusting how deep its items are nested.
pub(crate) fn decode_change(bytes: &[u8]) -> Result<Change, Error> {
    let (key, rest) = postcard::take_from_bytes(bytes).map_err(Error::engine)?;
    let (old, rest) = take_image(rest)?;
    let (new, rest) = take_image(rest)?;
    let (cause, at) = postcard::from_bytes(rest).map_err(Error::engine)?;
    Ok(Change { key, old, new, cause, at })
}

fn take_image(bytes: &[u8]) -> Result<(Option<Item>, &[u8]), Error> {
    match bytes.split_first() {
        Some((0, rest)) => Ok((None, rest)),
        Some((1, rest)) => take_item(None, rest).map(|(item, rest)| (Some(item), rest)),
        _ => Err(Error::engine("a stored change is cut off")),
    }
}

pub(crate) fn decode_item(bytes: &[u8]) -> Result<Item, Error> {
    decode_item_like(None, bytes)
}

/// Reads an item: what [`decode`] does, in half of the time for the texts that most attributes are. Every item of every
/// page goes through here. Items of a page mostly have the same attributes, so names are taken from the one before.
pub(crate) fn decode_item_like(before: Option<&Item>, bytes: &[u8]) -> Result<Item, Error> {
    take_item(before, bytes).map(|(item, _)| item)
}

/// Reads an item, and what comes after it.
pub(crate) fn take_item<'b>(before: Option<&Item>, bytes: &'b [u8]) -> Result<(Item, &'b [u8]), Error> {
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
        (value, rest) = take_value(after, 0)?;
        attributes.push((name, value));
    }
    Ok((attributes.into_iter().collect(), rest))
}

/// The number of [`Value::String`] among the kinds of values.
const STRING: u8 = 3;
/// The number of [`Value::List`] among them.
const LIST: u8 = 5;
/// The number of [`Value::Map`] among them.
const MAP: u8 = 6;

/// Reads a value, and what comes after it.
fn take_value(bytes: &[u8], depth: usize) -> Result<(Value, &[u8]), Error> {
    // No item that was written is nested deeper; damage must not use up the stack.
    if depth > limits::MAX_DEPTH + 1 {
        return Err(Error::engine("a stored value is nested too deep"));
    }
    match bytes.split_first() {
        Some((&STRING, after)) => {
            let (text, rest) = text(after)?;
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
                let (name, after) = text(rest)?;
                let value;
                (value, rest) = take_value(after, depth + 1)?;
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
                let read = decode_change(&put_together)?;
                assert_eq!(
                    (read.key, read.old, read.new, read.cause, read.at),
                    (whole.key, whole.old, whole.new, cause, at)
                );
                for end in 0..put_together.len() {
                    assert!(decode_change(&put_together[..end]).is_err(), "cut at {end}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn damage_does_not_use_up_the_stack() -> Result<(), Error> {
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
