//! Fields: their types and limits, and whether they accept a value.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};

use crate::{
    condition::Condition,
    diagnostic::{Span, a},
    named::named,
    text_syntax::{self, StringFormat, TextSyntax, TimestampPrecision},
    tree::SpannedText,
};

/// The type of a field.
#[derive(Debug, Clone)]
pub enum FieldType {
    /// Text.
    String,
    /// A number, up to 38 digits.
    Number,
    /// A whole number of 64 bits.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// An instant.
    Timestamp(TimestampPrecision),
    /// A calendar day, `2026-01-31`.
    Date,
    /// A ULID: sorts by creation time.
    Ulid,
    /// A UUID, in lower case.
    Uuid,
    /// A list; without an element type, of any values.
    List(Option<Box<Field>>),
    /// A map with these fields; without fields, a map of any values.
    Map(Vec<Field>),
    /// Anything.
    Any,
}

impl FieldType {
    /// Its name in the language.
    pub fn name(&self) -> &'static str {
        match self {
            FieldType::String => "string",
            FieldType::Number => "number",
            FieldType::Integer => "integer",
            FieldType::Boolean => "boolean",
            FieldType::Timestamp(_) => "timestamp",
            FieldType::Date => "date",
            FieldType::Ulid => "ulid",
            FieldType::Uuid => "uuid",
            FieldType::List(_) => "list",
            FieldType::Map(_) => "map",
            FieldType::Any => "any",
        }
    }
}

/// The default value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum DefaultValue {
    /// A new id.
    New,
    /// The current time or day.
    Now,
    /// The user of the token. Callers cannot set such a field.
    Caller,
    /// A constant.
    Constant(Value),
}

named! {
    /// What happens to a referring item when its target is deleted.
    pub enum OnDelete {
        /// The target cannot be deleted.
        Restrict = "restrict",
        /// The referring item is deleted too.
        Cascade = "cascade",
    }
}

/// A reference to another entity.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The entity's name.
    pub entity: String,
    /// What happens when the target is deleted.
    pub on_delete: OnDelete,
    pub(crate) span: Span,
}

/// A field of an entity.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub field_type: FieldType,
    /// What it means.
    pub description: Option<String>,
    /// Whether it may be absent.
    pub optional: bool,
    /// Its value when none is given.
    pub default: Option<DefaultValue>,
    /// Whether it is personal data.
    pub personal: bool,
    /// Whether it cannot change.
    pub immutable: bool,
    /// Whether callers cannot set it: the system's own code or its default sets it.
    pub readonly: bool,
    /// The condition: the field holds the time when it became true.
    pub since: Option<Condition>,
    /// Whether it is never read back.
    pub secret: bool,
    /// The entity whose id it holds.
    pub reference: Option<Reference>,
    /// The least and the greatest number.
    pub range: (Option<f64>, Option<f64>),
    /// The maximum of characters, elements or bytes: `max` or the default of the type.
    pub max_size: usize,
    /// The minimum of elements of a list.
    pub min_elements: usize,
    /// Whether its type could be read. If not, the checks ignore the field.
    pub(crate) has_known_type: bool,
    /// The syntax of its values as text; `None` for types that have no text form.
    pub(crate) text_syntax: Option<Arc<TextSyntax>>,
    pub(crate) span: Span,
    pub(crate) since_text: Option<SpannedText>,
}

/// The stores hold numbers of up to 38 digits below this.
pub(crate) const TOO_LARGE: f64 = 1e126;

/// The maximum size, in bytes of JSON, of an element of a list without an element type.
pub(crate) const FREE_ELEMENT: usize = 1_024;

/// An error in a field of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field's path; dots lead into maps, `[n]` into lists.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl Field {
    /// The allowed texts; empty: all.
    pub fn choices(&self) -> &[String] {
        self.text_syntax.as_ref().map_or(&[], |form| &form.one_of)
    }

    /// The regular expression that its texts match, if it has one.
    pub fn pattern(&self) -> Option<&str> {
        self.text_syntax.as_ref()?.pattern.as_ref().map(|pattern| pattern.text.as_str())
    }

    /// The prefix of its texts; may be empty.
    pub fn prefix(&self) -> &str {
        self.text_syntax.as_ref().map_or("", |form| &form.prefix)
    }

    /// A text of this field as unique constraints and keys compare it: e-mail addresses have no case.
    pub fn comparable<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.text_syntax.as_ref().map_or(Cow::Borrowed(text), |form| form.comparable(text))
    }

    /// A time (milliseconds since 1970) as a value of this field; `None` unless it is a timestamp or date.
    pub fn timestamp_value(&self, millis: i64) -> Option<Value> {
        let instant = jiff::Timestamp::from_millisecond(millis).ok()?;
        match self.field_type {
            FieldType::Timestamp(TimestampPrecision::Epoch) => Some(millis.div_euclid(1000).into()),
            FieldType::Timestamp(precision) => Some(text_syntax::timestamp(instant, precision).into()),
            FieldType::Date => Some(instant.to_zoned(jiff::tz::TimeZone::UTC).date().to_string().into()),
            _ => None,
        }
    }

    /// A value of this field as a time in milliseconds since 1970: the inverse of [`Field::timestamp_value`].
    pub fn timestamp_millis(&self, value: &Value) -> Option<i64> {
        match self.field_type {
            FieldType::Timestamp(TimestampPrecision::Epoch) => value.as_i64()?.checked_mul(1000),
            FieldType::Timestamp(_) => Some(value.as_str()?.parse::<jiff::Timestamp>().ok()?.as_millisecond()),
            _ => None,
        }
    }

    /// Why callers cannot set it; `None`: they can.
    pub fn why_not_writable(&self) -> Option<String> {
        match (&self.since, &self.default) {
            (Some(condition), _) => Some(format!("follows from `{condition}`; leave it out")),
            (None, Some(DefaultValue::Caller)) => Some("comes from the token; leave it out".to_owned()),
            (None, _) => self.readonly.then(|| "is set by the system; leave it out".to_owned()),
        }
    }

    /// Reports every error in `value`.
    pub fn check(&self, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
        let mut wrong = |message: String| errors.push(FieldError { path: path.to_owned(), message });
        match (&self.field_type, value) {
            (_, Value::Null) if self.optional => {}
            (_, Value::Null) => wrong("is null".to_owned()),
            (FieldType::Any, _) | (FieldType::Map(_), Value::Object(_)) if !self.fits_size(value) => {
                wrong(format!("is larger than {} bytes", self.max_size));
            }
            (FieldType::Any, _) => {}
            (FieldType::Boolean, Value::Bool(_)) => {}
            (FieldType::Number, Value::Number(number)) => {
                if !number.as_f64().is_some_and(|number| number.abs() < TOO_LARGE && self.is_in_range(number)) {
                    wrong(format!("is not {}", self.range_text()));
                }
            }
            (FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch), Value::Number(number)) => {
                match whole(number) {
                    None => wrong("is not a whole number".to_owned()),
                    Some(number) if !self.text_syntax.as_ref().is_none_or(|form| form.is_in_bounds(number)) => {
                        wrong(format!("is not {}", self.range_text()));
                    }
                    Some(_) => {}
                }
            }
            (FieldType::List(element), Value::Array(items)) => {
                if items.len() > self.max_size || items.len() < self.min_elements {
                    wrong(format!(
                        "has {} elements, allowed are {} to {}",
                        items.len(),
                        self.min_elements,
                        self.max_size
                    ));
                }
                for (at, item) in items.iter().enumerate() {
                    let path = format!("{path}[{at}]");
                    match element {
                        Some(element) => element.check(item, &path, errors),
                        None if item.to_string().len() > FREE_ELEMENT => {
                            let message = format!("is larger than {FREE_ELEMENT} bytes");
                            errors.push(FieldError { path, message });
                        }
                        None => {}
                    }
                }
            }
            (FieldType::Map(fields), Value::Object(map)) => {
                if !fields.is_empty() {
                    check_fields(fields, map, Some(path), errors);
                }
            }
            (
                FieldType::Boolean | FieldType::Number | FieldType::Integer | FieldType::List(_) | FieldType::Map(_),
                _,
            )
            | (FieldType::Timestamp(TimestampPrecision::Epoch), _) => {
                wrong(format!("is not {}", self.expectation()));
            }
            (_, Value::String(text)) => {
                if !self.text_syntax.as_ref().is_none_or(|form| form.accepts(text)) {
                    wrong(format!("is not {}", self.expectation()));
                }
            }
            _ => wrong(format!("is not {}", self.expectation())),
        }
    }

    fn fits_size(&self, value: &Value) -> bool {
        match (&self.field_type, value) {
            (FieldType::Map(fields), _) if !fields.is_empty() => true,
            _ => value.to_string().len() <= self.max_size,
        }
    }

    pub(crate) fn is_in_range(&self, number: f64) -> bool {
        self.range.0.is_none_or(|min| number >= min) && self.range.1.is_none_or(|max| number <= max)
    }

    fn range_text(&self) -> String {
        match self.range {
            (Some(min), Some(max)) => format!("between {min} and {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
            (None, None) => "in range".to_owned(),
        }
    }

    fn in_range(&self, number: &str) -> String {
        match self.range {
            (None, None) => number.to_owned(),
            _ => format!("{number}, {}", self.range_text()),
        }
    }

    /// A description of the values that it accepts.
    pub fn expectation(&self) -> String {
        let form = self.text_syntax.as_deref();
        match &self.field_type {
            FieldType::String if !self.choices().is_empty() => format!("one of {}", self.choices().join(", ")),
            FieldType::String => {
                let mut text = format!("a text of at most {} characters", self.max_size);
                if let Some(form) = form {
                    if form.min_chars > 0 {
                        text = format!("a text of {} to {} characters", form.min_chars, self.max_size);
                    }
                    if !form.prefix.is_empty() {
                        text += &format!(" that starts with {}", form.prefix);
                    }
                    if let Some(pattern) = self.pattern() {
                        text += &format!(" that matches {pattern}");
                    }
                    if let Some(format) = form.format {
                        text += &format!(" in the form of {}", a(format.name()));
                    }
                    if form.format == Some(StringFormat::Uri) {
                        text += &format!(" that starts with {}:", form.schemes().collect::<Vec<_>>().join(": or "));
                    }
                }
                text
            }
            FieldType::Number => self.in_range("a number"),
            FieldType::Integer => self.in_range("a whole number"),
            FieldType::Boolean => "true or false".to_owned(),
            FieldType::Timestamp(TimestampPrecision::Epoch) => "an instant in whole seconds since 1970".to_owned(),
            FieldType::Timestamp(TimestampPrecision::Any) => "an instant in a form of RFC 3339".to_owned(),
            FieldType::Timestamp(_) => format!("an instant in the form {}", self.example_time()),
            FieldType::Date => format!("a day in the form {}", self.example_time()),
            FieldType::Ulid => format!("a ULID{}", self.after_prefix()),
            FieldType::Uuid => format!("a UUID in lower case{}", self.after_prefix()),
            FieldType::List(_) => "a list".to_owned(),
            FieldType::Map(_) => "an object".to_owned(),
            FieldType::Any => "a value".to_owned(),
        }
    }

    fn after_prefix(&self) -> String {
        match self.prefix() {
            "" => String::new(),
            prefix => format!(" after {prefix}"),
        }
    }

    /// The maximum size in bytes in a stored item, including its name.
    pub(crate) fn max_bytes(&self) -> usize {
        let value = match &self.field_type {
            FieldType::Boolean => 1,
            FieldType::Number | FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch) => 21,
            FieldType::List(Some(element)) => {
                self.max_size.saturating_mul(element.max_bytes().saturating_add(1)).saturating_add(3)
            }
            FieldType::List(None) => self.max_size.saturating_mul(FREE_ELEMENT + 1),
            FieldType::Map(fields) if !fields.is_empty() => {
                fields.iter().fold(3, |sum: usize, field| sum.saturating_add(field.max_bytes()).saturating_add(1))
            }
            FieldType::Map(_) | FieldType::Any => self.max_size,
            _ => self.text_syntax.as_ref().map_or(self.max_size.saturating_mul(4), |form| form.max_bytes(None)),
        };
        value.saturating_add(self.name.len())
    }
}

/// A number without a fraction; `3.0` is one too.
pub(crate) fn whole(number: &serde_json::Number) -> Option<i64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    let exact = |number: &f64| number.fract() == 0.0 && (-BEYOND..BEYOND).contains(number);
    number.as_i64().or_else(|| number.as_f64().filter(exact).map(|number| number as i64))
}

/// Reports every error in the fields of `map`.
pub(crate) fn check_fields(
    fields: &[Field],
    map: &Map<String, Value>,
    parent: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    let join = |name: &str| parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}.{name}"));
    for field in fields {
        match map.get(&field.name) {
            Some(value) => field.check(value, &join(&field.name), errors),
            None if field.optional || field.default.is_some() => {}
            None => errors.push(FieldError { path: join(&field.name), message: "is missing".to_owned() }),
        }
    }
    if parent.is_some() {
        for name in map.keys().filter(|name| fields.iter().all(|field| field.name != **name)) {
            errors.push(FieldError { path: join(name), message: "is not a field".to_owned() });
        }
    }
}

/// The field at a dotted path.
pub(crate) fn find<'f>(fields: &'f [Field], path: &str) -> Option<&'f Field> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let field = fields.iter().find(|field| field.name == first)?;
    match (rest, &field.field_type) {
        (None, _) => Some(field),
        (Some(rest), FieldType::Map(inner)) => find(inner, rest),
        (Some(_), _) => None,
    }
}

/// Whether `marked` holds for a field or for a map that it is in.
pub(crate) fn is_marked(fields: &[Field], path: &str, marked: fn(&Field) -> bool) -> bool {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    fields.iter().find(|field| field.name == first).is_some_and(|field| {
        marked(field)
            || match (rest, &field.field_type) {
                (Some(rest), FieldType::Map(inner)) => is_marked(inner, rest, marked),
                _ => false,
            }
    })
}

/// The paths of all fields, in maps too, for which `wanted` holds.
pub(crate) fn paths(fields: &[Field], wanted: &dyn Fn(&Field) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for field in fields {
        if wanted(field) {
            found.push(field.name.clone());
        }
        let inner = match &field.field_type {
            FieldType::Map(inner) => inner.as_slice(),
            FieldType::List(Some(element)) => {
                if wanted(element) && !wanted(field) {
                    found.push(format!("{}[]", field.name));
                }
                match &element.field_type {
                    FieldType::Map(inner) => inner.as_slice(),
                    _ => &[],
                }
            }
            _ => &[],
        };
        found.extend(paths(inner, wanted).into_iter().map(|path| format!("{}.{path}", field.name)));
    }
    found
}
