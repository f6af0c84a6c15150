//! Short constructors of values.

use std::collections::{BTreeMap, BTreeSet};

use nagaya_store::{KeyValue, Number, Value};

pub(super) fn number(text: &str) -> Number {
    text.parse().expect("the cases only have numbers that can be stored")
}

pub(super) fn key_number(text: &str) -> KeyValue {
    KeyValue::Number(number(text))
}

pub(super) fn binary_key(bytes: &[u8]) -> KeyValue {
    KeyValue::Binary(bytes.to_vec())
}

pub(super) fn bytes(bytes: &[u8]) -> Value {
    Value::Binary(bytes.to_vec())
}

pub(super) fn list<const N: usize>(values: [Value; N]) -> Value {
    Value::List(values.to_vec())
}

pub(super) fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(BTreeMap::from(entries.map(|(name, value)| (name.to_owned(), value))))
}

pub(super) fn string_set<const N: usize>(texts: [&str; N]) -> Value {
    Value::StringSet(BTreeSet::from(texts.map(str::to_owned)))
}

pub(super) fn numbers<const N: usize>(numbers: [&str; N]) -> Value {
    Value::NumberSet(BTreeSet::from(numbers.map(number)))
}

pub(super) fn byte_strings<const N: usize>(all: [&[u8]; N]) -> Value {
    Value::BinarySet(BTreeSet::from(all.map(<[u8]>::to_vec)))
}
