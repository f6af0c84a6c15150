//! Where things lie: the byte keys of items, index entries, expiries and changes.
//!
//! Every part of a key is written so that bytes sort like values, and so that no part is the beginning of another.

use nagaya_store::{Key, KeyValue, Sort};

/// The key spaces of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    /// Table, partition, sort key → item.
    Items,
    /// Table, index, index partition, index sort key, partition, sort key → item.
    Index,
    /// Second of expiry, table, partition, sort key → nothing.
    Expiry,
    /// Table, sequence → change.
    Changes,
    /// Format, tables, counters.
    Meta,
}

impl Space {
    pub(crate) const ALL: [Space; 5] = [Space::Items, Space::Index, Space::Expiry, Space::Changes, Space::Meta];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Items => "items",
            Space::Index => "index",
            Space::Expiry => "expiry",
            Space::Changes => "changes",
            Space::Meta => "meta",
        }
    }
}

/// The number of a table in this directory.
pub(crate) type TableId = u16;

/// Appends a value so that bytes sort like values and no value is the beginning of another.
fn push(value: &KeyValue, out: &mut Vec<u8>) {
    match value {
        KeyValue::String(text) => push_bytes(text.as_bytes(), out),
        KeyValue::Binary(bytes) => push_bytes(bytes, out),
        KeyValue::Number(number) => number.encode_ordered(out),
    }
}

/// A zero is followed by 255 inside a value, and by 1 at its end.
fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    push_inner(bytes, out);
    out.extend([0, 1]);
}

fn push_inner(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.split_inclusive(|byte| *byte == 0) {
        out.extend_from_slice(run);
        if run.ends_with(&[0]) {
            out.push(255);
        }
    }
}

/// The key of an item.
pub(crate) fn item(table: TableId, key: &Key) -> Vec<u8> {
    let mut out = Vec::with_capacity(length(key));
    start(table, None, &mut out);
    push(&key.partition, &mut out);
    push(&key.sort, &mut out);
    out
}

/// The key of an item in an index.
pub(crate) fn index_entry(table: TableId, index: u8, index_key: &Key, key: &Key) -> Vec<u8> {
    let mut out = Vec::with_capacity(length(index_key) + length(key));
    start(table, Some(index), &mut out);
    push(&index_key.partition, &mut out);
    push(&index_key.sort, &mut out);
    push(&key.partition, &mut out);
    push(&key.sort, &mut out);
    out
}

/// What all keys of a partition start with.
pub(crate) fn partition(table: TableId, index: Option<u8>, value: &KeyValue) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.size() + SPARE);
    start(table, index, &mut out);
    push(value, &mut out);
    out
}

fn start(table: TableId, index: Option<u8>, out: &mut Vec<u8>) {
    out.extend_from_slice(&table.to_be_bytes());
    out.extend(index);
}

/// Bytes of a key beside its values: table, index, ends.
const SPARE: usize = 8;

/// Bytes that a key most likely takes.
fn length(key: &Key) -> usize {
    key.partition.size() + key.sort.size() + SPARE
}

/// What all items of a table start with.
pub(crate) fn table(table: TableId) -> Vec<u8> {
    table.to_be_bytes().to_vec()
}

/// The key of an expiry: by time, so that a sweep reads what is due and nothing else.
pub(crate) fn expiry(second: i64, item: &[u8]) -> Vec<u8> {
    let mut out = expired_before(second);
    out.extend(item);
    out
}

/// What sorts before every expiry at or after a second.
pub(crate) fn expired_before(second: i64) -> Vec<u8> {
    // Flipping the sign bit makes negative seconds sort first.
    (second as u64 ^ (1 << 63)).to_be_bytes().to_vec()
}

/// The key of the number of the last commit, among the changes: no table's changes sort there. It lies with what most
/// commits write, so that no old journal has to be kept for its sake.
pub(crate) const COMMIT: &[u8] = &[0];

/// The key of a change.
pub(crate) fn change(table: TableId, sequence: u64) -> Vec<u8> {
    let mut out = table.to_be_bytes().to_vec();
    out.extend(sequence.to_be_bytes());
    out
}

/// The sequence of a change's key.
pub(crate) fn sequence(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(2..10)?.try_into().ok()?))
}

/// The first key that does not start with this; `None` when all that follow do.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != 255)?;
    let mut next = prefix[..=end].to_vec();
    next[end] += 1;
    Some(next)
}

/// The keys that a sort condition allows below a partition: from the first, up to but without the second.
pub(crate) fn bounds(partition: &[u8], sort: &Sort) -> (Vec<u8>, Option<Vec<u8>>) {
    let with = |value: &KeyValue| {
        let mut out = partition.to_vec();
        push(value, &mut out);
        out
    };
    let end = || after_prefix(partition);
    match sort {
        Sort::Any => (partition.to_vec(), end()),
        Sort::Equal(value) => (with(value), after_prefix(&with(value))),
        Sort::BeginsWith(start) => {
            let mut prefix = partition.to_vec();
            match start {
                KeyValue::String(text) => push_inner(text.as_bytes(), &mut prefix),
                KeyValue::Binary(bytes) => push_inner(bytes, &mut prefix),
                // A number has no beginning; the caller has refused it.
                KeyValue::Number(_) => push(start, &mut prefix),
            }
            let after = after_prefix(&prefix);
            (prefix, after)
        }
        Sort::Between(least, most) => (with(least), after_prefix(&with(most))),
        Sort::Less(value) => (partition.to_vec(), Some(with(value))),
        Sort::LessOrEqual(value) => (partition.to_vec(), after_prefix(&with(value))),
        Sort::Greater(value) => (after_prefix(&with(value)).unwrap_or_else(|| with(value)), end()),
        Sort::GreaterOrEqual(value) => (with(value), end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> KeyValue {
        KeyValue::Binary(text.as_bytes().to_vec())
    }

    #[test]
    fn byte_order_is_value_order_whatever_follows() {
        let mut values: Vec<_> =
            ["a", "a\0", "a\0\0", "a\0b", "a\u{1}", "ab", "b", "\0", "\0\0", "é", "日本"].map(value).to_vec();
        values.sort();
        for pair in values.windows(2) {
            for (left, right) in [("", ""), ("\u{7f}", ""), ("", "\u{7f}")] {
                let left =
                    index_entry(1, 0, &Key { partition: pair[0].clone(), sort: value(left) }, &Key::new("x", "y"));
                let right =
                    index_entry(1, 0, &Key { partition: pair[1].clone(), sort: value(right) }, &Key::new("x", "y"));
                assert!(left < right, "{pair:?}");
            }
        }
    }

    #[test]
    fn a_prefix_ends_before_what_follows_it() {
        assert_eq!(after_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(after_prefix(&[255]), None);
    }
}
