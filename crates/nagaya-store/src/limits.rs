//! Limits that all engines keep, so that what one takes the others take too.

use crate::{Error, Item, Key, KeySchema, TableSpec, write::WriteSet};

/// Bytes of the largest item.
pub const MAX_ITEM_BYTES: usize = 400 * 1024;
/// Actions of the largest write set.
pub const MAX_ACTIONS: usize = 100;
/// Bytes of all items of a write set.
pub const MAX_WRITE_SET_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the longest partition key.
pub const MAX_PARTITION_BYTES: usize = 2048;
/// Bytes of the longest sort key.
pub const MAX_SORT_BYTES: usize = 1024;
/// How deep maps and lists can be nested.
pub const MAX_DEPTH: usize = 32;
/// Keys of the largest batch read.
pub const MAX_BATCH_GET: usize = 100;

/// Whether a key has the right kinds and lengths for a table or index.
pub fn check_key(schema: &KeySchema, key: &Key) -> Result<(), Error> {
    let parts = [(&schema.partition, &key.partition, MAX_PARTITION_BYTES), (&schema.sort, &key.sort, MAX_SORT_BYTES)];
    for ((attribute, kind), value, limit) in parts {
        if value.kind() != *kind {
            return Err(Error::invalid(format!("the key attribute `{attribute}` has to be of kind {kind:?}")));
        }
        if value.is_empty() {
            return Err(Error::invalid(format!("the key attribute `{attribute}` is empty")));
        }
        if value.size() > limit {
            let size = value.size();
            return Err(Error::limit(format!(
                "the key attribute `{attribute}` has {size} bytes, {limit} are possible"
            )));
        }
    }
    Ok(())
}

/// Whether an item can be stored in a table; its key if so.
pub fn check_item(table: &TableSpec, item: &Item) -> Result<Key, Error> {
    let Some(key) = table.key.key_of(item) else {
        let (partition, sort) = (&table.key.partition.0, &table.key.sort.0);
        return Err(Error::invalid(format!(
            "an item of `{}` needs its key attributes `{partition}` and `{sort}`",
            table.name
        )));
    };
    check_key(&table.key, &key)?;
    for index in &table.indexes {
        check_index_attributes(&index.name, &index.key, item)?;
    }
    for (name, value) in item.iter() {
        if value.depth() > MAX_DEPTH {
            return Err(Error::limit(format!("`{name}` is nested deeper than {MAX_DEPTH} levels")));
        }
        if value.has_empty_set() {
            return Err(Error::invalid(format!("`{name}` holds an empty set; leave it out instead")));
        }
    }
    let size = item.size();
    if size > MAX_ITEM_BYTES {
        return Err(Error::limit(format!("an item has {size} bytes, {MAX_ITEM_BYTES} are possible")));
    }
    Ok(key)
}

/// An attribute of an index that is there has to be one that the index takes.
fn check_index_attributes(index: &str, schema: &KeySchema, item: &Item) -> Result<(), Error> {
    for (name, kind) in [&schema.partition, &schema.sort] {
        if let Some(value) = item.get(name)
            && value.kind() != (*kind).into()
        {
            return Err(Error::invalid(format!(
                "`{name}` is a key attribute of the index `{index}` and has to be of kind {kind:?}"
            )));
        }
    }
    match schema.key_of(item) {
        Some(key) => check_key(schema, &key),
        None => Ok(()),
    }
}

/// Whether a write set has a possible number of actions, at most one for each item.
pub fn check_write_set(set: &WriteSet) -> Result<(), Error> {
    let actions = set.actions();
    if !(1..=MAX_ACTIONS).contains(&actions.len()) {
        return Err(Error::limit(format!("a write set has 1 to {MAX_ACTIONS} actions, not {}", actions.len())));
    }
    let bytes = set.put_bytes();
    if bytes > MAX_WRITE_SET_BYTES {
        return Err(Error::limit(format!("a write set has {bytes} bytes, {MAX_WRITE_SET_BYTES} are possible")));
    }
    Ok(())
}
