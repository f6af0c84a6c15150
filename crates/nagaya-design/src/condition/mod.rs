//! Conditions: `completed = false`, `status in ('open', 'waiting') and exists taskId`.

mod parse;

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use crate::diagnostic::Span;
pub(crate) use parse::parse;

/// A condition on the fields of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `field = 'text'` and the like.
    Compare {
        /// The field.
        field: ConditionField,
        /// The comparison.
        operator: ComparisonOp,
        /// The value to compare with.
        value: ConditionValue,
    },
    /// `field in ('a', 'b')`.
    In {
        /// The field.
        field: ConditionField,
        /// The values.
        values: Vec<ConditionValue>,
    },
    /// `exists field`.
    Exists(ConditionField),
    /// `absent field`.
    Absent(ConditionField),
    /// All are true.
    And(Vec<Condition>),
    /// At least one is true.
    Or(Vec<Condition>),
    /// It is false.
    Not(Box<Condition>),
}

/// A field that a condition reads.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionField {
    /// Its path; dots lead into maps.
    pub path: String,
    pub(crate) range: Span,
}

/// The right side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionValue {
    /// The value.
    pub value: Term,
    pub(crate) range: Span,
}

/// A constant or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// A text, number or boolean.
    Constant(Value),
    /// `{name}`: a parameter of the request.
    Parameter(String),
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonOp {
    /// `=`
    Equal,
    /// `!=`
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

impl ComparisonOp {
    /// Longer ones first, so that `<=` is not parsed as `<`.
    const ALL: [(&'static str, ComparisonOp); 6] = [
        ("<=", ComparisonOp::LessOrEqual),
        (">=", ComparisonOp::GreaterOrEqual),
        ("!=", ComparisonOp::NotEqual),
        ("=", ComparisonOp::Equal),
        ("<", ComparisonOp::Less),
        (">", ComparisonOp::Greater),
    ];

    fn holds(self, order: Ordering) -> bool {
        match self {
            ComparisonOp::Equal => order.is_eq(),
            ComparisonOp::NotEqual => order.is_ne(),
            ComparisonOp::Less => order.is_lt(),
            ComparisonOp::LessOrEqual => order.is_le(),
            ComparisonOp::Greater => order.is_gt(),
            ComparisonOp::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl fmt::Display for ComparisonOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, _) = ComparisonOp::ALL.into_iter().find(|(_, operator)| operator == self).unwrap_or(("=", *self));
        f.write_str(sign)
    }
}

impl Condition {
    /// Whether it is true for an item. A comparison with an absent field or with a parameter is false.
    pub fn is_satisfied_by(&self, item: &Map<String, Value>) -> bool {
        match self {
            Condition::Compare { field, operator, value: ConditionValue { value: Term::Constant(value), .. } } => {
                lookup(item, &field.path)
                    .is_some_and(|found| compare(found, value).is_some_and(|order| operator.holds(order)))
            }
            Condition::Compare { .. } => false,
            Condition::In { field, values } => lookup(item, &field.path).is_some_and(|found| {
                values.iter().any(|each| {
                    matches!(&each.value, Term::Constant(value) if compare(found, value) == Some(Ordering::Equal))
                })
            }),
            Condition::Exists(field) => lookup(item, &field.path).is_some_and(|found| !found.is_null()),
            Condition::Absent(field) => lookup(item, &field.path).is_none_or(Value::is_null),
            Condition::And(all) => all.iter().all(|each| each.is_satisfied_by(item)),
            Condition::Or(any) => any.iter().any(|each| each.is_satisfied_by(item)),
            Condition::Not(inner) => !inner.is_satisfied_by(item),
        }
    }

    /// Whether it can be true only if `path` is present.
    pub(crate) fn requires(&self, path: &str) -> bool {
        match self {
            Condition::Compare { field, .. } | Condition::In { field, .. } | Condition::Exists(field) => {
                field.path == path
            }
            Condition::And(all) => all.iter().any(|each| each.requires(path)),
            Condition::Or(any) => any.iter().all(|each| each.requires(path)),
            Condition::Absent(_) | Condition::Not(_) => false,
        }
    }

    /// Whether it is `exists path`.
    pub(crate) fn is_presence_of(&self, path: &str) -> bool {
        matches!(self, Condition::Exists(field) if field.path == path)
    }

    /// Visits every field with the values it is compared with.
    ///
    /// The third argument says whether the comparison is for equality: the bound of a range need not be a valid value of
    /// the field.
    pub(crate) fn each_field<'c>(&'c self, visit: &mut impl FnMut(&'c ConditionField, &'c [ConditionValue], bool)) {
        match self {
            Condition::Compare { field, operator, value } => {
                visit(
                    field,
                    std::slice::from_ref(value),
                    matches!(operator, ComparisonOp::Equal | ComparisonOp::NotEqual),
                );
            }
            Condition::In { field, values } => visit(field, values, true),
            Condition::Exists(field) | Condition::Absent(field) => visit(field, &[], true),
            Condition::And(inner) | Condition::Or(inner) => inner.iter().for_each(|each| each.each_field(visit)),
            Condition::Not(inner) => inner.each_field(visit),
        }
    }

    /// The fields that must be equal to a parameter: `status = {status}`.
    pub(crate) fn equal_to_parameters(&self) -> Vec<&str> {
        match self {
            Condition::Compare {
                field,
                operator: ComparisonOp::Equal,
                value: ConditionValue { value: Term::Parameter(_), .. },
            } => vec![&field.path],
            Condition::And(all) => all.iter().flat_map(Condition::equal_to_parameters).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it is exactly `path = {parameter}`.
    pub(crate) fn only_compares_with_parameter(&self, path: &str) -> bool {
        matches!(self, Condition::Compare { .. }) && self.equal_to_parameters() == [path]
    }

    /// The fields that it reads.
    pub fn fields(&self) -> Vec<&str> {
        let mut found = Vec::new();
        self.each_field(&mut |field, _, _| found.push(field.path.as_str()));
        found
    }

    /// Its parameters, each with the field that it is compared with.
    pub fn parameters(&self) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        self.each_field(&mut |field, literals, _| {
            for literal in literals {
                if let Term::Parameter(name) = &literal.value {
                    found.push((name.as_str(), field.path.as_str()));
                }
            }
        });
        found
    }
}

fn lookup<'v>(item: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    match path.split_once('.') {
        None => item.get(path),
        Some((first, rest)) => lookup(item.get(first)?.as_object()?, rest),
    }
}

fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
        _ => None,
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, inner: &[Condition], word: &str| {
            for (at, each) in inner.iter().enumerate() {
                if at > 0 {
                    write!(f, " {word} ")?;
                }
                match each {
                    Condition::And(_) | Condition::Or(_) => write!(f, "({each})")?,
                    _ => write!(f, "{each}")?,
                }
            }
            Ok(())
        };
        match self {
            Condition::Compare { field, operator, value } => write!(f, "{} {operator} {}", field.path, value.value),
            Condition::In { field, values } => {
                let values: Vec<_> = values.iter().map(|value| value.value.to_string()).collect();
                write!(f, "{} in ({})", field.path, values.join(", "))
            }
            Condition::Exists(field) => write!(f, "exists {}", field.path),
            Condition::Absent(field) => write!(f, "absent {}", field.path),
            Condition::And(inner) => join(f, inner, "and"),
            Condition::Or(inner) => join(f, inner, "or"),
            Condition::Not(inner) => write!(f, "not ({inner})"),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Constant(Value::String(text)) => write!(f, "'{}'", text.replace('\'', "''")),
            Term::Constant(value) => write!(f, "{value}"),
            Term::Parameter(name) => write!(f, "{{{name}}}"),
        }
    }
}
