//! Keys: a partition key and a sort key.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{Item, Number, Value, ValueKind};

/// A value that can be part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyValue {
    /// A string, ordered by its bytes.
    String(SmolStr),
    /// A number, ordered by its value.
    Number(Number),
    /// Bytes, in lexicographic order.
    Binary(Vec<u8>),
}

/// The type of a key attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    /// Text.
    String,
    /// A number.
    Number,
    /// Bytes.
    Binary,
}

impl KeyValue {
    /// Its type.
    pub fn kind(&self) -> KeyKind {
        match self {
            KeyValue::String(_) => KeyKind::String,
            KeyValue::Number(_) => KeyKind::Number,
            KeyValue::Binary(_) => KeyKind::Binary,
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        match self {
            KeyValue::String(text) => text.len(),
            KeyValue::Number(number) => number.size(),
            KeyValue::Binary(bytes) => bytes.len(),
        }
    }

    /// Whether it is an empty string or binary, which is not allowed in a key.
    pub fn is_empty(&self) -> bool {
        match self {
            KeyValue::String(text) => text.is_empty(),
            KeyValue::Binary(bytes) => bytes.is_empty(),
            KeyValue::Number(_) => false,
        }
    }

    /// The value of an attribute, if it has this type.
    pub fn from_value(value: &Value, kind: KeyKind) -> Option<KeyValue> {
        match (value, kind) {
            (Value::String(text), KeyKind::String) => Some(KeyValue::String(text.clone())),
            (Value::Number(number), KeyKind::Number) => Some(KeyValue::Number(*number)),
            (Value::Binary(bytes), KeyKind::Binary) => Some(KeyValue::Binary(bytes.clone())),
            _ => None,
        }
    }
}

impl Ord for KeyValue {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (KeyValue::String(mine), KeyValue::String(theirs)) => mine.as_bytes().cmp(theirs.as_bytes()),
            (KeyValue::Number(mine), KeyValue::Number(theirs)) => mine.cmp(theirs),
            (KeyValue::Binary(mine), KeyValue::Binary(theirs)) => mine.cmp(theirs),
            // A key attribute has one type; this arm only makes the order total.
            _ => (self.kind() as u8).cmp(&(other.kind() as u8)),
        }
    }
}

impl PartialOrd for KeyValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<KeyValue> for Value {
    fn from(value: KeyValue) -> Self {
        match value {
            KeyValue::String(text) => Value::String(text),
            KeyValue::Number(number) => Value::Number(number),
            KeyValue::Binary(bytes) => Value::Binary(bytes),
        }
    }
}

impl From<&str> for KeyValue {
    fn from(text: &str) -> Self {
        KeyValue::String(text.into())
    }
}

impl From<String> for KeyValue {
    fn from(text: String) -> Self {
        KeyValue::String(text.into())
    }
}

impl From<i64> for KeyValue {
    fn from(number: i64) -> Self {
        KeyValue::Number(number.into())
    }
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyValue::String(text) => f.write_str(text),
            KeyValue::Number(number) => write!(f, "{number}"),
            KeyValue::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// The key of an item.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The partition key.
    pub partition: KeyValue,
    /// The sort key.
    pub sort: KeyValue,
}

impl Key {
    /// Creates a key.
    pub fn new(partition: impl Into<KeyValue>, sort: impl Into<KeyValue>) -> Self {
        Key { partition: partition.into(), sort: sort.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.partition, self.sort)
    }
}

/// The names and types of the key attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySchema {
    /// The partition attribute.
    pub partition: (String, KeyKind),
    /// The sort attribute.
    pub sort: (String, KeyKind),
}

impl KeySchema {
    /// Two string attributes, as in every design.
    pub fn strings(partition: &str, sort: &str) -> Self {
        KeySchema { partition: (partition.to_owned(), KeyKind::String), sort: (sort.to_owned(), KeyKind::String) }
    }

    /// The key of an item; `None` if an attribute is missing or has another type.
    pub fn key_of(&self, item: &Item) -> Option<Key> {
        let part = |(name, kind): &(String, KeyKind)| KeyValue::from_value(item.get(name)?, *kind);
        Some(Key { partition: part(&self.partition)?, sort: part(&self.sort)? })
    }

    /// Whether an attribute is part of the key.
    pub fn has_attribute(&self, attribute: &str) -> bool {
        self.partition.0 == attribute || self.sort.0 == attribute
    }

    /// Whether a key has the types of this schema.
    pub fn matches(&self, key: &Key) -> bool {
        key.partition.kind() == self.partition.1 && key.sort.kind() == self.sort.1
    }
}

impl From<KeyKind> for ValueKind {
    fn from(kind: KeyKind) -> Self {
        match kind {
            KeyKind::String => ValueKind::String,
            KeyKind::Number => ValueKind::Number,
            KeyKind::Binary => ValueKind::Binary,
        }
    }
}
