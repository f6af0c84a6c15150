//! The JSON Schema of a field's values.

use serde_json::{Map, Value, json};

use crate::{
    ecma,
    field::{DefaultValue, FREE_ELEMENT, Field, FieldType, TOO_LARGE},
    text_syntax::{ScalarType, StringFormat, TextSyntax, TimestampPrecision, ULID, UUID},
};

impl Field {
    /// The JSON Schema (2020-12) of the values that it accepts, as narrow as JSON Schema can be.
    ///
    /// It accepts everything that [`Field::check`] accepts, and a little more: limits in bytes are only described, and it
    /// allows the last hours of the year 9999, which timestamps cannot represent.
    pub fn json_schema(&self) -> Value {
        let mut schema = Map::new();
        let (types, told) = self.values(&mut schema);
        if self.optional {
            if let Some(Value::Array(choices)) = schema.get_mut("enum") {
                choices.push(Value::Null);
            }
            schema.insert("type".to_owned(), types.iter().copied().chain(["null"]).collect());
        } else if let [only] = types {
            schema.insert("type".to_owned(), json!(only));
        } else {
            schema.insert("type".to_owned(), json!(types));
        }
        let description: Vec<_> = self.description.iter().cloned().chain(told).collect();
        if !description.is_empty() {
            schema.insert("description".to_owned(), description.join(" ").into());
        }
        if let Some(DefaultValue::Constant(value)) = &self.default {
            schema.insert("default".to_owned(), value.clone());
        }
        if self.why_not_writable().is_some() {
            schema.insert("readOnly".to_owned(), true.into());
        }
        if self.secret {
            schema.insert("writeOnly".to_owned(), true.into());
        }
        schema.into()
    }

    /// Adds the rules of the values; returns their types, and a description of what a schema cannot express.
    fn values(&self, schema: &mut Map<String, Value>) -> (&'static [&'static str], Option<String>) {
        let mut say = |key: &str, value: Value| schema.insert(key.to_owned(), value);
        let bytes = |limit: usize| Some(format!("At most {limit} bytes as JSON."));
        match &self.field_type {
            FieldType::Boolean => (&["boolean"], None),
            FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch) => {
                let (min, max) = self.text_syntax.as_ref().map_or((None, None), |form| form.bounds);
                say("minimum", min.unwrap_or(i64::MIN).into());
                say("maximum", max.unwrap_or(i64::MAX).into());
                (&["integer"], None)
            }
            FieldType::Number => {
                let (min, max) = self.range;
                say(if min.is_some() { "minimum" } else { "exclusiveMinimum" }, min.unwrap_or(-TOO_LARGE).into());
                say(if max.is_some() { "maximum" } else { "exclusiveMaximum" }, max.unwrap_or(TOO_LARGE).into());
                (&["number"], None)
            }
            FieldType::List(element) => {
                if self.min_elements > 0 {
                    say("minItems", self.min_elements.into());
                }
                say("maxItems", self.max_size.into());
                if let Some(element) = element {
                    say("items", element.json_schema());
                    return (&["array"], None);
                }
                (&["array"], Some(format!("Each element has at most {FREE_ELEMENT} bytes as JSON.")))
            }
            FieldType::Map(fields) if fields.is_empty() => (&["object"], bytes(self.max_size)),
            FieldType::Map(fields) => {
                let needed = |field: &&Field| !field.optional && field.default.is_none();
                let required: Vec<_> = fields.iter().filter(needed).map(|field| field.name.as_str()).collect();
                say("properties", fields.iter().map(|field| (field.name.clone(), field.json_schema())).collect());
                say("required", required.into());
                say("additionalProperties", false.into());
                (&["object"], None)
            }
            // Anything but null, which counts as absent.
            FieldType::Any => (&["string", "number", "boolean", "array", "object"], bytes(self.max_size)),
            FieldType::String | FieldType::Timestamp(_) | FieldType::Date | FieldType::Ulid | FieldType::Uuid => {
                if let Some(form) = &self.text_syntax {
                    form.texts(schema);
                }
                (&["string"], None)
            }
        }
    }
}

impl TextSyntax {
    /// Adds the rules of texts.
    fn texts(&self, schema: &mut Map<String, Value>) {
        let mut say = |key: &str, value: Value| schema.insert(key.to_owned(), value);
        if self.scalar_type == ScalarType::Text {
            if !self.one_of.is_empty() {
                // The checker ensures that each choice satisfies the other rules.
                say("enum", json!(self.one_of));
                return;
            }
            let longest = if self.format == Some(StringFormat::Hostname) { 253 } else { usize::MAX };
            if self.min_chars > 0 {
                say("minLength", self.min_chars.into());
            }
            say("maxLength", self.max_chars.min(longest).into());
        }
        match self.scalar_type {
            ScalarType::Timestamp(_) => say("format", "date-time".into()),
            ScalarType::Date => say("format", "date".into()),
            ScalarType::Uuid if self.prefix.is_empty() && self.also.is_none() => say("format", "uuid".into()),
            _ => None,
        };
        match self.conditions().as_slice() {
            [] => {}
            [only] => {
                say("pattern", json!(only));
            }
            // A schema has only one `pattern`, so several are combined.
            several => {
                say("allOf", several.iter().map(|pattern| json!({ "pattern": pattern })).collect());
            }
        }
    }

    /// The expressions that a text has to match, each as a whole.
    fn conditions(&self) -> Vec<String> {
        let prefix = ecma::escape(&self.prefix);
        let own = match self.scalar_type {
            ScalarType::Text => {
                let pattern = self.pattern.as_ref().and_then(|pattern| ecma::translate(&pattern.text));
                // Most patterns of texts with a prefix begin with the prefix. A repeated part is in its own group.
                let said = pattern.as_ref().is_some_and(|own| own.starts_with(&prefix) && !own.contains('|'));
                let prefix = (!prefix.is_empty() && !said).then(|| format!(r"{prefix}[\s\S]*"));
                let format = self.format.map(|format| format.expression(self));
                return [prefix, pattern, format].into_iter().flatten().map(|own| format!("^(?:{own})$")).collect();
            }
            ScalarType::Timestamp(TimestampPrecision::Seconds) => format!("{DAY}T{TIME}Z"),
            ScalarType::Timestamp(TimestampPrecision::Millis) => format!(r"{DAY}T{TIME}\.[0-9]{{3}}Z"),
            ScalarType::Timestamp(TimestampPrecision::Micros) => format!(r"{DAY}T{TIME}\.[0-9]{{6}}Z"),
            ScalarType::Date => DAY.to_owned(),
            ScalarType::Ulid => format!("{prefix}{ULID}"),
            ScalarType::Uuid => format!("{prefix}{UUID}"),
            ScalarType::Timestamp(_) | ScalarType::Integer | ScalarType::Boolean => return Vec::new(),
        };
        let also = self.also.as_ref().and_then(|also| ecma::translate(&also.text));
        vec![format!("^(?:{})$", [own].into_iter().chain(also).collect::<Vec<_>>().join("|"))]
    }
}

/// A day that the calendar has, in the years 0 to 9999.
const DAY: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])\
                   |(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))\
                   |(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]";

/// White space as Rust defines it; `\s` in ECMA-262 is a different set.
const SPACE: &str = r"\u0009-\u000d \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000";
/// Characters that a label of a host name cannot contain, except the hyphen.
const NO_LETTER: &str = r"\u0000-,.\/:-@\[-`\{-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000";

impl StringFormat {
    /// The expression of its texts.
    fn expression(self, syntax: &TextSyntax) -> String {
        let label = format!("[^{NO_LETTER}\\-](?:[^{NO_LETTER}]{{0,61}}[^{NO_LETTER}\\-])?");
        let host = format!(r"{label}(?:\.{label})*");
        match self {
            StringFormat::Email => format!("[^{SPACE}]+@{host}"),
            StringFormat::Uri => {
                let schemes: Vec<_> = syntax.schemes().map(in_any_case).collect();
                format!(r"(?:{}):[^{SPACE}\u0000-\u001f\u007f-\u009f]+", schemes.join("|"))
            }
            StringFormat::Hostname => host,
            StringFormat::Ip => ip(),
            StringFormat::Slug => "[a-z0-9]+(?:-[a-z0-9]+)*".to_owned(),
        }
    }
}

/// The expression of a lower-case text in letters of any case.
fn in_any_case(text: &str) -> String {
    let letter = |each: char| match each.is_ascii_lowercase() {
        true => format!("[{}{each}]", each.to_ascii_uppercase()),
        false => ecma::escape(&each.to_string()),
    };
    text.chars().map(letter).collect()
}

fn ip() -> String {
    const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    const GROUP: &str = "[0-9A-Fa-f]{1,4}";
    let v4 = format!(r"{BYTE}(?:\.{BYTE}){{3}}");
    let mut forms = vec![v4.clone(), format!("(?:{GROUP}:){{7}}{GROUP}"), format!("(?:{GROUP}:){{6}}{v4}")];
    // `::` stands for one or more groups of zeros.
    for before in 0..8 {
        let head = if before == 0 { String::new() } else { format!("(?:{GROUP}:){{{}}}{GROUP}", before - 1) };
        let groups = (before < 7).then(|| format!("{GROUP}(?::{GROUP}){{0,{}}}", 6 - before));
        let mixed = (before < 6).then(|| format!("(?:{GROUP}:){{0,{}}}{v4}", 5 - before));
        let tails: Vec<_> = groups.into_iter().chain(mixed).collect();
        let tail = if tails.is_empty() { String::new() } else { format!("(?:{})?", tails.join("|")) };
        forms.push(format!("{head}::{tail}"));
    }
    forms.join("|")
}
