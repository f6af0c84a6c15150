//! The query of an access pattern: one query on one partition.

use std::{borrow::Cow, fmt};

use serde_json::Value;

use crate::{
    condition::{ComparisonOp, Condition, ConditionValue, Term},
    design::{AccessPattern, Design, Entity, KeyTemplates, ResultKind, SortBound},
    field::{Field, FieldType},
    template::{FieldValues, KeyFieldError, Scalar, Slot, Template},
    text_syntax::TimestampPrecision,
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
    pub sort: SortCondition,
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
    pub returns: ResultKind,
}

/// A condition on the sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortCondition {
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
pub struct AccessParameter {
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
    pub fn parameters(&self, access: &AccessPattern) -> Vec<AccessParameter> {
        let entity = &self.entities[access.entity];
        let (_, key) = self.key_of_access(access);
        let mut found: Vec<AccessParameter> = Vec::new();
        let mut add = |name: &str, field: &str, required: bool, from_token: bool| {
            if found.iter().all(|parameter| parameter.name != name) {
                found.push(AccessParameter { name: name.to_owned(), field: field.to_owned(), required, from_token });
            }
        };
        let bound = key.partition.fields().chain(key.sort.fields().take(access.fixed));
        for path in bound {
            add(path, path, true, entity.implied_tenant(self.wall_of(access)) == Some(path));
        }
        match &access.bound {
            SortBound::Range(field) => {
                add("from", field, false, false);
                add("to", field, false, false);
            }
            SortBound::Prefix(field) => add(field, field, true, false),
            SortBound::Open | SortBound::Full => {}
        }
        for (name, field) in access.filter.iter().flat_map(|filter| filter.parameters()) {
            add(name, field, true, false);
        }
        found
    }

    /// The head of the aggregate whose events an access pattern lists by its id; `None` if it lists something else. The fields of
    /// the head's id are parameters of the access pattern.
    pub fn head_of_listed_events(&self, access: &AccessPattern) -> Option<&Entity> {
        let aggregate = self.aggregates.iter().find(|aggregate| aggregate.events == access.entity)?;
        let (head, parameters) = (&self.entities[aggregate.head], self.parameters(access));
        let is_given = |field: &&str| {
            parameters.iter().any(|parameter| parameter.name == **field && parameter.required && !parameter.from_token)
        };
        let id = head.id_fields();
        (access.mapping.is_none() && !id.is_empty() && id.iter().all(is_given)).then_some(head)
    }

    /// The query of an access pattern with these parameters.
    ///
    /// Parameters are looked up by name: the fields of `by`, `from`, `to`, and those of the filter.
    pub fn query(
        &self,
        access: &AccessPattern,
        parameters: &(impl FieldValues + ?Sized),
    ) -> Result<Query, KeyFieldError> {
        // The tenant comes from a verified token and is not checked: a tenant that the field does not accept has no items.
        let entity = &self.entities[access.entity];
        let tenant = entity.implied_tenant(self.wall_of(access));
        let fill = |slot: &Slot, name: &str, out: &mut String| match parameters.scalar(name) {
            Some(Scalar::Text(text)) if access.bound == SortBound::Prefix(name.to_owned()) => {
                slot.render_prefix(text, out);
                Ok(true)
            }
            Some(value) => {
                let bounds = matches!(name, "from" | "to") && slot.path != name;
                // A bound may exceed the limits of the field: `to` does so to mean "all".
                let judged = if bounds { !slot.is_number() } else { tenant != Some(name) };
                if judged && matches!(value, Scalar::Text(text) if !slot.text_syntax.accepts(text)) {
                    return Err(KeyFieldError { field: name.to_owned(), reason: mismatch(entity.field(&slot.path)) });
                }
                slot.render(value, out).map(|()| true)
            }
            None => Ok(false),
        };
        let value = |name: &str, path: &str, asked: ParameterUse| {
            let unfit = |reason| KeyFieldError { field: name.to_owned(), reason };
            let given = parameters.scalar(name).ok_or_else(|| unfit("is missing".into()))?;
            let field = entity.field(path);
            let value = parameter_value(given, field).ok_or_else(|| unfit(mismatch(field)))?;
            let fits = asked == ParameterUse::Bound || field.is_none_or(|field| field.accepts(&value));
            if fits { Ok(value) } else { Err(unfit(mismatch(field))) }
        };
        let number = |name: &str| match parameters.scalar(name)? {
            Scalar::Integer(number) => Some(number),
            Scalar::Text(text) => text.parse().ok(),
            Scalar::Boolean(_) => None,
        };
        let mut query =
            self.query_with(access, &ParameterWriters { fill: &fill, number: &number, has_values: true })?;
        if let Some(filter) = &mut query.filter {
            fill_parameters(filter, &value)?;
        }
        Ok(query)
    }

    /// The query for display: `known` values filled in, `<name>` for every other parameter.
    pub fn query_outline(&self, access: &AccessPattern, known: &(impl FieldValues + ?Sized)) -> Query {
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
        let value = |name: &str, path: &str, _: ParameterUse| {
            let field = self.entities[access.entity].field(path);
            let given = known.scalar(name).and_then(|given| parameter_value(given, field));
            Ok(given.unwrap_or_else(|| format!("<{name}>").into()))
        };
        // Every parameter is filled with something, so nothing can be missing.
        let query = self.query_with(access, &ParameterWriters { fill: &fill, number: &|_| None, has_values: false });
        let mut query = query.unwrap_or_else(|unfit| unreachable!("{unfit}"));
        if let Some(filter) = &mut query.filter {
            fill_parameters(filter, &value).unwrap_or_else(|unfit| unreachable!("{unfit}"));
        }
        query
    }

    fn query_with(&self, access: &AccessPattern, given: &ParameterWriters<'_>) -> Result<Query, KeyFieldError> {
        let entity = &self.entities[access.entity];
        let table = self.table_of(entity);
        let (attributes, key) = self.key_of_access(access);
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
struct ParameterWriters<'f> {
    fill: Fill<'f>,
    /// The whole number that a parameter is.
    number: &'f dyn Fn(&str) -> Option<i64>,
    /// Whether these are values, and not names in their place.
    has_values: bool,
}

/// Writes the parameter with this name as the value of a slot; `false` when it is not given.
type Fill<'f> = &'f dyn Fn(&Slot, &str, &mut String) -> Result<bool, KeyFieldError>;

/// Writes a template up to the field after the first `bound` ones.
/// Why a parameter does not fit its field.
fn mismatch(field: Option<&Field>) -> Cow<'static, str> {
    match field {
        Some(field) => format!("is not {}", field.expectation()).into(),
        None => "is not a value of its field's type".into(),
    }
}

fn leading(template: &Template, bound: usize, fill: Fill<'_>, out: &mut String) -> Result<(), KeyFieldError> {
    template.render_leading(bound, out, &mut |slot, out| match fill(slot, &slot.path, out)? {
        true => Ok(()),
        false => Err(KeyFieldError { field: slot.path.clone(), reason: "is missing".into() }),
    })
}

fn sort(
    access: &AccessPattern,
    key: &KeyTemplates,
    given: &ParameterWriters<'_>,
) -> Result<SortCondition, KeyFieldError> {
    let mut prefix = String::new();
    leading(&key.sort, access.fixed, given.fill, &mut prefix)?;
    Ok(match &access.bound {
        SortBound::Full => SortCondition::Equal(prefix),
        SortBound::Open if prefix.is_empty() => SortCondition::Any,
        SortBound::Open => SortCondition::BeginsWith(prefix),
        SortBound::Prefix(field) => {
            let beginning = limit(access, key, given, &prefix, field)?;
            SortCondition::BeginsWith(
                beginning.ok_or_else(|| KeyFieldError { field: field.clone(), reason: "is missing".into() })?,
            )
        }
        SortBound::Range(_) => range(access, key, given, prefix)?,
    })
}

/// The sort key that consists of `prefix` and the parameter with this name.
fn limit(
    access: &AccessPattern,
    key: &KeyTemplates,
    given: &ParameterWriters<'_>,
    prefix: &str,
    name: &str,
) -> Result<Option<String>, KeyFieldError> {
    let Some(slot) = key.sort.slots().nth(access.fixed) else { return Ok(None) };
    let mut text = prefix.to_owned();
    Ok((given.fill)(slot, name, &mut text)?.then_some(text))
}

/// The condition of a range: `from` is inclusive, `to` is exclusive.
fn range(
    access: &AccessPattern,
    key: &KeyTemplates,
    given: &ParameterWriters<'_>,
    prefix: String,
) -> Result<SortCondition, KeyFieldError> {
    let reversed = Err(KeyFieldError { field: "to".to_owned(), reason: "is not after `from`".into() });
    let (from, to) = ((given.number)("from"), (given.number)("to"));
    let bounds = key.sort.slots().nth(access.fixed).and_then(Slot::number_bounds);
    // A bound outside of the field's limits excludes nothing, and its text would not have the right length.
    let (mut from_counts, mut to_counts) = (true, true);
    if let Some((least, most)) = bounds {
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return reversed;
        }
        if from.is_some_and(|from| from > most) || to.is_some_and(|to| to <= least) {
            return Ok(SortCondition::Nothing);
        }
        from_counts = from.is_none_or(|from| from > least);
        to_counts = to.is_none_or(|to| to <= most);
    }
    let asked = |name, counts: bool| if counts { limit(access, key, given, &prefix, name) } else { Ok(None) };
    let (from, to) = (asked("from", from_counts)?, asked("to", to_counts)?);
    if given.has_values && from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from >= to) {
        return reversed;
    }
    let last = key.sort.slots().count() == access.fixed + 1 && key.sort.ends_with_slot();
    let to = match to {
        Some(to) if from.is_none() && prefix.is_empty() => return Ok(SortCondition::Below(to)),
        // A longer key sorts after the bound and is excluded anyway. A key that ends here needs the value before the bound.
        Some(to) if last && given.has_values => match before(key, access.fixed, &prefix, &to) {
            Some(upper) => Some(upper),
            None => return Ok(SortCondition::Nothing),
        },
        to => to,
    };
    Ok(match (from, to) {
        (Some(from), Some(to)) => SortCondition::Between(from, to),
        (Some(from), None) if prefix.is_empty() => SortCondition::AtLeast(from),
        (Some(from), None) => SortCondition::Between(from, format!("{prefix}{AFTER_ALL}")),
        (None, Some(to)) => SortCondition::Between(prefix, to),
        (None, None) if prefix.is_empty() => SortCondition::Any,
        (None, None) => SortCondition::BeginsWith(prefix),
    })
}

/// The greatest sort key below `to`, whose last field is at position `fixed`.
fn before(key: &KeyTemplates, fixed: usize, prefix: &str, to: &str) -> Option<String> {
    let slot = key.sort.slots().nth(fixed)?;
    let value = slot.text_syntax.predecessor(&to[prefix.len()..])?;
    let mut upper = prefix.to_owned();
    slot.render(Scalar::Text(&value), &mut upper).ok()?;
    Some(upper)
}

/// A parameter as a value of its field: requests carry numbers and booleans as text.
fn parameter_value(given: Scalar<'_>, field: Option<&Field>) -> Option<Value> {
    let text = match given {
        Scalar::Integer(number) => return Some(number.into()),
        Scalar::Boolean(flag) => return Some(flag.into()),
        Scalar::Text(text) => text,
    };
    match field.map(|field| &field.field_type) {
        Some(FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch)) => {
            text.parse::<i64>().ok().map(Value::from)
        }
        Some(FieldType::Number) => text.parse::<serde_json::Number>().ok().map(Value::from),
        Some(FieldType::Boolean) => text.parse::<bool>().ok().map(Value::from),
        _ => Some(text.into()),
    }
}

/// Gives the value of a parameter that is compared with a field.
type ParameterValue<'f> = &'f dyn Fn(&str, &str, ParameterUse) -> Result<Value, KeyFieldError>;

/// Whether a parameter stands for a value of a field, or only bounds its values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParameterUse {
    Value,
    Bound,
}

fn fill_parameters(condition: &mut Condition, value: ParameterValue<'_>) -> Result<(), KeyFieldError> {
    let fill = |literal: &mut ConditionValue, path: &str, asked: ParameterUse| {
        if let Term::Parameter(name) = &literal.value {
            literal.value = Term::Constant(value(name, path, asked)?);
        }
        Ok(())
    };
    match condition {
        Condition::Compare { field, operator, value } => {
            let exact = matches!(operator, ComparisonOp::Equal | ComparisonOp::NotEqual);
            fill(value, &field.path, if exact { ParameterUse::Value } else { ParameterUse::Bound })
        }
        Condition::In { field, values } => {
            values.iter_mut().try_for_each(|literal| fill(literal, &field.path, ParameterUse::Value))
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
            SortCondition::Any => {}
            SortCondition::Equal(key) => write!(f, " AND {attribute} = {key}")?,
            SortCondition::BeginsWith(key) => write!(f, " AND begins_with({attribute}, '{key}')")?,
            SortCondition::Between(from, to) => write!(f, " AND {attribute} BETWEEN {from} AND {to}")?,
            SortCondition::AtLeast(from) => write!(f, " AND {attribute} >= {from}")?,
            SortCondition::Below(to) => write!(f, " AND {attribute} < {to}")?,
            SortCondition::Nothing => write!(f, " AND false")?,
        }
        Ok(())
    }
}
