//! Conditions on items, with the semantics of DynamoDB.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::{Item, Path, Value};

/// A condition on an item. An item that does not exist has no attributes.
///
/// ```
/// use nagaya_store::{Condition, Item, Operand};
///
/// let item = Item::new().with("status", "open").with("version", 3);
/// assert!(Condition::equal("version", 3).is_satisfied_by(&item));
/// assert!(Condition::absent("deletedAt").and(Condition::equal("status", "open")).is_satisfied_by(&item));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// The path has a value.
    Exists(Path),
    /// The path has no value.
    Absent(Path),
    /// Compares with a value. Values of different kinds are unequal and have no order; an absent value is unequal to
    /// every value.
    Compare(Operand, ComparisonOp, Value),
    /// At least the first value and at most the second.
    Between(Operand, Value, Value),
    /// Equal to one of these values.
    In(Operand, Vec<Value>),
    /// A string or binary value that starts with this.
    BeginsWith(Path, Value),
    /// A string or binary value that contains this, or a set or list with this element.
    Contains(Path, Value),
    /// All hold.
    And(Vec<Condition>),
    /// At least one holds.
    Or(Vec<Condition>),
    /// The condition does not hold.
    Not(Box<Condition>),
}

/// The left side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operand {
    /// The value at a path.
    Value(Path),
    /// The size of the value at a path: UTF-16 units of a string, bytes of a binary, elements of a list, map or set.
    /// Other values count as absent.
    Size(Path),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComparisonOp {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Condition {
    /// The path has a value.
    pub fn exists(path: impl Into<Path>) -> Self {
        Condition::Exists(path.into())
    }

    /// The path has no value.
    pub fn absent(path: impl Into<Path>) -> Self {
        Condition::Absent(path.into())
    }

    /// The value at the path equals this one.
    pub fn equal(path: impl Into<Path>, value: impl Into<Value>) -> Self {
        Condition::Compare(Operand::Value(path.into()), ComparisonOp::Equal, value.into())
    }

    /// Both hold.
    #[must_use]
    pub fn and(self, other: Condition) -> Self {
        match self {
            Condition::And(mut all) => {
                all.push(other);
                Condition::And(all)
            }
            one => Condition::And(vec![one, other]),
        }
    }

    /// One of the two holds.
    #[must_use]
    pub fn or(self, other: Condition) -> Self {
        match self {
            Condition::Or(mut any) => {
                any.push(other);
                Condition::Or(any)
            }
            one => Condition::Or(vec![one, other]),
        }
    }

    /// Whether it holds for an item.
    pub fn is_satisfied_by(&self, item: &Item) -> bool {
        match self {
            Condition::Exists(path) => item.value_at(path).is_some(),
            Condition::Absent(path) => item.value_at(path).is_none(),
            Condition::Compare(operand, comparison, value) => compare(item, operand, *comparison, value),
            Condition::Between(operand, least, most) => {
                compare(item, operand, ComparisonOp::GreaterOrEqual, least)
                    && compare(item, operand, ComparisonOp::LessOrEqual, most)
            }
            Condition::In(operand, values) => {
                values.iter().any(|value| compare(item, operand, ComparisonOp::Equal, value))
            }
            Condition::BeginsWith(path, start) => match (item.value_at(path), start) {
                (Some(Value::String(text)), Value::String(start)) => text.starts_with(start.as_str()),
                (Some(Value::Binary(bytes)), Value::Binary(start)) => bytes.starts_with(start),
                _ => false,
            },
            Condition::Contains(path, part) => item.value_at(path).is_some_and(|value| contains(value, part)),
            Condition::And(all) => all.iter().all(|each| each.is_satisfied_by(item)),
            Condition::Or(any) => any.iter().any(|each| each.is_satisfied_by(item)),
            Condition::Not(inner) => !inner.is_satisfied_by(item),
        }
    }
}

fn compare(item: &Item, operand: &Operand, comparison: ComparisonOp, value: &Value) -> bool {
    let length;
    let found = match operand {
        Operand::Value(path) => item.value_at(path),
        Operand::Size(path) => {
            length = item.value_at(path).and_then(Value::length).map(|length| Value::from(length as i64));
            length.as_ref()
        }
    };
    let Some(found) = found else { return comparison == ComparisonOp::NotEqual };
    match comparison {
        ComparisonOp::Equal => found == value,
        ComparisonOp::NotEqual => found != value,
        _ => order(found, value).is_some_and(|order| match comparison {
            ComparisonOp::Less => order.is_lt(),
            ComparisonOp::LessOrEqual => order.is_le(),
            ComparisonOp::Greater => order.is_gt(),
            _ => order.is_ge(),
        }),
    }
}

/// The order of two values of one kind: numbers by value, strings and binaries by bytes; `None` for all others.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => Some(left.cmp(right)),
        (Value::String(left), Value::String(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
        (Value::Binary(left), Value::Binary(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Binary(bytes), Value::Binary(part)) => {
            part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
        }
        (Value::StringSet(all), Value::String(one)) => all.contains(one.as_str()),
        (Value::NumberSet(all), Value::Number(one)) => all.contains(one),
        (Value::BinarySet(all), Value::Binary(one)) => all.contains(one),
        (Value::List(all), one) => all.contains(one),
        _ => false,
    }
}
