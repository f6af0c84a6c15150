//! The `Query` request of DynamoDB that a query of the port becomes.
//!
//! The engine sends exactly this request, and `nagaya explain` prints it.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use nagaya_store::{Condition, Error, ErrorKind, Item, Key, KeySchema, Number, Query, TableSpec, Value, limits};
use serde_json::{Value as Json, json};

use crate::expression::{Placeholders, normalize_sort};

/// A `Query` request, field by field as DynamoDB's API names them.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRequest {
    /// `TableName`.
    pub table_name: String,
    /// `IndexName`.
    pub index_name: Option<String>,
    /// `ConsistentRead`. A global index supports only eventually consistent reads.
    pub consistent_read: bool,
    /// `KeyConditionExpression`.
    pub key_condition_expression: String,
    /// `FilterExpression`.
    pub filter_expression: Option<String>,
    /// `ExpressionAttributeNames`.
    pub expression_attribute_names: BTreeMap<String, String>,
    /// `ExpressionAttributeValues`.
    pub expression_attribute_values: BTreeMap<String, Value>,
    /// `ScanIndexForward`.
    pub scan_index_forward: bool,
    /// `Limit`.
    pub limit: Option<i32>,
    /// `ExclusiveStartKey`.
    pub exclusive_start_key: Option<Item>,
    /// A filter that DynamoDB does not accept, because it names a key attribute. The engine applies it to the page.
    pub local_filter: Option<Condition>,
}

impl QueryRequest {
    /// The request for a query on a table with this name in the account; `None` when no key can match.
    pub fn new(table_name: &str, table: &TableSpec, query: Query) -> Result<Option<Self>, Error> {
        let no_index = |index: &String| ErrorKind::NoIndex { table: table.name.clone(), index: index.clone() };
        let index = query.index.as_ref().map(|name| table.index(name).ok_or_else(|| no_index(name))).transpose()?;
        let schema = index.map_or(&table.key, |index| &index.key);
        limits::check_query(schema, &query)?;
        let exclusive_start_key = match query.after {
            None => None,
            Some(after) => Some(match (index, after.index_key) {
                (None, None) => key_item(&table.key, after.key),
                (Some(index), Some(key)) => {
                    key_item(&table.key, after.key).into_iter().chain(key_item(&index.key, key)).collect()
                }
                _ => return Err(Error::invalid("the position is of another index than the query")),
            }),
        };
        let Some(sort) = normalize_sort(query.sort) else { return Ok(None) };
        let mut placeholders = Placeholders::default();
        let key_condition_expression = placeholders.key_condition(schema, query.partition, sort);
        let filter_expression = query.filter.as_ref().and_then(|filter| placeholders.filter(filter, schema));
        Ok(Some(QueryRequest {
            table_name: table_name.to_owned(),
            consistent_read: query.index.is_none(),
            index_name: query.index,
            key_condition_expression,
            local_filter: query.filter.filter(|_| filter_expression.is_none()),
            filter_expression,
            expression_attribute_names: placeholders.names().collect(),
            expression_attribute_values: placeholders.into_values().collect(),
            scan_index_forward: !query.descending,
            limit: query.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)),
            exclusive_start_key,
        }))
    }

    /// The body of the HTTP request.
    pub fn to_json(&self) -> Json {
        let mut body = json!({
            "TableName": self.table_name,
            "ConsistentRead": self.consistent_read,
            "KeyConditionExpression": self.key_condition_expression,
            "ExpressionAttributeNames": self.expression_attribute_names,
            "ExpressionAttributeValues": attributes(&self.expression_attribute_values),
            "ScanIndexForward": self.scan_index_forward,
            "ReturnConsumedCapacity": "TOTAL",
        });
        let optional = [
            ("IndexName", self.index_name.as_deref().map(Json::from)),
            ("FilterExpression", self.filter_expression.as_deref().map(Json::from)),
            ("Limit", self.limit.map(Json::from)),
            ("ExclusiveStartKey", self.exclusive_start_key.as_ref().map(|key| attributes(key.iter()))),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        body
    }
}

fn key_item(schema: &KeySchema, key: Key) -> Item {
    Item::new().with(&schema.partition.0, key.partition).with(&schema.sort.0, key.sort)
}

fn attributes<'v, N: AsRef<str>>(values: impl IntoIterator<Item = (N, &'v Value)>) -> Json {
    values.into_iter().map(|(name, value)| (name.as_ref().to_owned(), attribute(value))).collect()
}

/// A value in DynamoDB's JSON, with its type.
fn attribute(value: &Value) -> Json {
    match value {
        Value::Null => json!({ "NULL": true }),
        Value::Boolean(flag) => json!({ "BOOL": flag }),
        Value::Number(number) => json!({ "N": number.to_string() }),
        Value::String(text) => json!({ "S": text.as_str() }),
        Value::Binary(bytes) => json!({ "B": BASE64_STANDARD.encode(bytes) }),
        Value::List(values) => json!({ "L": values.iter().map(attribute).collect::<Vec<_>>() }),
        Value::Map(values) => json!({ "M": attributes(values) }),
        Value::StringSet(all) => json!({ "SS": all }),
        Value::NumberSet(all) => json!({ "NS": all.iter().map(Number::to_string).collect::<Vec<_>>() }),
        Value::BinarySet(all) => {
            json!({ "BS": all.iter().map(|each| BASE64_STANDARD.encode(each)).collect::<Vec<_>>() })
        }
    }
}
