//! Fields: their types and limits, and whether they accept a value.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    condition::Condition,
    diagnostic::Span,
    text_syntax::{self, Precision, TextSyntax},
    tree::SpannedText,
};

/// The type of a field.
#[derive(Debug, Clone)]
pub enum Type {
    /// Text.
    String,
    /// A number, up to 38 digits.
    Number,
    /// A whole number of 64 bits.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// An instant.
    Timestamp(Precision),
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

impl Type {
    /// Its name in the language.
    pub fn name(&self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Number => "number",
            Type::Integer => "integer",
            Type::Boolean => "boolean",
            Type::Timestamp(_) => "timestamp",
            Type::Date => "date",
            Type::Ulid => "ulid",
            Type::Uuid => "uuid",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Any => "any",
        }
    }
}

/// The default value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Default {
    /// A new id.
    New,
    /// The current time or day.
    Now,
    /// A constant.
    Constant(Value),
}

/// What happens to a referring item when its target is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDelete {
    /// The target cannot be deleted.
    Restrict,
    /// The referring item is deleted too.
    Cascade,
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
    pub kind: Type,
    /// What it means.
    pub description: Option<String>,
    /// Whether it may be absent.
    pub optional: bool,
    /// Its value when none is given.
    pub default: Option<Default>,
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
    pub size: usize,
    /// The minimum of elements of a list.
    pub least: usize,
    /// Whether its type could be read. If not, the checks ignore the field.
    pub(crate) known: bool,
    /// The syntax of its values as text; `None` for types that have no text form.
    pub(crate) form: Option<Arc<TextSyntax>>,
    pub(crate) span: Span,
    pub(crate) since_text: Option<SpannedText>,
}

/// The stores hold numbers of up to 38 digits below this.
pub(crate) const TOO_LARGE: f64 = 1e126;

/// The maximum size, in bytes of JSON, of an element of a list without an element type.
pub(crate) const FREE_ELEMENT: usize = 1_024;

/// An error in a field of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field's path; dots lead into maps, `[n]` into lists.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl Field {
    /// The allowed texts; empty: all.
    pub fn one_of(&self) -> &[String] {
        self.form.as_ref().map_or(&[], |form| &form.one_of)
    }

    /// The regular expression that its texts match, if it has one.
    pub fn pattern(&self) -> Option<&str> {
        self.form.as_ref()?.pattern.as_ref().map(|pattern| pattern.text.as_str())
    }

    /// The prefix of its texts; may be empty.
    pub fn prefix(&self) -> &str {
        self.form.as_ref().map_or("", |form| &form.prefix)
    }

    /// A time (milliseconds since 1970) as a value of this field; `None` unless it is a timestamp or date.
    pub fn instant(&self, millis: i64) -> Option<Value> {
        let instant = jiff::Timestamp::from_millisecond(millis).ok()?;
        match self.kind {
            Type::Timestamp(Precision::Epoch) => Some(millis.div_euclid(1000).into()),
            Type::Timestamp(precision) => Some(text_syntax::timestamp(instant, precision).into()),
            Type::Date => Some(instant.to_zoned(jiff::tz::TimeZone::UTC).date().to_string().into()),
            _ => None,
        }
    }

    /// Why callers cannot set it; `None`: they can.
    pub fn not_given(&self) -> Option<String> {
        match &self.since {
            Some(condition) => Some(format!("follows from `{condition}`; leave it out")),
            None => self.readonly.then(|| "is set by the system; leave it out".to_owned()),
        }
    }

    /// Reports every error in `value`.
    pub fn check(&self, value: &Value, path: &str, errors: &mut Vec<Problem>) {
        let mut wrong = |message: String| errors.push(Problem { path: path.to_owned(), message });
        match (&self.kind, value) {
            (_, Value::Null) if self.optional => {}
            (_, Value::Null) => wrong("is null".to_owned()),
            (Type::Any, _) | (Type::Map(_), Value::Object(_)) if !self.fits_size(value) => {
                wrong(format!("is larger than {} bytes", self.size));
            }
            (Type::Any, _) => {}
            (Type::Boolean, Value::Bool(_)) => {}
            (Type::Number, Value::Number(number)) => {
                if !number.as_f64().is_some_and(|number| number.abs() < TOO_LARGE && self.is_in_range(number)) {
                    wrong(format!("is not {}", self.range_text()));
                }
            }
            (Type::Integer | Type::Timestamp(Precision::Epoch), Value::Number(number)) => match whole(number) {
                None => wrong("is not a whole number".to_owned()),
                Some(number) if !self.form.as_ref().is_none_or(|form| form.is_in_bounds(number)) => {
                    wrong(format!("is not {}", self.range_text()));
                }
                Some(_) => {}
            },
            (Type::List(element), Value::Array(items)) => {
                if items.len() > self.size || items.len() < self.least {
                    wrong(format!("has {} elements, allowed are {} to {}", items.len(), self.least, self.size));
                }
                for (at, item) in items.iter().enumerate() {
                    let path = format!("{path}[{at}]");
                    match element {
                        Some(element) => element.check(item, &path, errors),
                        None if item.to_string().len() > FREE_ELEMENT => {
                            let message = format!("is larger than {FREE_ELEMENT} bytes");
                            errors.push(Problem { path, message });
                        }
                        None => {}
                    }
                }
            }
            (Type::Map(fields), Value::Object(map)) => {
                if !fields.is_empty() {
                    check_fields(fields, map, Some(path), errors);
                }
            }
            (Type::Boolean | Type::Number | Type::Integer | Type::List(_) | Type::Map(_), _)
            | (Type::Timestamp(Precision::Epoch), _) => {
                wrong(format!("is not {}", self.wanted()));
            }
            (_, Value::String(text)) => {
                if !self.form.as_ref().is_none_or(|form| form.accepts(text)) {
                    wrong(format!("is not {}", self.wanted()));
                }
            }
            _ => wrong(format!("is not {}", self.wanted())),
        }
    }

    fn fits_size(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (Type::Map(fields), _) if !fields.is_empty() => true,
            _ => value.to_string().len() <= self.size,
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

    /// A description of the values that it accepts.
    pub fn wanted(&self) -> String {
        let form = self.form.as_deref();
        match &self.kind {
            Type::String if !self.one_of().is_empty() => format!("one of {}", self.one_of().join(", ")),
            Type::String => {
                let mut text = format!("a text of at most {} characters", self.size);
                if let Some(form) = form {
                    if form.min_chars > 0 {
                        text = format!("a text of {} to {} characters", form.min_chars, self.size);
                    }
                    if !form.prefix.is_empty() {
                        text += &format!(" that starts with {}", form.prefix);
                    }
                    if let Some(pattern) = self.pattern() {
                        text += &format!(" that matches {pattern}");
                    }
                    if let Some(format) = form.format {
                        text += &format!(
                            " in the form of {} {}",
                            if matches!(format, text_syntax::Format::Ip | text_syntax::Format::Email) {
                                "an"
                            } else {
                                "a"
                            },
                            format!("{format:?}").to_lowercase()
                        );
                    }
                }
                text
            }
            Type::Number => "a number".to_owned(),
            Type::Integer => "a whole number".to_owned(),
            Type::Boolean => "true or false".to_owned(),
            Type::Timestamp(Precision::Seconds) => "an instant in the form 2026-01-31T09:30:00Z".to_owned(),
            Type::Timestamp(Precision::Millis) => "an instant in the form 2026-01-31T09:30:00.000Z".to_owned(),
            Type::Timestamp(Precision::Micros) => "an instant in the form 2026-01-31T09:30:00.000000Z".to_owned(),
            Type::Timestamp(Precision::Epoch) => "an instant in whole seconds since 1970".to_owned(),
            Type::Timestamp(Precision::Any) => "an instant in a form of RFC 3339".to_owned(),
            Type::Date => "a day in the form 2026-01-31".to_owned(),
            Type::Ulid => format!("a ULID{}", self.after_prefix()),
            Type::Uuid => format!("a UUID in lower case{}", self.after_prefix()),
            Type::List(_) => "a list".to_owned(),
            Type::Map(_) => "an object".to_owned(),
            Type::Any => "a value".to_owned(),
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
        let value = match &self.kind {
            Type::Boolean => 1,
            Type::Number | Type::Integer | Type::Timestamp(Precision::Epoch) => 21,
            Type::List(Some(element)) => {
                self.size.saturating_mul(element.max_bytes().saturating_add(1)).saturating_add(3)
            }
            Type::List(None) => self.size.saturating_mul(FREE_ELEMENT + 1),
            Type::Map(fields) if !fields.is_empty() => {
                fields.iter().fold(3, |sum: usize, field| sum.saturating_add(field.max_bytes()).saturating_add(1))
            }
            Type::Map(_) | Type::Any => self.size,
            _ => self.form.as_ref().map_or(self.size.saturating_mul(4), |form| form.max_bytes(None)),
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
    errors: &mut Vec<Problem>,
) {
    let join = |name: &str| parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}.{name}"));
    for field in fields {
        match map.get(&field.name) {
            Some(value) => field.check(value, &join(&field.name), errors),
            None if field.optional || field.default.is_some() => {}
            None => errors.push(Problem { path: join(&field.name), message: "is missing".to_owned() }),
        }
    }
    if parent.is_some() {
        for name in map.keys().filter(|name| fields.iter().all(|field| field.name != **name)) {
            errors.push(Problem { path: join(name), message: "is not a field".to_owned() });
        }
    }
}

/// The field at a dotted path.
pub(crate) fn find<'f>(fields: &'f [Field], path: &str) -> Option<&'f Field> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let field = fields.iter().find(|field| field.name == first)?;
    match (rest, &field.kind) {
        (None, _) => Some(field),
        (Some(rest), Type::Map(inner)) => find(inner, rest),
        (Some(_), _) => None,
    }
}

/// Whether `marked` holds for a field or for a map that it is in.
pub(crate) fn is_marked(fields: &[Field], path: &str, marked: fn(&Field) -> bool) -> bool {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    fields.iter().find(|field| field.name == first).is_some_and(|field| {
        marked(field)
            || match (rest, &field.kind) {
                (Some(rest), Type::Map(inner)) => is_marked(inner, rest, marked),
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
        let inner = match &field.kind {
            Type::Map(inner) => inner.as_slice(),
            Type::List(Some(element)) => {
                if wanted(element) && !wanted(field) {
                    found.push(format!("{}[]", field.name));
                }
                match &element.kind {
                    Type::Map(inner) => inner.as_slice(),
                    _ => &[],
                }
            }
            _ => &[],
        };
        found.extend(paths(inner, wanted).into_iter().map(|path| format!("{}.{path}", field.name)));
    }
    found
}
