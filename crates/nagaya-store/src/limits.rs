//! Limits that every engine enforces, so that a call that one accepts is accepted by all.

use crate::{
    Error, Item, Key, KeyKind, KeySchema, KeyValue, Query, Scan, SortCondition, TableSpec, UpdateAction, Write,
    WriteAction, WriteSet,
};

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
/// How deeply a value can be nested in maps and lists. DynamoDB allows 32 levels, the value itself included.
pub const MAX_DEPTH: usize = 31;
/// Keys of the largest batch read.
pub const MAX_BATCH_GET: usize = 100;

/// Checks that a key has the types and lengths that a table or index allows.
pub fn check_key(schema: &KeySchema, key: &Key) -> Result<(), Error> {
    check_part(&schema.partition, &key.partition, MAX_PARTITION_BYTES)?;
    check_part(&schema.sort, &key.sort, MAX_SORT_BYTES)
}

fn check_part((attribute, kind): &(String, KeyKind), value: &KeyValue, limit: usize) -> Result<(), Error> {
    if value.kind() != *kind {
        return Err(Error::invalid(format!("the key attribute `{attribute}` has to be of kind {kind:?}")));
    }
    if value.is_empty() {
        return Err(Error::invalid(format!("the key attribute `{attribute}` is empty")));
    }
    let size = value.size();
    if size > limit {
        return Err(Error::limit_exceeded(format!(
            "the key attribute `{attribute}` has {size} bytes; the limit is {limit}"
        )));
    }
    Ok(())
}

/// Checks that an item can be stored in a table, and returns its key.
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
            return Err(Error::limit_exceeded(format!("`{name}` is nested deeper than {MAX_DEPTH} levels")));
        }
        if value.has_empty_set() {
            return Err(Error::invalid(format!("`{name}` holds an empty set; leave it out instead")));
        }
    }
    let size = item.size();
    if size > MAX_ITEM_BYTES {
        return Err(Error::limit_exceeded(format!("an item has {size} bytes; the limit is {MAX_ITEM_BYTES}")));
    }
    Ok(key)
}

/// Checks the key attributes of an index that the item has, even if it has only one of them.
fn check_index_attributes(index: &str, schema: &KeySchema, item: &Item) -> Result<(), Error> {
    for (part, limit) in [(&schema.partition, MAX_PARTITION_BYTES), (&schema.sort, MAX_SORT_BYTES)] {
        let (name, kind) = part;
        let Some(value) = item.get(name) else { continue };
        match KeyValue::from_value(value, *kind) {
            Some(value) => check_part(part, &value, limit)?,
            None => {
                return Err(Error::invalid(format!(
                    "`{name}` is a key attribute of the index `{index}` and has to be of kind {kind:?}"
                )));
            }
        }
    }
    Ok(())
}

/// Checks the number of actions and the size of a write set.
pub fn check_write_set(set: &WriteSet) -> Result<(), Error> {
    let actions = set.actions();
    if !(1..=MAX_ACTIONS).contains(&actions.len()) {
        return Err(Error::limit_exceeded(format!(
            "a write set has 1 to {MAX_ACTIONS} actions, not {}",
            actions.len()
        )));
    }
    let bytes = set.put_bytes();
    if bytes > MAX_WRITE_SET_BYTES {
        return Err(Error::limit_exceeded(format!(
            "a write set has {bytes} bytes; the limit is {MAX_WRITE_SET_BYTES}"
        )));
    }
    Ok(())
}

/// Checks that an action is valid whatever is stored, and returns the key of its item.
pub fn check_write(table: &TableSpec, write: &Write) -> Result<Key, Error> {
    match &write.action {
        WriteAction::Put { item } => check_item(table, item),
        WriteAction::Update { key, update } => {
            check_key(&table.key, key)?;
            update.check()?;
            let changed =
                update.changes().iter().map(UpdateAction::path).find(|path| table.key.has_attribute(path.root()));
            match changed {
                Some(path) => {
                    Err(Error::invalid(format!("`{path}` is part of the key, which an update cannot change")))
                }
                None => Ok(key.clone()),
            }
        }
        WriteAction::Delete { key } | WriteAction::ConditionCheck { key } => {
            check_key(&table.key, key)?;
            Ok(key.clone())
        }
    }
}

/// Checks that the values of a query have the types of the table's or index's key, and that its partition can exist.
pub fn check_query(schema: &KeySchema, query: &Query) -> Result<(), Error> {
    let KeySchema { partition, sort } = schema;
    check_page(query.limit)?;
    check_part(partition, &query.partition, MAX_PARTITION_BYTES)?;
    let values: &[&KeyValue] = match &query.sort {
        SortCondition::Any => &[],
        SortCondition::Between(least, most) => &[least, most],
        SortCondition::Equal(value)
        | SortCondition::BeginsWith(value)
        | SortCondition::Less(value)
        | SortCondition::LessOrEqual(value)
        | SortCondition::Greater(value)
        | SortCondition::GreaterOrEqual(value) => &[value],
    };
    if values.iter().any(|value| value.kind() != sort.1) {
        return Err(Error::invalid(format!("the sort attribute `{}` is of kind {:?}", sort.0, sort.1)));
    }
    if matches!(&query.sort, SortCondition::BeginsWith(KeyValue::Number(_))) {
        return Err(Error::invalid(format!("`{}` is a number; `begins with` needs a string or binary", sort.0)));
    }
    Ok(())
}

/// Checks the segment and the limit of a scan.
pub fn check_scan(scan: &Scan) -> Result<(), Error> {
    check_page(scan.limit)?;
    match scan.segment {
        (segment, segments) if segment < segments => Ok(()),
        (segment, segments) => Err(Error::invalid(format!("there is no segment {segment} of {segments}"))),
    }
}

fn check_page(limit: Option<usize>) -> Result<(), Error> {
    if limit == Some(0) { Err(Error::invalid("a page has at least one item")) } else { Ok(()) }
}
