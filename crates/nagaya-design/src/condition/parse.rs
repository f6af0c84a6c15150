//! The parser of conditions.

use serde_json::Value;

use super::{ComparisonOp, Condition, ConditionField, ConditionValue, Term};
use crate::diagnostic::Span;

/// Why a condition cannot be parsed, and where.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) range: Span,
    pub(crate) message: String,
}

/// Parses a condition.
pub(crate) fn parse(text: &str) -> Result<Condition, SyntaxError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let condition = parser.any()?;
    parser.skip_space();
    if parser.at < text.len() {
        return parser.fail("`and`, `or` or the end");
    }
    Ok(condition)
}

/// The limit of nesting, so that recursion is bounded.
const MAX_DEPTH: usize = 32;

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn any(&mut self) -> Result<Condition, SyntaxError> {
        let mut found = vec![self.all()?];
        while self.word("or") {
            found.push(self.all()?);
        }
        Ok(if found.len() == 1 { found.swap_remove(0) } else { Condition::Or(found) })
    }

    fn all(&mut self) -> Result<Condition, SyntaxError> {
        let mut found = vec![self.parse_unary()?];
        while self.word("and") {
            found.push(self.parse_unary()?);
        }
        Ok(if found.len() == 1 { found.swap_remove(0) } else { Condition::And(found) })
    }

    fn parse_unary(&mut self) -> Result<Condition, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("fewer nested conditions");
        }
        let condition = if self.word("not") {
            Condition::Not(Box::new(self.parse_unary()?))
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

    fn comparison(&mut self) -> Result<Condition, SyntaxError> {
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
        for (sign, operator) in ComparisonOp::ALL {
            if self.sign(sign) {
                return Ok(Condition::Compare { field, operator, value: self.literal()? });
            }
        }
        self.fail("a comparison such as `=`, `!=`, `<` or `in`")
    }

    fn field(&mut self) -> Result<ConditionField, SyntaxError> {
        let name = self.name();
        if name.is_empty() {
            return self.fail("the name of a field");
        }
        Ok(ConditionField { path: name.to_owned(), range: self.at - name.len()..self.at })
    }

    fn literal(&mut self) -> Result<ConditionValue, SyntaxError> {
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
        Ok(ConditionValue { value, range: start..self.at })
    }

    fn quoted(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        let mut text = String::new();
        self.at += 1;
        loop {
            let Some(end) = self.rest().find('\'') else {
                return Err(SyntaxError {
                    range: start..self.text.len(),
                    message: "this text has no closing `'`".to_owned(),
                });
            };
            text.push_str(&self.rest()[..end]);
            self.at += end + 1;
            // A quote inside a text is doubled.
            if !self.rest().starts_with('\'') {
                return Ok(text);
            }
            text.push('\'');
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<Value, SyntaxError> {
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

    /// Consumes a whole word.
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

    fn expect(&mut self, sign: &str) -> Result<(), SyntaxError> {
        if self.sign(sign) { Ok(()) } else { self.fail(&format!("`{sign}`")) }
    }

    fn fail<T>(&mut self, expected: &str) -> Result<T, SyntaxError> {
        self.skip_space();
        let rest = self.rest();
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let message = if rest.is_empty() {
            format!("the condition ends where {expected} should be")
        } else {
            format!("expected {expected}, found `{}`", &rest[..length])
        };
        Err(SyntaxError { range: self.at..self.at + length, message })
    }
}
