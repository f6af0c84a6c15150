//! Conditions: `completed = false`, `status in ('open', 'waiting') and exists taskId`.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use crate::diagnostic::Span;

/// A condition on the fields of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `field = 'text'` and the like.
    Compare {
        /// The field.
        field: Operand,
        /// The comparison.
        operator: Operator,
        /// What it is compared with.
        value: Literal,
    },
    /// `field in ('a', 'b')`.
    In {
        /// The field.
        field: Operand,
        /// The values.
        values: Vec<Literal>,
    },
    /// `exists field`.
    Exists(Operand),
    /// `absent field`.
    Absent(Operand),
    /// All hold.
    And(Vec<Condition>),
    /// At least one holds.
    Or(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
}

/// A field that a condition reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// Its path; dots lead into maps.
    pub path: String,
    pub(crate) range: Span,
}

/// What a field is compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    /// The value.
    pub value: Term,
    pub(crate) range: Span,
}

/// A constant or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// A text, number or truth value.
    Constant(Value),
    /// `{name}`: given with the request.
    Parameter(String),
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
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

impl Operator {
    /// Longer ones first, so that `<=` is not read as `<`.
    const ALL: [(&'static str, Operator); 6] = [
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("!=", Operator::NotEqual),
        ("=", Operator::Equal),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];

    fn holds(self, order: Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, _) = Operator::ALL.into_iter().find(|(_, operator)| operator == self).unwrap_or(("=", *self));
        f.write_str(sign)
    }
}

impl Condition {
    /// Whether it holds for an item. A comparison with an absent field does not hold; a parameter counts as absent.
    pub fn holds(&self, item: &Map<String, Value>) -> bool {
        match self {
            Condition::Compare { field, operator, value: Literal { value: Term::Constant(value), .. } } => {
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
            Condition::And(all) => all.iter().all(|each| each.holds(item)),
            Condition::Or(any) => any.iter().any(|each| each.holds(item)),
            Condition::Not(inner) => !inner.holds(item),
        }
    }

    /// Whether it can only hold where `path` is present.
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

    /// Whether it holds just where `path` is present.
    pub(crate) fn is_presence_of(&self, path: &str) -> bool {
        matches!(self, Condition::Exists(field) if field.path == path)
    }

    /// Every field it reads, with the values it is compared with.
    pub(crate) fn each_field<'c>(&'c self, visit: &mut impl FnMut(&'c Operand, &'c [Literal])) {
        match self {
            Condition::Compare { field, value, .. } => visit(field, std::slice::from_ref(value)),
            Condition::In { field, values } => visit(field, values),
            Condition::Exists(field) | Condition::Absent(field) => visit(field, &[]),
            Condition::And(inner) | Condition::Or(inner) => inner.iter().for_each(|each| each.each_field(visit)),
            Condition::Not(inner) => inner.each_field(visit),
        }
    }

    /// The fields that it pins to a parameter: `status = {status}`.
    pub(crate) fn pinned(&self) -> Vec<&str> {
        match self {
            Condition::Compare {
                field,
                operator: Operator::Equal,
                value: Literal { value: Term::Parameter(_), .. },
            } => vec![&field.path],
            Condition::And(all) => all.iter().flat_map(Condition::pinned).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it does nothing but pin this field to a parameter.
    pub(crate) fn is_pin_of(&self, path: &str) -> bool {
        matches!(self, Condition::Compare { .. }) && self.pinned() == [path]
    }

    /// The parameters that it needs, each with the field that it is compared with.
    pub fn parameters(&self) -> Vec<(&str, &str)> {
        let mut found = Vec::new();
        self.each_field(&mut |field, literals| {
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

/// Why a condition cannot be read, and where.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) range: Span,
    pub(crate) message: String,
}

/// Reads a condition.
pub(crate) fn parse(text: &str) -> Result<Condition, Malformed> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let condition = parser.any()?;
    parser.skip_space();
    if parser.at < text.len() {
        return parser.fail("`and`, `or` or the end");
    }
    Ok(condition)
}

/// Deeper nesting than any condition a person writes.
const MAX_DEPTH: usize = 32;

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn any(&mut self) -> Result<Condition, Malformed> {
        let mut found = vec![self.all()?];
        while self.word("or") {
            found.push(self.all()?);
        }
        Ok(if found.len() == 1 { found.swap_remove(0) } else { Condition::Or(found) })
    }

    fn all(&mut self) -> Result<Condition, Malformed> {
        let mut found = vec![self.one()?];
        while self.word("and") {
            found.push(self.one()?);
        }
        Ok(if found.len() == 1 { found.swap_remove(0) } else { Condition::And(found) })
    }

    fn one(&mut self) -> Result<Condition, Malformed> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("fewer nested conditions");
        }
        let condition = if self.word("not") {
            Condition::Not(Box::new(self.one()?))
        } else if self.word("exists") {
            Condition::Exists(self.field()?)
        } else if self.word("absent") {
            Condition::Absent(self.field()?)
        } else if self.sign("(") {
            let inner = self.any()?;
            self.expect(")")?;
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Condition, Malformed> {
        let field = self.field()?;
        if self.word("in") {
            self.expect("(")?;
            let mut values = vec![self.literal()?];
            while self.sign(",") {
                values.push(self.literal()?);
            }
            self.expect(")")?;
            return Ok(Condition::In { field, values });
        }
        for (sign, operator) in Operator::ALL {
            if self.sign(sign) {
                return Ok(Condition::Compare { field, operator, value: self.literal()? });
            }
        }
        self.fail("a comparison such as `=`, `!=`, `<` or `in`")
    }

    fn field(&mut self) -> Result<Operand, Malformed> {
        let name = self.name();
        if name.is_empty() {
            return self.fail("the name of a field");
        }
        Ok(Operand { path: name.to_owned(), range: self.at - name.len()..self.at })
    }

    fn literal(&mut self) -> Result<Literal, Malformed> {
        self.skip_space();
        let start = self.at;
        let value = if self.rest().starts_with('\'') {
            Term::Constant(Value::String(self.quoted()?))
        } else if self.sign("{") {
            let name = self.name().to_owned();
            self.expect("}")?;
            Term::Parameter(name)
        } else if self.word("true") {
            Term::Constant(true.into())
        } else if self.word("false") {
            Term::Constant(false.into())
        } else {
            Term::Constant(self.number()?)
        };
        Ok(Literal { value, range: start..self.at })
    }

    fn quoted(&mut self) -> Result<String, Malformed> {
        let start = self.at;
        let mut text = String::new();
        self.at += 1;
        loop {
            let Some(end) = self.rest().find('\'') else {
                return Err(Malformed {
                    range: start..self.text.len(),
                    message: "this text does not end: its `'` is missing".to_owned(),
                });
            };
            text.push_str(&self.rest()[..end]);
            self.at += end + 1;
            // A quote inside a text is written twice.
            if !self.rest().starts_with('\'') {
                return Ok(text);
            }
            text.push('\'');
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Value, Malformed> {
        let length = self
            .rest()
            .find(|each: char| !each.is_ascii_digit() && each != '-' && each != '.')
            .unwrap_or(self.rest().len());
        let digits = &self.rest()[..length];
        let value = match digits.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => match digits.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::from(number),
                _ => return self.fail("a text in `'…'`, a number, `true`, `false` or a parameter `{name}`"),
            },
        };
        self.at += length;
        Ok(value)
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn name(&mut self) -> &'t str {
        self.skip_space();
        let rest = self.rest();
        let length =
            rest.find(|each: char| !each.is_ascii_alphanumeric() && each != '_' && each != '.').unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Takes a whole word.
    fn word(&mut self, word: &str) -> bool {
        let start = self.at;
        let found = self.name() == word;
        if !found {
            self.at = start;
        }
        found
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), Malformed> {
        if self.sign(sign) { Ok(()) } else { self.fail(&format!("`{sign}`")) }
    }

    fn fail<T>(&mut self, expected: &str) -> Result<T, Malformed> {
        self.skip_space();
        let rest = self.rest();
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let message = if rest.is_empty() {
            format!("the condition ends where {expected} should be")
        } else {
            format!("expected {expected}, found `{}`", &rest[..length])
        };
        Err(Malformed { range: self.at..self.at + length, message })
    }
}
