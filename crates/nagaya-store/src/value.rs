//! Attribute values.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::Number;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// An explicit null; not the same as an absent attribute.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(Number),
    /// A string; short ones need no allocation.
    String(SmolStr),
    /// Bytes.
    Binary(Vec<u8>),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name.
    Map(BTreeMap<String, Value>),
    /// A set of strings; never empty.
    StringSet(BTreeSet<String>),
    /// A set of numbers; never empty.
    NumberSet(BTreeSet<Number>),
    /// A set of binaries; never empty.
    BinarySet(BTreeSet<Vec<u8>>),
}

/// The type of an attribute value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// [`Value::Null`]
    Null,
    /// [`Value::Boolean`]
    Boolean,
    /// [`Value::Number`]
    Number,
    /// [`Value::String`]
    String,
    /// [`Value::Binary`]
    Binary,
    /// [`Value::List`]
    List,
    /// [`Value::Map`]
    Map,
    /// [`Value::StringSet`]
    StringSet,
    /// [`Value::NumberSet`]
    NumberSet,
    /// [`Value::BinarySet`]
    BinarySet,
}

impl Value {
    /// Its kind.
    pub fn kind(&self) -> ValueKind {
        match self {
            Value::Null => ValueKind::Null,
            Value::Boolean(_) => ValueKind::Boolean,
            Value::Number(_) => ValueKind::Number,
            Value::String(_) => ValueKind::String,
            Value::Binary(_) => ValueKind::Binary,
            Value::List(_) => ValueKind::List,
            Value::Map(_) => ValueKind::Map,
            Value::StringSet(_) => ValueKind::StringSet,
            Value::NumberSet(_) => ValueKind::NumberSet,
            Value::BinarySet(_) => ValueKind::BinarySet,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number of a numeric value.
    pub fn as_number(&self) -> Option<Number> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Its size in bytes as DynamoDB counts it.
    pub fn size(&self) -> usize {
        match self {
            Value::Null | Value::Boolean(_) => 1,
            Value::Number(number) => number.size(),
            Value::String(text) => text.len(),
            Value::Binary(bytes) => bytes.len(),
            Value::List(values) => values.iter().fold(3, |sum, value| sum + 1 + value.size()),
            Value::Map(values) => values.iter().fold(3, |sum, (name, value)| sum + 1 + name.len() + value.size()),
            Value::StringSet(texts) => texts.iter().map(String::len).sum(),
            Value::NumberSet(numbers) => numbers.iter().map(Number::size).sum(),
            Value::BinarySet(all) => all.iter().map(Vec::len).sum(),
        }
    }

    /// How deeply maps and lists are nested in it: 0 for a string, 1 for a list of strings.
    pub fn depth(&self) -> usize {
        match self {
            Value::List(values) => 1 + values.iter().map(Value::depth).max().unwrap_or(0),
            Value::Map(values) => 1 + values.values().map(Value::depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// Its size as the `size` function of a condition counts it; `None` for values without a size.
    ///
    /// Strings are counted in UTF-16 units, as in DynamoDB: `長屋` has 2, and `👍` has 2.
    pub fn length(&self) -> Option<usize> {
        match self {
            Value::String(text) => Some(text.encode_utf16().count()),
            Value::Binary(bytes) => Some(bytes.len()),
            Value::List(values) => Some(values.len()),
            Value::Map(values) => Some(values.len()),
            Value::StringSet(all) => Some(all.len()),
            Value::NumberSet(all) => Some(all.len()),
            Value::BinarySet(all) => Some(all.len()),
            Value::Null | Value::Boolean(_) | Value::Number(_) => None,
        }
    }

    /// Whether it is a set.
    pub(crate) fn is_set(&self) -> bool {
        matches!(self, Value::StringSet(_) | Value::NumberSet(_) | Value::BinarySet(_))
    }

    /// Whether it is or contains an empty set.
    pub(crate) fn has_empty_set(&self) -> bool {
        match self {
            Value::StringSet(all) => all.is_empty(),
            Value::NumberSet(all) => all.is_empty(),
            Value::BinarySet(all) => all.is_empty(),
            Value::List(values) => values.iter().any(Value::has_empty_set),
            Value::Map(values) => values.values().any(Value::has_empty_set),
            _ => false,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(text.into())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Boolean(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Number(number.into())
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Value::Number(number)
    }
}

impl From<Vec<Value>> for Value {
    fn from(values: Vec<Value>) -> Self {
        Value::List(values)
    }
}
