//! Key templates: `AUDIT#{timestamp}#{uuid}` turns fields into a key and a key back into fields.
//!
//! A template is parsed once, with its design. Rendering and parsing are exact inverses: a value either has a fixed length,
//! or its terminating character is escaped inside it.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::{
    diagnostic::Span,
    text_syntax::{ScalarType, TextSyntax, TimestampPrecision, escape, strip_literal},
};

/// A parsed key template, bound to the fields of its entity.
#[derive(Debug, Clone)]
pub struct Template {
    text: String,
    pub(crate) span: Span,
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone)]
pub(crate) enum Part {
    Literal(String),
    Slot(Slot),
}

/// A field in a template.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// The field's name; dots lead into maps.
    pub(crate) path: String,
    pub(crate) pad: Option<usize>,
    /// Its range in the template's text.
    pub(crate) range: Span,
    pub(crate) text_syntax: Arc<TextSyntax>,
    pub(crate) end: End,
}

/// How a parser finds the end of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// At the end of the key.
    Last,
    /// Before this character, which is escaped inside the value.
    Before(char),
    /// After this many bytes.
    After(usize),
}

/// A template as written, before its fields are known.
#[derive(Debug, Clone)]
pub(crate) enum RawPart {
    Literal(String),
    Field { path: String, pad: Option<usize>, range: Span },
}

/// Why a template cannot be parsed, and where.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) range: Span,
    pub(crate) message: &'static str,
    pub(crate) help: &'static str,
}

/// A mistake in a template, and what to write instead.
type Mistake = (&'static str, &'static str);

const EMPTY: Mistake = ("a template cannot be empty", "write a constant such as `PROFILE#` or a field such as `{id}`");
const UNOPENED: Mistake = ("a `}` without a `{`", "fields are written `{name}`");
const UNCLOSED: Mistake = ("a `{` without a `}`", "fields are written `{name}`");
const PERCENT: Mistake = ("`%` cannot be part of a template: it marks escaped values", "use another mark, such as `#`");
const CONTROL: Mistake = ("a template cannot contain control characters", "write visible characters only");
const PADDING: Mistake = ("the padding cannot be read", "write `{count:010}` for ten digits; 1 to 19 are possible");
const NO_NAME: Mistake =
    ("this is not the name of a field", "write `{name}`, or `{map.name}` for a field inside a map");

/// Parses a template into literals and fields.
pub(crate) fn parse_parts(text: &str) -> Result<Vec<RawPart>, SyntaxError> {
    let fail = |range, (message, help)| Err(SyntaxError { range, message, help });
    let mut parts = Vec::new();
    let mut at = 0;
    if text.is_empty() {
        return fail(0..0, EMPTY);
    }
    while at < text.len() {
        let rest = &text[at..];
        let open = rest.find('{').unwrap_or(rest.len());
        let literal = &rest[..open];
        if let Some(close) = literal.find('}') {
            return fail(at + close..at + close + 1, UNOPENED);
        }
        if let Some(percent) = literal.find('%') {
            return fail(at + percent..at + percent + 1, PERCENT);
        }
        if literal.chars().any(char::is_control) {
            return fail(at..at + open, CONTROL);
        }
        if !literal.is_empty() {
            parts.push(RawPart::Literal(literal.to_owned()));
        }
        if open == rest.len() {
            break;
        }
        let Some(close) = rest[open..].find('}').map(|close| open + close) else {
            return fail(at + open..text.len(), UNCLOSED);
        };
        let range = at + open..at + close + 1;
        let inside = &rest[open + 1..close];
        let (path, pad) = match inside.split_once(':') {
            None => (inside, None),
            Some((path, pad)) => match pad.strip_prefix('0').and_then(|width| width.parse().ok()) {
                Some(width @ 1..=19) => (path, Some(width)),
                _ => return fail(range, PADDING),
            },
        };
        if !path.split('.').all(is_field_name) {
            return fail(range, NO_NAME);
        }
        parts.push(RawPart::Field { path: path.to_owned(), pad, range });
        at += close + 1;
    }
    Ok(parts)
}

/// Letters, digits and `_`, not starting with a digit or `_`.
pub(crate) fn is_field_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|each| each.is_ascii_alphanumeric() || each == '_')
}

/// A value in a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar<'a> {
    /// A text, date, timestamp or id.
    Text(&'a str),
    /// A whole number.
    Integer(i64),
    /// A boolean.
    Boolean(bool),
}

/// A source of field values.
pub trait FieldValues {
    /// The value at `path`; dots lead into maps.
    fn scalar(&self, path: &str) -> Option<Scalar<'_>>;
}

impl FieldValues for serde_json::Map<String, serde_json::Value> {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        let value = match path.split_once('.') {
            None => self.get(path)?,
            Some((first, rest)) => return self.get(first)?.as_object()?.scalar(rest),
        };
        match value {
            serde_json::Value::String(text) => Some(Scalar::Text(text)),
            serde_json::Value::Bool(flag) => Some(Scalar::Boolean(*flag)),
            serde_json::Value::Number(number) => crate::field::whole(number).map(Scalar::Integer),
            _ => None,
        }
    }
}

impl FieldValues for [(&str, &str)] {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        self.iter().find(|(name, _)| *name == path).map(|(_, value)| Scalar::Text(value))
    }
}

impl<const N: usize> FieldValues for [(&str, &str); N] {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        self.as_slice().scalar(path)
    }
}

/// Why a key cannot be rendered: a field is missing or invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {reason}")]
pub struct KeyFieldError {
    /// The field.
    pub field: String,
    /// What is wrong.
    pub reason: Cow<'static, str>,
}

impl Template {
    pub(crate) fn new(text: String, span: Span, parts: Vec<Part>) -> Self {
        Template { text, span, parts }
    }

    /// The template as written in the design.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.parts.iter().filter_map(|part| match part {
            Part::Slot(slot) => Some(slot),
            Part::Literal(_) => None,
        })
    }

    /// The paths of its fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.slots().map(|slot| slot.path.as_str())
    }

    /// Whether it has no fields.
    pub fn is_constant(&self) -> bool {
        self.slots().next().is_none()
    }

    /// The literal at the start; may be empty.
    pub fn literal_prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Literal(literal)) => literal,
            _ => "",
        }
    }

    /// The key of these fields.
    pub fn render(&self, fields: &(impl FieldValues + ?Sized)) -> Result<String, KeyFieldError> {
        let mut key = String::with_capacity(self.text.len() + 32);
        self.render_into(fields, &mut key)?;
        Ok(key)
    }

    /// Whether [`Template::render`] would give `key`; compares without allocating.
    pub fn renders_to(&self, fields: &(impl FieldValues + ?Sized), key: &str) -> bool {
        let mut rest = key;
        for part in &self.parts {
            let after = match part {
                Part::Literal(literal) => strip_literal(rest, literal),
                Part::Slot(slot) => match fields.scalar(&slot.path) {
                    Some(Scalar::Text(text)) if slot.is_unescaped(text) => slot.strip(text, rest),
                    Some(value) => {
                        let mut rendered = String::new();
                        slot.render(value, &mut rendered).ok().and_then(|()| rest.strip_prefix(rendered.as_str()))
                    }
                    None => None,
                },
            };
            match after {
                Some(after) => rest = after,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// Appends the key of these fields to `out`.
    pub fn render_into(&self, fields: &(impl FieldValues + ?Sized), out: &mut String) -> Result<(), KeyFieldError> {
        for part in &self.parts {
            match part {
                Part::Literal(literal) => out.push_str(literal),
                Part::Slot(slot) => {
                    let value = fields.scalar(&slot.path).ok_or_else(|| slot.unfit("is missing"))?;
                    slot.render(value, out)?;
                }
            }
        }
        Ok(())
    }

    /// Appends the template up to the field after the first `bound` ones, each field by `write`.
    pub(crate) fn render_leading(
        &self,
        bound: usize,
        out: &mut String,
        write: &mut dyn FnMut(&Slot, &mut String) -> Result<(), KeyFieldError>,
    ) -> Result<(), KeyFieldError> {
        let mut slots = 0;
        for part in &self.parts {
            match part {
                Part::Literal(literal) => out.push_str(literal),
                Part::Slot(_) if slots == bound => break,
                Part::Slot(slot) => {
                    slots += 1;
                    write(slot, out)?;
                }
            }
        }
        Ok(())
    }

    /// Whether it ends with a field.
    pub(crate) fn ends_with_slot(&self) -> bool {
        matches!(self.parts.last(), Some(Part::Slot(_)))
    }

    /// The values in `key`, in the order of the template's fields.
    ///
    /// With `typed`, a value that its field does not accept is no match.
    pub(crate) fn parse<'t, 'k>(
        &'t self,
        key: &'k str,
        typed: bool,
        mut found: impl FnMut(&'t Slot, Cow<'k, str>),
    ) -> Option<()> {
        let mut rest = key;
        for part in &self.parts {
            match part {
                Part::Literal(literal) => rest = strip_literal(rest, literal)?,
                Part::Slot(slot) => {
                    let length = match slot.end {
                        End::Last => rest.len(),
                        End::Before(mark) => rest.find(mark)?,
                        End::After(length) => length,
                    };
                    let (raw, after) = rest.split_at_checked(length)?;
                    let value = slot.parse(raw, typed)?;
                    found(slot, value);
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(())
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Slot {
    fn unfit(&self, reason: &'static str) -> KeyFieldError {
        KeyFieldError { field: self.path.clone(), reason: reason.into() }
    }

    /// The character after the value, which is escaped inside it like `#` and `%`.
    pub(crate) fn terminator(&self) -> Option<char> {
        match self.end {
            End::Before(mark) => Some(mark),
            End::Last | End::After(_) => None,
        }
    }

    /// `key` without a value that is rendered without escaping. Keys of older items have addresses as they were typed.
    fn strip<'k>(&self, text: &str, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(text).or_else(|| match self.text_syntax.comparable(text) {
            Cow::Owned(compared) => key.strip_prefix(compared.as_str()),
            Cow::Borrowed(_) => None,
        })
    }

    /// Whether a text is rendered without escaping.
    fn is_unescaped(&self, text: &str) -> bool {
        let stop = self.terminator().unwrap_or('#');
        let marked = match u8::try_from(stop).ok().filter(u8::is_ascii) {
            // This runs for every item that is read: comparing bytes is faster than comparing characters.
            Some(stop) => text.bytes().any(|each| each == b'#' || each == b'%' || each == stop),
            None => text.contains(['#', '%', stop]),
        };
        !marked && !text.is_empty() && !self.is_number() && !matches!(self.end, End::After(_))
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self.text_syntax.scalar_type, ScalarType::Integer | ScalarType::Timestamp(TimestampPrecision::Epoch))
    }

    /// The least and the greatest number.
    pub(crate) fn number_bounds(&self) -> Option<(i64, i64)> {
        match self.text_syntax.scalar_type {
            ScalarType::Integer => self.text_syntax.bounds.0.zip(self.text_syntax.bounds.1),
            ScalarType::Timestamp(TimestampPrecision::Epoch) => Some((0, 9_999_999_999)),
            _ => None,
        }
    }

    pub(crate) fn render(&self, value: Scalar<'_>, out: &mut String) -> Result<(), KeyFieldError> {
        let start = out.len();
        match value {
            Scalar::Text(text) if self.is_number() => {
                let number = text.parse().map_err(|_| self.unfit("is not a whole number"))?;
                return self.render(Scalar::Integer(number), out);
            }
            Scalar::Text("") => return Err(self.unfit("is empty, and a key cannot contain an empty value")),
            Scalar::Text(text) => escape(&self.text_syntax.comparable(text), self.terminator(), out),
            Scalar::Boolean(flag) => out.push_str(if flag { "true" } else { "false" }),
            Scalar::Integer(number) => self.render_number(number, out)?,
        }
        match self.end {
            End::After(length) if out.len() - start != length => {
                Err(self.unfit("does not have the length of its type"))
            }
            _ => Ok(()),
        }
    }

    /// Appends the prefix of a value.
    pub(crate) fn render_prefix(&self, text: &str, out: &mut String) {
        escape(&self.text_syntax.comparable(text), self.terminator(), out);
    }

    fn render_number(&self, number: i64, out: &mut String) -> Result<(), KeyFieldError> {
        let mut digits = [b'0'; 20];
        let mut at = digits.len();
        let mut left = number.unsigned_abs();
        while left > 0 || at == digits.len() {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        if let Some(pad) = self.pad {
            if number < 0 {
                return Err(self.unfit("is negative, but a padded number cannot be"));
            }
            if digits.len() - at > pad {
                return Err(self.unfit("has more digits than its padding"));
            }
            at = digits.len() - pad;
        } else if number < 0 {
            out.push('-');
        }
        out.extend(digits[at..].iter().map(|digit| char::from(*digit)));
        Ok(())
    }

    fn parse<'k>(&self, raw: &'k str, typed: bool) -> Option<Cow<'k, str>> {
        if raw.is_empty() || raw.contains('#') {
            return None;
        }
        let value = if raw.contains('%') { Cow::Owned(self.unescape(raw)?) } else { Cow::Borrowed(raw) };
        let value = if self.is_number() { self.unpad(value)? } else { value };
        (!typed || self.text_syntax.accepts(&value)).then_some(value)
    }

    /// The number without its padding; `None` unless it is written exactly as it would be rendered.
    fn unpad<'k>(&self, digits: Cow<'k, str>) -> Option<Cow<'k, str>> {
        let number: i64 = digits.parse().ok()?;
        let mut again = String::with_capacity(digits.len());
        self.render_number(number, &mut again).ok()?;
        (again == digits).then(|| Cow::Owned(number.to_string()))
    }

    fn unescape(&self, raw: &str) -> Option<String> {
        let mut bytes = Vec::with_capacity(raw.len());
        let mut rest = raw.as_bytes();
        while let [first, after @ ..] = rest {
            if *first == b'%' {
                let hex = std::str::from_utf8(after.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(hex, 16).ok()?);
                rest = &after[2..];
            } else {
                bytes.push(*first);
                rest = after;
            }
        }
        let value = String::from_utf8(bytes).ok()?;
        // Only the canonical escaping of a value is a valid key.
        let mut again = String::with_capacity(raw.len());
        escape(&value, self.terminator(), &mut again);
        (again == raw).then_some(value)
    }
}
