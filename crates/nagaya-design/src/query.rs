//! What an access pattern becomes: one query on one partition.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::{
    condition::{Condition, Literal, Operator, Term},
    design::{Access, Bound, Design, KeyTemplates, Returns},
    field::{Field, Type},
    form::Precision,
    template::{Fields, Scalar, Slot, Template, Unfit},
};

/// A query, with its keys filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Name of the table in the design.
    pub table: String,
    /// The index, if not the table's key.
    pub index: Option<String>,
    /// The partition attribute.
    pub partition_attribute: String,
    /// Its value.
    pub partition: String,
    /// The sort attribute.
    pub sort_attribute: String,
    /// What the sort key has to be.
    pub sort: Sort,
    /// Whether it runs from the end.
    pub descending: bool,
    /// The discriminator that tells the entity's items from others in the partition.
    pub discriminator: Option<(String, String)>,
    /// The condition on what is returned.
    pub filter: Option<Condition>,
    /// The fields to return; empty: all.
    pub projection: Vec<String>,
    /// Page size.
    pub limit: u32,
    /// What it gives.
    pub returns: Returns,
}

/// A condition on the sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sort {
    /// None.
    Any,
    /// It is this.
    Equal(String),
    /// It begins so.
    BeginsWith(String),
    /// It is between these two, both included.
    Between(String, String),
    /// It is this or comes after.
    AtLeast(String),
    /// It comes before this.
    Below(String),
}

/// A parameter of an access pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The field that it is a value of.
    pub field: String,
    /// Whether the query cannot be asked without it.
    pub required: bool,
    /// Whether it comes from the token and never from the request.
    pub from_token: bool,
}

/// Sorts after everything that an ordered value can start with: digits, capitals and the letters of prefixes.
const AFTER_ALL: char = '~';

impl Design {
    /// The parameters of an access pattern.
    pub fn parameters(&self, access: &Access) -> Vec<Parameter> {
        let entity = &self.entities[access.entity];
        let (_, key) = self.source_of(access);
        let mut found: Vec<Parameter> = Vec::new();
        let mut add = |name: &str, field: &str, required: bool, from_token: bool| {
            if found.iter().all(|parameter| parameter.name != name) {
                found.push(Parameter { name: name.to_owned(), field: field.to_owned(), required, from_token });
            }
        };
        let bound = key.partition.fields().chain(key.sort.fields().take(access.fixed));
        for path in bound {
            add(path, path, true, entity.implied_tenant(self.wall_of(access)) == Some(path));
        }
        match &access.bound {
            Bound::Range(field) => {
                add("from", field, false, false);
                add("to", field, false, false);
            }
            Bound::Prefix(field) => add(field, field, true, false),
            Bound::Open | Bound::Full => {}
        }
        for (name, field) in access.filter.iter().flat_map(|filter| filter.parameters()) {
            add(name, field, true, false);
        }
        found
    }

    /// The query that an access pattern becomes with these parameters.
    ///
    /// Parameters are looked up by name: the fields that the pattern is asked by, `from`, `to`, and those of the
    /// filter.
    pub fn query(&self, access: &Access, parameters: &(impl Fields + ?Sized)) -> Result<Query, Unfit> {
        let fill = |slot: &Slot, name: &str, out: &mut String| match parameters.scalar(name) {
            Some(Scalar::Text(text)) if access.bound == Bound::Prefix(name.to_owned()) => {
                slot.render_beginning(text, out);
                Ok(true)
            }
            Some(value) => {
                let bounds = matches!(name, "from" | "to") && slot.path != name;
                if bounds && matches!(value, Scalar::Text(text) if !slot.form.accepts(text)) {
                    return Err(Unfit { field: name.to_owned(), reason: "is not a value of its field's type" });
                }
                slot.render(value, out).map(|()| true)
            }
            None => Ok(false),
        };
        let entity = &self.entities[access.entity];
        let value = |name: &str, path: &str| {
            let unfit = |reason| Unfit { field: name.to_owned(), reason };
            let given = parameters.scalar(name).ok_or_else(|| unfit("is missing"))?;
            typed(given, entity.field(path)).ok_or_else(|| unfit("is not a value of its field's type"))
        };
        let mut query = self.query_with(access, &fill, true)?;
        if let Some(filter) = &mut query.filter {
            fill_parameters(filter, &value)?;
        }
        Ok(query)
    }

    /// The query for people: what is `known` filled in, `<name>` in the place of every other parameter.
    pub fn query_outline(&self, access: &Access, known: &(impl Fields + ?Sized)) -> Query {
        let fill = |slot: &Slot, name: &str, out: &mut String| {
            let start = out.len();
            let rendered = known.scalar(name).is_some_and(|value| slot.render(value, out).is_ok());
            if !rendered {
                out.truncate(start);
                out.push('<');
                out.push_str(name);
                out.push('>');
            }
            Ok(true)
        };
        // Every parameter is filled with something, so nothing can be missing.
        self.query_with(access, &fill, false).unwrap_or_else(|unfit| unreachable!("{unfit}"))
    }

    fn query_with(&self, access: &Access, fill: Fill<'_>, exact: bool) -> Result<Query, Unfit> {
        let entity = &self.entities[access.entity];
        let table = self.table_of(entity);
        let (attributes, key) = self.source_of(access);
        let mut partition = String::new();
        leading(&key.partition, usize::MAX, fill, &mut partition)?;
        Ok(Query {
            table: table.id.clone(),
            index: access.mapping.map(|at| entity.indexes[at].name.clone()),
            partition_attribute: attributes.partition.clone(),
            partition,
            sort_attribute: attributes.sort.clone(),
            sort: sort(access, key, fill, exact)?,
            descending: access.descending,
            discriminator: table.discriminator.clone().zip(entity.discriminator.clone()),
            filter: access.filter.clone(),
            projection: access.projection.clone(),
            limit: access.limit,
            returns: access.returns,
        })
    }
}

/// Writes the parameter with this name as the value of a slot; `false` when it is not given.
type Fill<'f> = &'f dyn Fn(&Slot, &str, &mut String) -> Result<bool, Unfit>;

/// Writes the beginning of a template, up to the field after the first `bound` ones.
fn leading(template: &Template, bound: usize, fill: Fill<'_>, out: &mut String) -> Result<(), Unfit> {
    template.leading(bound, out, &mut |slot, out| match fill(slot, &slot.path, out)? {
        true => Ok(()),
        false => Err(Unfit { field: slot.path.clone(), reason: "is missing" }),
    })
}

fn sort(access: &Access, key: &KeyTemplates, fill: Fill<'_>, exact: bool) -> Result<Sort, Unfit> {
    let mut prefix = String::new();
    leading(&key.sort, access.fixed, fill, &mut prefix)?;
    let with = |name: &str| -> Result<Option<String>, Unfit> {
        let mut text = prefix.clone();
        let slot = key.sort.slots().nth(access.fixed);
        Ok(match slot {
            Some(slot) => fill(slot, name, &mut text)?.then_some(text),
            None => None,
        })
    };
    Ok(match &access.bound {
        Bound::Full => Sort::Equal(prefix),
        Bound::Open if prefix.is_empty() => Sort::Any,
        Bound::Open => Sort::BeginsWith(prefix),
        Bound::Prefix(field) => {
            Sort::BeginsWith(with(field)?.ok_or_else(|| Unfit { field: field.clone(), reason: "is missing" })?)
        }
        Bound::Range(_) => {
            let last = key.sort.slots().count() == access.fixed + 1 && key.sort.ends_with_slot();
            let (from, to) = (with("from")?, with("to")?);
            match (&from, &to) {
                (Some(from), Some(to)) if exact && from >= to => {
                    return Err(Unfit { field: "to".to_owned(), reason: "is not after `from`" });
                }
                (None, Some(to)) if prefix.is_empty() => return Ok(Sort::Below(to.clone())),
                _ => {}
            }
            // A key that goes on after the bound lies beyond it anyway; one that ends with it needs the value before.
            let upper = match to {
                Some(to) if last && exact => Some(before(key, access.fixed, &prefix, &to)?),
                to => to,
            };
            match (from, upper) {
                (Some(from), Some(to)) => Sort::Between(from, to),
                (Some(from), None) if prefix.is_empty() => Sort::AtLeast(from),
                (Some(from), None) => Sort::Between(from, format!("{prefix}{AFTER_ALL}")),
                (None, Some(to)) => Sort::Between(prefix, to),
                (None, None) if prefix.is_empty() => Sort::Any,
                (None, None) => Sort::BeginsWith(prefix),
            }
        }
    })
}

/// The greatest sort key below `to`, whose last field is at position `fixed`.
fn before(key: &KeyTemplates, fixed: usize, prefix: &str, to: &str) -> Result<String, Unfit> {
    let unfit = || Unfit { field: "to".to_owned(), reason: "is the least value, and nothing comes before it" };
    let slot = key.sort.slots().nth(fixed).ok_or_else(unfit)?;
    let value = slot.form.before(&to[prefix.len()..]).ok_or_else(unfit)?;
    let mut upper = prefix.to_owned();
    slot.render(Scalar::Text(&value), &mut upper).map_err(|_| unfit())?;
    Ok(upper)
}

/// A parameter as a value of its field: requests carry numbers and truth values as text.
fn typed(given: Scalar<'_>, field: Option<&Field>) -> Option<Value> {
    let Scalar::Text(text) = given else {
        return Some(match given {
            Scalar::Integer(number) => number.into(),
            Scalar::Boolean(flag) => flag.into(),
            Scalar::Text(text) => text.into(),
        });
    };
    match field.map(|field| &field.kind) {
        Some(Type::Integer | Type::Timestamp(Precision::Epoch)) => text.parse::<i64>().ok().map(Value::from),
        Some(Type::Number) => text.parse::<serde_json::Number>().ok().map(Value::from),
        Some(Type::Boolean) => text.parse::<bool>().ok().map(Value::from),
        _ => Some(text.into()),
    }
}

/// Gives the value of a parameter that is compared with a field.
type ParameterValue<'f> = &'f dyn Fn(&str, &str) -> Result<Value, Unfit>;

fn fill_parameters(condition: &mut Condition, value: ParameterValue<'_>) -> Result<(), Unfit> {
    let fill = |literal: &mut Literal, path: &str| {
        if let Term::Parameter(name) = &literal.value {
            literal.value = Term::Constant(value(name, path)?);
        }
        Ok(())
    };
    match condition {
        Condition::Compare { field, value, .. } => fill(value, &field.path),
        Condition::In { field, values } => values.iter_mut().try_for_each(|literal| fill(literal, &field.path)),
        Condition::Exists(_) | Condition::Absent(_) => Ok(()),
        Condition::And(inner) | Condition::Or(inner) => {
            inner.iter_mut().try_for_each(|each| fill_parameters(each, value))
        }
        Condition::Not(inner) => fill_parameters(inner, value),
    }
}

impl fmt::Display for Query {
    /// The conditions, the way key designs write them: `PK = TENANT#t1 AND begins_with(SK, 'USER#')`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.partition_attribute, self.partition)?;
        let attribute = &self.sort_attribute;
        match &self.sort {
            Sort::Any => {}
            Sort::Equal(key) => write!(f, " AND {attribute} = {key}")?,
            Sort::BeginsWith(key) => write!(f, " AND begins_with({attribute}, '{key}')")?,
            Sort::Between(from, to) => write!(f, " AND {attribute} BETWEEN {from} AND {to}")?,
            Sort::AtLeast(from) => write!(f, " AND {attribute} >= {from}")?,
            Sort::Below(to) => write!(f, " AND {attribute} < {to}")?,
        }
        Ok(())
    }
}

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
        let sort = format!("c.{}", self.sort_attribute);
        let mut conditions = vec![format!("c.{} = {}", self.partition_attribute, quoted(&self.partition))];
        match &self.sort {
            Sort::Any => {}
            Sort::Equal(key) => conditions.push(format!("{sort} = {}", quoted(key))),
            Sort::BeginsWith(key) => conditions.push(format!("STARTSWITH({sort}, {})", quoted(key))),
            Sort::Between(from, to) => {
                conditions.push(format!("{sort} >= {} AND {sort} <= {}", quoted(from), quoted(to)));
            }
            Sort::AtLeast(from) => conditions.push(format!("{sort} >= {}", quoted(from))),
            Sort::Below(to) => conditions.push(format!("{sort} < {}", quoted(to))),
        }
        if let Some((name, value)) = self.discriminator_filter() {
            conditions.push(format!("c.{name} = {}", quoted(value)));
        }
        conditions.extend(self.filter.as_ref().map(sql));
        let selected: Vec<_> = self.projection.iter().map(|field| format!("c.{field}")).collect();
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
                format!("(attribute_exists({name}) AND {name} <> {})", self.term(&value.value))
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
        Condition::Compare { field, operator, value } => format!("c.{} {operator} {}", field.path, term(value)),
        Condition::In { field, values } => {
            let values: Vec<_> = values.iter().map(term).collect();
            format!("c.{} IN ({})", field.path, values.join(", "))
        }
        // A null counts as absent.
        Condition::Exists(field) => format!("(IS_DEFINED(c.{0}) AND NOT IS_NULL(c.{0}))", field.path),
        Condition::Absent(field) => format!("(NOT IS_DEFINED(c.{0}) OR IS_NULL(c.{0}))", field.path),
        Condition::And(inner) => join(inner, " AND "),
        Condition::Or(inner) => join(inner, " OR "),
        // A comparison with an undefined property is undefined, and so would be its negation.
        Condition::Not(inner) => format!("NOT (({}) ?? false)", sql(inner)),
    }
}
