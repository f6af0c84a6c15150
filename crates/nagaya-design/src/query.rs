//! The query of an access pattern: one query on one partition.

use std::fmt;

use serde_json::Value;

use crate::{
    condition::{Condition, Literal, Operator, Term},
    design::{Access, Bound, Design, KeyTemplates, Returns},
    field::{Field, Type},
    template::{Fields, Scalar, Slot, Template, Unfit},
    text_syntax::Precision,
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
    /// The condition on the sort key.
    pub sort: Sort,
    /// Whether the order is descending.
    pub descending: bool,
    /// The discriminator of the entity.
    pub discriminator: Option<(String, String)>,
    /// The condition on what is returned.
    pub filter: Option<Condition>,
    /// The fields to return; empty: all.
    pub projection: Vec<String>,
    /// Page size.
    pub limit: u32,
    /// What it returns.
    pub returns: Returns,
}

/// A condition on the sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sort {
    /// None.
    Any,
    /// Equal to this.
    Equal(String),
    /// Starts with this.
    BeginsWith(String),
    /// Between these two, inclusive.
    Between(String, String),
    /// This or greater.
    AtLeast(String),
    /// Less than this.
    Below(String),
    /// No key can be in the range; the query returns nothing.
    Nothing,
}

/// A parameter of an access pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The field whose value it is.
    pub field: String,
    /// Whether it has to be given.
    pub required: bool,
    /// Whether it comes from the token, not from the request.
    pub from_token: bool,
}

/// Sorts after the first character of every ordered value: digits, capitals and the letters of prefixes.
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

    /// The query of an access pattern with these parameters.
    ///
    /// Parameters are looked up by name: the fields of `by`, `from`, `to`, and those of the filter.
    pub fn query(&self, access: &Access, parameters: &(impl Fields + ?Sized)) -> Result<Query, Unfit> {
        // The tenant comes from a verified token and is not checked: a tenant that the field does not accept has no items.
        let tenant = self.entities[access.entity].implied_tenant(self.wall_of(access));
        let fill = |slot: &Slot, name: &str, out: &mut String| match parameters.scalar(name) {
            Some(Scalar::Text(text)) if access.bound == Bound::Prefix(name.to_owned()) => {
                slot.render_prefix(text, out);
                Ok(true)
            }
            Some(value) => {
                let bounds = matches!(name, "from" | "to") && slot.path != name;
                // A bound may exceed the limits of the field: `to` does so to mean "all".
                let judged = if bounds { !slot.is_number() } else { tenant != Some(name) };
                if judged && matches!(value, Scalar::Text(text) if !slot.form.accepts(text)) {
                    return Err(Unfit { field: name.to_owned(), reason: "is not a value of its field's type" });
                }
                slot.render(value, out).map(|()| true)
            }
            None => Ok(false),
        };
        let entity = &self.entities[access.entity];
        let value = |name: &str, path: &str, asked: Asked| {
            let unfit = |reason| Unfit { field: name.to_owned(), reason };
            let given = parameters.scalar(name).ok_or_else(|| unfit("is missing"))?;
            let field = entity.field(path);
            let value = typed(given, field).ok_or_else(|| unfit("is not a value of its field's type"))?;
            let mut problems = Vec::new();
            if let Some(field) = field.filter(|_| asked == Asked::Value) {
                field.check(&value, path, &mut problems);
            }
            if problems.is_empty() { Ok(value) } else { Err(unfit("is not a value of its field's type")) }
        };
        let number = |name: &str| match parameters.scalar(name)? {
            Scalar::Integer(number) => Some(number),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Boolean(_) => None,
        };
        let mut query = self.query_with(access, &Given { fill: &fill, number: &number, exact: true })?;
        if let Some(filter) = &mut query.filter {
            fill_parameters(filter, &value)?;
        }
        Ok(query)
    }

    /// The query for display: `known` values filled in, `<name>` for every other parameter.
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
        let value = |name: &str, path: &str, _: Asked| {
            let field = self.entities[access.entity].field(path);
            let given = known.scalar(name).and_then(|given| typed(given, field));
            Ok(given.unwrap_or_else(|| format!("<{name}>").into()))
        };
        // Every parameter is filled with something, so nothing can be missing.
        let query = self.query_with(access, &Given { fill: &fill, number: &|_| None, exact: false });
        let mut query = query.unwrap_or_else(|unfit| unreachable!("{unfit}"));
        if let Some(filter) = &mut query.filter {
            fill_parameters(filter, &value).unwrap_or_else(|unfit| unreachable!("{unfit}"));
        }
        query
    }

    fn query_with(&self, access: &Access, given: &Given<'_>) -> Result<Query, Unfit> {
        let entity = &self.entities[access.entity];
        let table = self.table_of(entity);
        let (attributes, key) = self.source_of(access);
        let mut partition = String::new();
        leading(&key.partition, usize::MAX, given.fill, &mut partition)?;
        Ok(Query {
            table: table.id.clone(),
            index: access.mapping.map(|at| entity.indexes[at].name.clone()),
            partition_attribute: attributes.partition.clone(),
            partition,
            sort_attribute: attributes.sort.clone(),
            sort: sort(access, key, given)?,
            descending: access.descending,
            discriminator: table.discriminator.clone().zip(entity.discriminator.clone()),
            filter: access.filter.clone(),
            projection: access.projection.clone(),
            limit: access.limit,
            returns: access.returns,
        })
    }
}

/// The parameters of a query.
struct Given<'f> {
    fill: Fill<'f>,
    /// The whole number that a parameter is.
    number: &'f dyn Fn(&str) -> Option<i64>,
    /// Whether these are values, and not names in their place.
    exact: bool,
}

/// Writes the parameter with this name as the value of a slot; `false` when it is not given.
type Fill<'f> = &'f dyn Fn(&Slot, &str, &mut String) -> Result<bool, Unfit>;

/// Writes a template up to the field after the first `bound` ones.
fn leading(template: &Template, bound: usize, fill: Fill<'_>, out: &mut String) -> Result<(), Unfit> {
    template.render_leading(bound, out, &mut |slot, out| match fill(slot, &slot.path, out)? {
        true => Ok(()),
        false => Err(Unfit { field: slot.path.clone(), reason: "is missing" }),
    })
}

fn sort(access: &Access, key: &KeyTemplates, given: &Given<'_>) -> Result<Sort, Unfit> {
    let mut prefix = String::new();
    leading(&key.sort, access.fixed, given.fill, &mut prefix)?;
    Ok(match &access.bound {
        Bound::Full => Sort::Equal(prefix),
        Bound::Open if prefix.is_empty() => Sort::Any,
        Bound::Open => Sort::BeginsWith(prefix),
        Bound::Prefix(field) => {
            let beginning = limit(access, key, given, &prefix, field)?;
            Sort::BeginsWith(beginning.ok_or_else(|| Unfit { field: field.clone(), reason: "is missing" })?)
        }
        Bound::Range(_) => range(access, key, given, prefix)?,
    })
}

/// The sort key that consists of `prefix` and the parameter with this name.
fn limit(
    access: &Access,
    key: &KeyTemplates,
    given: &Given<'_>,
    prefix: &str,
    name: &str,
) -> Result<Option<String>, Unfit> {
    let Some(slot) = key.sort.slots().nth(access.fixed) else { return Ok(None) };
    let mut text = prefix.to_owned();
    Ok((given.fill)(slot, name, &mut text)?.then_some(text))
}

/// The condition of a range: `from` is inclusive, `to` is exclusive.
fn range(access: &Access, key: &KeyTemplates, given: &Given<'_>, prefix: String) -> Result<Sort, Unfit> {
    let reversed = Err(Unfit { field: "to".to_owned(), reason: "is not after `from`" });
    let (from, to) = ((given.number)("from"), (given.number)("to"));
    let bounds = key.sort.slots().nth(access.fixed).and_then(Slot::number_bounds);
    // A bound outside of the field's limits excludes nothing, and its text would not have the right length.
    let (mut from_counts, mut to_counts) = (true, true);
    if let Some((least, most)) = bounds {
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return reversed;
        }
        if from.is_some_and(|from| from > most) || to.is_some_and(|to| to <= least) {
            return Ok(Sort::Nothing);
        }
        from_counts = from.is_none_or(|from| from > least);
        to_counts = to.is_none_or(|to| to <= most);
    }
    let asked = |name, counts: bool| if counts { limit(access, key, given, &prefix, name) } else { Ok(None) };
    let (from, to) = (asked("from", from_counts)?, asked("to", to_counts)?);
    if given.exact && from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from >= to) {
        return reversed;
    }
    let last = key.sort.slots().count() == access.fixed + 1 && key.sort.ends_with_slot();
    let to = match to {
        Some(to) if from.is_none() && prefix.is_empty() => return Ok(Sort::Below(to)),
        // A longer key sorts after the bound and is excluded anyway. A key that ends here needs the value before the bound.
        Some(to) if last && given.exact => match before(key, access.fixed, &prefix, &to) {
            Some(upper) => Some(upper),
            None => return Ok(Sort::Nothing),
        },
        to => to,
    };
    Ok(match (from, to) {
        (Some(from), Some(to)) => Sort::Between(from, to),
        (Some(from), None) if prefix.is_empty() => Sort::AtLeast(from),
        (Some(from), None) => Sort::Between(from, format!("{prefix}{AFTER_ALL}")),
        (None, Some(to)) => Sort::Between(prefix, to),
        (None, None) if prefix.is_empty() => Sort::Any,
        (None, None) => Sort::BeginsWith(prefix),
    })
}

/// The greatest sort key below `to`, whose last field is at position `fixed`.
fn before(key: &KeyTemplates, fixed: usize, prefix: &str, to: &str) -> Option<String> {
    let slot = key.sort.slots().nth(fixed)?;
    let value = slot.form.predecessor(&to[prefix.len()..])?;
    let mut upper = prefix.to_owned();
    slot.render(Scalar::Text(&value), &mut upper).ok()?;
    Some(upper)
}

/// A parameter as a value of its field: requests carry numbers and booleans as text.
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
type ParameterValue<'f> = &'f dyn Fn(&str, &str, Asked) -> Result<Value, Unfit>;

/// Whether a parameter stands for a value of a field, or only bounds its values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Value,
    Bound,
}

fn fill_parameters(condition: &mut Condition, value: ParameterValue<'_>) -> Result<(), Unfit> {
    let fill = |literal: &mut Literal, path: &str, asked: Asked| {
        if let Term::Parameter(name) = &literal.value {
            literal.value = Term::Constant(value(name, path, asked)?);
        }
        Ok(())
    };
    match condition {
        Condition::Compare { field, operator, value } => {
            let exact = matches!(operator, Operator::Equal | Operator::NotEqual);
            fill(value, &field.path, if exact { Asked::Value } else { Asked::Bound })
        }
        Condition::In { field, values } => {
            values.iter_mut().try_for_each(|literal| fill(literal, &field.path, Asked::Value))
        }
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
            Sort::Nothing => write!(f, " AND false")?,
        }
        Ok(())
    }
}
