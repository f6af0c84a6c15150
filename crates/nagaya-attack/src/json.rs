//! Items and JSON: conversions of the suite's own, so that it does not trust those of the layer that it attacks.

use nagaya_store::Value;
use serde_json::{Map, Value as Json};

/// A JSON value as stores have it.
pub(super) fn to_store(value: Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Boolean(truth),
        Json::Number(number) => match number.to_string().parse() {
            Ok(number) => Value::Number(number),
            Err(_) => number.to_string().into(),
        },
        Json::String(text) => text.into(),
        Json::Array(values) => Value::List(values.into_iter().map(to_store).collect()),
        Json::Object(values) => Value::Map(values.into_iter().map(|(name, value)| (name, to_store(value))).collect()),
    }
}

/// A stored value as JSON. Sets become lists; the layer stores no binary values.
pub(super) fn to_json(value: &Value) -> Json {
    match value {
        Value::Null | Value::Binary(_) | Value::BinarySet(_) => Json::Null,
        Value::Boolean(truth) => (*truth).into(),
        Value::Number(number) => serde_json::from_str(&number.to_string()).unwrap_or_default(),
        Value::String(text) => text.as_str().into(),
        Value::List(values) => values.iter().map(to_json).collect(),
        Value::Map(values) => values.iter().map(|(name, value)| (name.clone(), to_json(value))).collect(),
        Value::StringSet(texts) => texts.iter().map(String::as_str).collect(),
        Value::NumberSet(numbers) => numbers.iter().map(|number| to_json(&Value::Number(*number))).collect(),
    }
}

/// The value at a dotted path.
pub(super) fn value_at<'m>(fields: &'m Map<String, Json>, path: &str) -> Option<&'m Json> {
    match path.split_once('.') {
        None => fields.get(path),
        Some((first, rest)) => value_at(fields.get(first)?.as_object()?, rest),
    }
}

/// Puts a value at a dotted path, and creates the maps on the way.
pub(super) fn set_at_path(fields: &mut Map<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => drop(fields.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = fields.entry(first).or_insert_with(|| Json::Object(Map::new()));
            if let Json::Object(inner) = inner {
                set_at_path(inner, rest, value);
            }
        }
    }
}
