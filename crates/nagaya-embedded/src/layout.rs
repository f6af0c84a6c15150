//! The byte keys of items, index entries, expiries and changes.
//!
//! Every part of a key is encoded so that the order of bytes is the order of values, and no encoding is a prefix of
//! another.

use nagaya_store::{Key, KeyValue, SortCondition};

/// The keyspaces of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keyspace {
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

impl Keyspace {
    pub(crate) const ALL: [Keyspace; 5] =
        [Keyspace::Items, Keyspace::Index, Keyspace::Expiry, Keyspace::Changes, Keyspace::Meta];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Keyspace::Items => "items",
            Keyspace::Index => "index",
            Keyspace::Expiry => "expiry",
            Keyspace::Changes => "changes",
            Keyspace::Meta => "meta",
        }
    }
}

/// The number of a table in a directory.
pub(crate) type TableId = u16;

/// Appends an encoded value.
fn push_value(value: &KeyValue, out: &mut Vec<u8>) {
    match value {
        KeyValue::String(text) => push_bytes(text.as_bytes(), out),
        KeyValue::Binary(bytes) => push_bytes(bytes, out),
        KeyValue::Number(number) => number.encode_ordered(out),
    }
}

/// Inside a value, a zero is followed by 255; the value ends with a zero and a 1.
fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    push_escaped(bytes, out);
    out.extend([0, 1]);
}

fn push_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.split_inclusive(|byte| *byte == 0) {
        out.extend_from_slice(run);
        if run.ends_with(&[0]) {
            out.push(255);
        }
    }
}

/// The key of an item.
pub(crate) fn item_key(table: TableId, key: &Key) -> Vec<u8> {
    let mut out = Vec::with_capacity(estimated_length(key));
    push_prefix(table, None, &mut out);
    push_value(&key.partition, &mut out);
    push_value(&key.sort, &mut out);
    out
}

/// The key of an index entry.
pub(crate) fn index_entry_key(table: TableId, index: u8, index_key: &Key, key: &Key) -> Vec<u8> {
    let mut out = Vec::with_capacity(estimated_length(index_key) + estimated_length(key));
    push_prefix(table, Some(index), &mut out);
    push_value(&index_key.partition, &mut out);
    push_value(&index_key.sort, &mut out);
    push_value(&key.partition, &mut out);
    push_value(&key.sort, &mut out);
    out
}

/// The prefix of all keys of a partition.
pub(crate) fn partition_prefix(table: TableId, index: Option<u8>, value: &KeyValue) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.size() + OVERHEAD);
    push_prefix(table, index, &mut out);
    push_value(value, &mut out);
    out
}

fn push_prefix(table: TableId, index: Option<u8>, out: &mut Vec<u8>) {
    out.extend_from_slice(&table.to_be_bytes());
    out.extend(index);
}

/// Bytes of a key in addition to its values: table, index, terminators.
const OVERHEAD: usize = 8;

/// The estimated length of an encoded key.
fn estimated_length(key: &Key) -> usize {
    key.partition.size() + key.sort.size() + OVERHEAD
}

/// The prefix of all keys of a table.
pub(crate) fn table_prefix(table: TableId) -> Vec<u8> {
    table.to_be_bytes().to_vec()
}

/// The key of an expiry. It starts with the time, so that a sweep reads only what is due.
pub(crate) fn expiry_key(second: i64, item_key: &[u8]) -> Vec<u8> {
    let mut out = expiry_prefix(second);
    out.extend(item_key);
    out
}

/// The prefix of the expiries at a second; it sorts before all later ones.
pub(crate) fn expiry_prefix(second: i64) -> Vec<u8> {
    // Flipping the sign bit makes negative seconds sort first.
    (second as u64 ^ (1 << 63)).to_be_bytes().to_vec()
}

/// The key of the record of the last commit, in [`Keyspace::Changes`]; no change has this key. It is in the keyspace
/// that most commits write, so that it does not keep old journals alive.
pub(crate) const COMMIT_KEY: &[u8] = &[0];

/// The key of a change.
pub(crate) fn change_key(table: TableId, sequence: u64) -> Vec<u8> {
    let mut out = table.to_be_bytes().to_vec();
    out.extend(sequence.to_be_bytes());
    out
}

/// The sequence number in the key of a change.
pub(crate) fn change_sequence(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(2..10)?.try_into().ok()?))
}

/// The first key after all keys with this prefix; `None` if there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != 255)?;
    let mut next = prefix[..=end].to_vec();
    next[end] += 1;
    Some(next)
}

/// The range of keys in a partition that a sort condition allows: from the first, up to but excluding the second.
pub(crate) fn sort_bounds(partition: &[u8], sort: &SortCondition) -> (Vec<u8>, Option<Vec<u8>>) {
    let with = |value: &KeyValue| {
        let mut out = partition.to_vec();
        push_value(value, &mut out);
        out
    };
    let end = || prefix_end(partition);
    match sort {
        SortCondition::Any => (partition.to_vec(), end()),
        SortCondition::Equal(value) => (with(value), prefix_end(&with(value))),
        SortCondition::BeginsWith(start) => {
            let mut prefix = partition.to_vec();
            match start {
                KeyValue::String(text) => push_escaped(text.as_bytes(), &mut prefix),
                KeyValue::Binary(bytes) => push_escaped(bytes, &mut prefix),
                // The caller has refused numbers.
                KeyValue::Number(_) => push_value(start, &mut prefix),
            }
            let after = prefix_end(&prefix);
            (prefix, after)
        }
        SortCondition::Between(least, most) => (with(least), prefix_end(&with(most))),
        SortCondition::Less(value) => (partition.to_vec(), Some(with(value))),
        SortCondition::LessOrEqual(value) => (partition.to_vec(), prefix_end(&with(value))),
        SortCondition::Greater(value) => (prefix_end(&with(value)).unwrap_or_else(|| with(value)), end()),
        SortCondition::GreaterOrEqual(value) => (with(value), end()),
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
                    index_entry_key(1, 0, &Key { partition: pair[0].clone(), sort: value(left) }, &Key::new("x", "y"));
                let right =
                    index_entry_key(1, 0, &Key { partition: pair[1].clone(), sort: value(right) }, &Key::new("x", "y"));
                assert!(left < right, "{pair:?}");
            }
        }
    }

    #[test]
    fn a_prefix_ends_before_what_follows_it() {
        assert_eq!(prefix_end(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(prefix_end(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(prefix_end(&[255]), None);
    }
}
