//! A query in the words of DynamoDB and of Cosmos DB.

use serde_json::{Map, Value, json};

use super::{Query, Sort};
use crate::{
    condition::{Condition, Literal, Operator, Term},
    design::Returns,
};

impl Query {
    /// The discriminator, where the key does not say it already.
    pub fn discriminator_filter(&self) -> Option<(&str, &str)> {
        let (name, value) = self.discriminator.as_ref()?;
        (*name != self.sort_attribute && *name != self.partition_attribute).then_some((name, value))
    }

    /// The request as DynamoDB takes it.
    pub fn dynamodb(&self, table_name: &str) -> Value {
        let mut names = Map::new();
        let mut values = Map::new();
        let mut expression = Expression { names: &mut names, values: &mut values };
        let sort = if self.sort == Sort::Any { String::new() } else { expression.name(&self.sort_attribute) };
        let partition = format!(
            "{} = {}",
            expression.name(&self.partition_attribute),
            expression.value(&self.partition.as_str().into())
        );
        let mut text = |key: &str| expression.value(&key.into());
        let condition = match &self.sort {
            Sort::Any => None,
            Sort::Equal(key) => Some(format!("{sort} = {}", text(key))),
            Sort::BeginsWith(key) => Some(format!("begins_with({sort}, {})", text(key))),
            Sort::Between(from, to) => Some(format!("{sort} BETWEEN {} AND {}", text(from), text(to))),
            Sort::AtLeast(from) => Some(format!("{sort} >= {}", text(from))),
            Sort::Below(to) => Some(format!("{sort} < {}", text(to))),
            // No request asks for nothing; this is the one that finds it.
            Sort::Nothing => Some(format!("{sort} < {}", text("\u{1}"))),
        };
        let key = [Some(partition), condition].into_iter().flatten().collect::<Vec<_>>().join(" AND ");
        let discriminator = self
            .discriminator_filter()
            .map(|(name, value)| format!("{} = {}", expression.name(name), expression.value(&value.into())));
        let filter = self.filter.as_ref().map(|filter| expression.condition(filter));
        let filters: Vec<_> = [discriminator, filter].into_iter().flatten().collect();
        let projection: Vec<_> = self.projection.iter().map(|name| expression.name(name)).collect();
        let mut request = json!({
            "TableName": table_name,
            "KeyConditionExpression": key,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ScanIndexForward": !self.descending,
            "Limit": self.limit,
        });
        if let Some(index) = &self.index {
            request["IndexName"] = index.as_str().into();
        }
        if !filters.is_empty() {
            request["FilterExpression"] = filters.join(" AND ").into();
        }
        if !projection.is_empty() {
            request["ProjectionExpression"] = projection.join(", ").into();
        }
        if self.returns == Returns::Count {
            request["Select"] = "COUNT".into();
        }
        request
    }

    /// The query as Cosmos DB takes it.
    pub fn cosmos(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let sort = property(&self.sort_attribute);
        let mut conditions = vec![format!("{} = {}", property(&self.partition_attribute), quoted(&self.partition))];
        match &self.sort {
            Sort::Any => {}
            Sort::Equal(key) => conditions.push(format!("{sort} = {}", quoted(key))),
            Sort::BeginsWith(key) => conditions.push(format!("STARTSWITH({sort}, {})", quoted(key))),
            Sort::Between(from, to) => {
                conditions.push(format!("{sort} >= {} AND {sort} <= {}", quoted(from), quoted(to)));
            }
            Sort::AtLeast(from) => conditions.push(format!("{sort} >= {}", quoted(from))),
            Sort::Below(to) => conditions.push(format!("{sort} < {}", quoted(to))),
            Sort::Nothing => conditions.push("false".to_owned()),
        }
        if let Some((name, value)) = self.discriminator_filter() {
            conditions.push(format!("{} = {}", property(name), quoted(value)));
        }
        conditions.extend(self.filter.as_ref().map(sql));
        let selected: Vec<_> = self.projection.iter().map(|field| property(field)).collect();
        let selected = match (self.returns, selected.is_empty()) {
            (Returns::Count, _) => "VALUE COUNT(1)".to_owned(),
            (_, true) => "*".to_owned(),
            (_, false) => selected.join(", "),
        };
        // Sorting costs: what has one value, or is only counted, is left in any order.
        let unsorted = self.returns == Returns::Count || matches!(self.sort, Sort::Equal(_));
        let order = match (unsorted, self.descending) {
            (true, _) => String::new(),
            (_, false) => format!(" ORDER BY {sort}"),
            (_, true) => format!(" ORDER BY {sort} DESC"),
        };
        format!("SELECT {selected} FROM c WHERE {}{order}", conditions.join(" AND "))
    }
}

/// A DynamoDB expression in the making: names and values go through placeholders.
struct Expression<'e> {
    names: &'e mut Map<String, Value>,
    values: &'e mut Map<String, Value>,
}

impl Expression<'_> {
    fn name(&mut self, path: &str) -> String {
        let placeholder = |segment: &str| format!("#{segment}");
        for segment in path.split('.') {
            self.names.insert(placeholder(segment), segment.into());
        }
        path.split('.').map(placeholder).collect::<Vec<_>>().join(".")
    }

    fn value(&mut self, value: &Value) -> String {
        let placeholder = format!(":v{}", self.values.len());
        let typed = match value {
            Value::Null => json!({ "NULL": true }),
            Value::Bool(flag) => json!({ "BOOL": flag }),
            Value::Number(number) => json!({ "N": number.to_string() }),
            other => json!({ "S": other.as_str().unwrap_or_default() }),
        };
        self.values.insert(placeholder.clone(), typed);
        placeholder
    }

    fn term(&mut self, term: &Term) -> String {
        match term {
            Term::Constant(value) => self.value(value),
            Term::Parameter(name) => self.value(&format!("<{name}>").into()),
        }
    }

    fn condition(&mut self, condition: &Condition) -> String {
        match condition {
            // To DynamoDB an absent attribute differs from every value; to a condition it is not there to differ.
            Condition::Compare { field, operator: Operator::NotEqual, value } => {
                let name = self.name(&field.path);
                let (value, null) = (self.term(&value.value), self.value(&Value::Null));
                format!("(attribute_exists({name}) AND {name} <> {value} AND {name} <> {null})")
            }
            Condition::Compare { field, operator, value } => {
                format!("{} {operator} {}", self.name(&field.path), self.term(&value.value))
            }
            Condition::In { field, values } => {
                let name = self.name(&field.path);
                let values: Vec<_> = values.iter().map(|value| self.term(&value.value)).collect();
                format!("{name} IN ({})", values.join(", "))
            }
            // A null counts as absent.
            Condition::Exists(field) => {
                let name = self.name(&field.path);
                format!("(attribute_exists({name}) AND {name} <> {})", self.value(&Value::Null))
            }
            Condition::Absent(field) => {
                let name = self.name(&field.path);
                format!("(attribute_not_exists({name}) OR {name} = {})", self.value(&Value::Null))
            }
            Condition::And(inner) => self.join(inner, " AND "),
            Condition::Or(inner) => self.join(inner, " OR "),
            Condition::Not(inner) => format!("NOT ({})", self.condition(inner)),
        }
    }

    fn join(&mut self, inner: &[Condition], word: &str) -> String {
        let inner: Vec<_> = inner.iter().map(|each| self.condition(each)).collect();
        format!("({})", inner.join(word))
    }
}

/// Words that Cosmos DB reads as its own, which a property is quoted for.
const KEYWORDS: &[&str] = &[
    "all",
    "and",
    "array",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "convert",
    "cross",
    "current",
    "desc",
    "distinct",
    "else",
    "end",
    "escape",
    "exists",
    "false",
    "for",
    "from",
    "full",
    "group",
    "having",
    "in",
    "inner",
    "insert",
    "into",
    "is",
    "join",
    "left",
    "like",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "rank",
    "right",
    "select",
    "set",
    "then",
    "top",
    "true",
    "udf",
    "undefined",
    "update",
    "value",
    "when",
    "where",
    "with",
];

/// A property of a document: `c.name`, or `c["order"]` where the name is a word of the language.
fn property(path: &str) -> String {
    path.split('.').fold("c".to_owned(), |text, name| {
        let taken = KEYWORDS.contains(&name.to_lowercase().as_str());
        if taken { format!("{text}[\"{name}\"]") } else { format!("{text}.{name}") }
    })
}

fn sql(condition: &Condition) -> String {
    let term = |literal: &Literal| match &literal.value {
        Term::Constant(value) => value.to_string(),
        Term::Parameter(name) => format!("@{name}"),
    };
    let join = |inner: &[Condition], word: &str| {
        let inner: Vec<_> = inner.iter().map(sql).collect();
        format!("({})", inner.join(word))
    };
    match condition {
        Condition::Compare { field, operator, value } => {
            format!("{} {operator} {}", property(&field.path), term(value))
        }
        Condition::In { field, values } => {
            let values: Vec<_> = values.iter().map(term).collect();
            format!("{} IN ({})", property(&field.path), values.join(", "))
        }
        // A null counts as absent.
        Condition::Exists(field) => format!("(IS_DEFINED({0}) AND NOT IS_NULL({0}))", property(&field.path)),
        Condition::Absent(field) => format!("(NOT IS_DEFINED({0}) OR IS_NULL({0}))", property(&field.path)),
        Condition::And(inner) => join(inner, " AND "),
        Condition::Or(inner) => join(inner, " OR "),
        // A comparison with an undefined property is undefined, and so would be its negation.
        Condition::Not(inner) => format!("NOT (({}) ?? false)", sql(inner)),
    }
}
