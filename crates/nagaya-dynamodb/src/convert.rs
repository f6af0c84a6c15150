//! Items, values and keys, in the port's form and in the server's.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use nagaya_store::{Error, Item, Key, KeySchema, KeyValue, Number, Value};

/// An item as the server takes and gives it.
pub(crate) type Attributes = HashMap<String, AttributeValue>;

/// An item for the server.
pub(crate) fn to_attributes(item: Item) -> Attributes {
    item.into_iter().map(|(name, value)| (name, to_attribute(value))).collect()
}

/// An item from the server.
pub(crate) fn to_item(attributes: Attributes) -> Result<Item, Error> {
    attributes.into_iter().map(|(name, value)| Ok((name, to_value(value)?))).collect()
}

/// A key for the server.
pub(crate) fn to_key(schema: &KeySchema, key: &Key) -> Attributes {
    HashMap::from([
        (schema.partition.0.clone(), to_key_value(key.partition.clone())),
        (schema.sort.0.clone(), to_key_value(key.sort.clone())),
    ])
}

/// A value of a key for the server.
pub(crate) fn to_key_value(value: KeyValue) -> AttributeValue {
    match value {
        KeyValue::String(text) => AttributeValue::S(text.into()),
        KeyValue::Number(number) => AttributeValue::N(number.to_string()),
        KeyValue::Binary(bytes) => AttributeValue::B(Blob::new(bytes)),
    }
}

/// A value for the server.
pub(crate) fn to_attribute(value: Value) -> AttributeValue {
    match value {
        Value::Null => AttributeValue::Null(true),
        Value::Boolean(flag) => AttributeValue::Bool(flag),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::String(text) => AttributeValue::S(text.into()),
        Value::Binary(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::List(values) => AttributeValue::L(values.into_iter().map(to_attribute).collect()),
        Value::Map(values) => {
            AttributeValue::M(values.into_iter().map(|(name, value)| (name, to_attribute(value))).collect())
        }
        Value::StringSet(all) => AttributeValue::Ss(all.into_iter().collect()),
        Value::NumberSet(all) => AttributeValue::Ns(all.iter().map(Number::to_string).collect()),
        Value::BinarySet(all) => AttributeValue::Bs(all.into_iter().map(Blob::new).collect()),
    }
}

/// A value from the server.
pub(crate) fn to_value(attribute: AttributeValue) -> Result<Value, Error> {
    Ok(match attribute {
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::Bool(flag) => Value::Boolean(flag),
        AttributeValue::N(text) => Value::Number(to_number(&text)?),
        AttributeValue::S(text) => Value::String(text.into()),
        AttributeValue::B(bytes) => Value::Binary(bytes.into_inner()),
        AttributeValue::L(values) => Value::List(values.into_iter().map(to_value).collect::<Result<_, Error>>()?),
        AttributeValue::M(values) => {
            let entries = values.into_iter().map(|(name, value)| Ok((name, to_value(value)?)));
            Value::Map(entries.collect::<Result<_, Error>>()?)
        }
        AttributeValue::Ss(all) => Value::StringSet(all.into_iter().collect()),
        AttributeValue::Ns(all) => {
            Value::NumberSet(all.iter().map(|text| to_number(text)).collect::<Result<BTreeSet<_>, Error>>()?)
        }
        AttributeValue::Bs(all) => Value::BinarySet(all.into_iter().map(Blob::into_inner).collect()),
        other => return Err(Error::engine(format!("the server gave a value of an unknown kind: {other:?}"))),
    })
}

fn to_number(text: &str) -> Result<Number, Error> {
    text.parse().map_err(|cause| Error::engine(format!("the server gave `{text}` as a number: {cause}")))
}

/// The key of an item from the server.
pub(crate) fn key_of(schema: &KeySchema, attributes: &Attributes) -> Result<Key, Error> {
    let part = |name: &str| {
        let attribute = attributes.get(name).cloned();
        let attribute = attribute.ok_or_else(|| Error::engine(format!("the server gave a key without `{name}`")))?;
        to_key_part(attribute)
    };
    Ok(Key { partition: part(&schema.partition.0)?, sort: part(&schema.sort.0)? })
}

fn to_key_part(attribute: AttributeValue) -> Result<KeyValue, Error> {
    match to_value(attribute)? {
        Value::String(text) => Ok(KeyValue::String(text)),
        Value::Number(number) => Ok(KeyValue::Number(number)),
        Value::Binary(bytes) => Ok(KeyValue::Binary(bytes)),
        other => Err(Error::engine(format!("the server gave a key of kind {:?}", other.kind()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_comes_back() {
        let number = |text: &str| text.parse::<Number>().expect("a number");
        let item = Item::new()
            .with("null", Value::Null)
            .with("flag", true)
            .with("number", number("-9.9999999999999999999999999999999999999E+125"))
            .with("text", "")
            .with("bytes", Value::Binary(vec![0, 255]))
            .with("list", vec![1.into(), Value::Map([("a".to_owned(), "b".into())].into())])
            .with("texts", Value::StringSet(["a".to_owned()].into()))
            .with("numbers", Value::NumberSet([number("1E-130"), number("0")].into()))
            .with("blobs", Value::BinarySet([vec![1], vec![]].into()));
        assert_eq!(to_item(to_attributes(item.clone())).expect("it comes back"), item);
    }

    #[test]
    fn what_the_server_should_not_give_is_an_error_of_the_engine() {
        for wrong in [AttributeValue::N("x".to_owned()), AttributeValue::N("1".repeat(39))] {
            assert_eq!(to_value(wrong).map_err(|error| error.code()), Err("engine"));
        }
        let schema = KeySchema::strings("PK", "SK");
        assert_eq!(key_of(&schema, &Attributes::new()).map_err(|error| error.code()), Err("engine"));
    }
}
