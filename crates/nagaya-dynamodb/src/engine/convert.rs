//! Conversion of items, values and keys between the port and the SDK.

use std::collections::HashMap;

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use nagaya_store::{Error, Item, Key, KeySchema, KeyValue, Number, Value};

use crate::expression::Placeholders;

/// An item of the SDK.
pub(crate) type Attributes = HashMap<String, AttributeValue>;

/// An item as the SDK takes it.
pub(crate) fn to_attributes(item: impl IntoIterator<Item = (String, Value)>) -> Attributes {
    item.into_iter().map(|(name, value)| (name, to_attribute(value))).collect()
}

/// Defines `to_item` and `to_value` for the `AttributeValue` of an SDK: the ones for tables and for streams have types of
/// their own.
macro_rules! from_attribute_value {
    ($attribute:ident) => {
        /// An item from the SDK.
        pub(crate) fn to_item(attributes: std::collections::HashMap<String, $attribute>) -> Result<Item, Error> {
            attributes.into_iter().map(|(name, value)| Ok((name, to_value(value)?))).collect()
        }

        /// A value from the SDK.
        pub(crate) fn to_value(attribute: $attribute) -> Result<Value, Error> {
            let number = |text: &str| -> Result<nagaya_store::Number, Error> {
                text.parse().map_err(|cause| Error::engine(format!("the server sent `{text}` as a number: {cause}")))
            };
            Ok(match attribute {
                $attribute::Null(_) => Value::Null,
                $attribute::Bool(flag) => Value::Boolean(flag),
                $attribute::N(text) => Value::Number(number(&text)?),
                $attribute::S(text) => Value::String(text.into()),
                $attribute::B(bytes) => Value::Binary(bytes.into_inner()),
                $attribute::L(values) => Value::List(values.into_iter().map(to_value).collect::<Result<_, Error>>()?),
                $attribute::M(values) => {
                    let entries = values.into_iter().map(|(name, value)| Ok((name, to_value(value)?)));
                    Value::Map(entries.collect::<Result<_, Error>>()?)
                }
                $attribute::Ss(all) => Value::StringSet(all.into_iter().collect()),
                $attribute::Ns(all) => {
                    Value::NumberSet(all.iter().map(|text| number(text)).collect::<Result<_, Error>>()?)
                }
                $attribute::Bs(all) => Value::BinarySet(all.into_iter().map(|bytes| bytes.into_inner()).collect()),
                other => return Err(Error::engine(format!("the server sent a value of an unknown type: {other:?}"))),
            })
        }
    };
}
pub(crate) use from_attribute_value;

from_attribute_value!(AttributeValue);

/// A key as the SDK takes it.
pub(crate) fn to_key(schema: &KeySchema, key: &Key) -> Attributes {
    HashMap::from([
        (schema.partition.0.clone(), to_attribute(key.partition.clone().into())),
        (schema.sort.0.clone(), to_attribute(key.sort.clone().into())),
    ])
}

/// The names that expressions refer to; `None` when there are none, for DynamoDB rejects an empty map.
pub(crate) fn to_names(placeholders: &Placeholders) -> Option<HashMap<String, String>> {
    Some(placeholders.names().collect()).filter(|names: &HashMap<_, _>| !names.is_empty())
}

/// The values that expressions refer to; `None` when there are none, for DynamoDB rejects an empty map.
pub(crate) fn to_values(placeholders: Placeholders) -> Option<Attributes> {
    let values = placeholders.into_values().map(|(name, value)| (name, to_attribute(value)));
    Some(values.collect()).filter(|values: &Attributes| !values.is_empty())
}

/// A value as the SDK takes it.
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

/// Adds a condition with its names and values to a request. The response to a failed condition has the stored item.
macro_rules! set_condition {
    ($request:expr, $condition:expr, $placeholders:expr) => {
        $request
            .set_condition_expression($condition)
            .set_expression_attribute_names(convert::to_names(&$placeholders))
            .set_expression_attribute_values(convert::to_values($placeholders))
            .return_values_on_condition_check_failure(
                aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld,
            )
    };
}
pub(crate) use set_condition;

/// The key of an item from the SDK.
pub(crate) fn key_of(schema: &KeySchema, attributes: &Attributes) -> Result<Key, Error> {
    let part = |name: &str| {
        let attribute = attributes.get(name).cloned();
        let attribute = attribute.ok_or_else(|| Error::engine(format!("the server sent a key without `{name}`")))?;
        to_key_part(attribute)
    };
    Ok(Key { partition: part(&schema.partition.0)?, sort: part(&schema.sort.0)? })
}

fn to_key_part(attribute: AttributeValue) -> Result<KeyValue, Error> {
    match to_value(attribute)? {
        Value::String(text) => Ok(KeyValue::String(text)),
        Value::Number(number) => Ok(KeyValue::Number(number)),
        Value::Binary(bytes) => Ok(KeyValue::Binary(bytes)),
        other => Err(Error::engine(format!("the server sent a key of type {:?}", other.kind()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_value_survives_the_round_trip() {
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
        assert_eq!(to_item(to_attributes(item.clone())).expect("a valid item"), item);
    }

    #[test]
    fn invalid_values_from_the_server_are_engine_errors() {
        for wrong in [AttributeValue::N("x".to_owned()), AttributeValue::N("1".repeat(39))] {
            assert_eq!(to_value(wrong).map_err(|error| error.code()), Err("engine"));
        }
        let schema = KeySchema::strings("PK", "SK");
        assert_eq!(key_of(&schema, &Attributes::new()).map_err(|error| error.code()), Err("engine"));
    }
}
