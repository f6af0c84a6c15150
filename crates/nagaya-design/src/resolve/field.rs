//! Fields and their constraints.

use std::sync::Arc;

use serde_json::Value;

use super::Resolver;
use crate::{
    codes,
    diagnostic::list,
    example::EXAMPLE_ULID,
    field::{DefaultValue, Field, FieldType, OnDelete, Reference},
    grammar,
    template::is_field_name,
    text_syntax::{Pattern, ScalarType, StringFormat, TextSyntax, TimestampPrecision},
    tree::{Entry, Node, SpannedText},
};

/// The default of `max` for texts, lists and free maps.
const MAX_CHARS: usize = 256;
const MAX_ELEMENTS: usize = 100;
const MAX_BYTES: usize = 16_384;

impl Resolver<'_> {
    pub(super) fn fields(&mut self, entries: &[Entry]) -> Vec<Field> {
        let mut fields = Vec::new();
        for entry in entries {
            if !is_field_name(&entry.key) {
                let message = format!("`{}` is not a valid field name", entry.key);
                let help = "use letters, digits and `_`, starting with a letter; names that start with `_` are \
                            reserved for the stores";
                codes::BAD_NAME.report(self.diagnostics, &entry.key_span, message).help(help);
                continue;
            }
            fields.extend(self.field(entry.key.clone(), &entry.key_span, &entry.node));
        }
        fields
    }

    fn field(&mut self, name: String, span: &std::ops::Range<usize>, node: &Node) -> Option<Field> {
        // A missing or misspelt type has been reported; the name is still known.
        let type_name = node.string("type").unwrap_or_default();
        let known = grammar::TYPES.contains(&type_name.as_str());
        if known {
            self.applicable(node, &type_name);
        }
        let kind = match type_name.as_str() {
            "string" => FieldType::String,
            "number" => FieldType::Number,
            "integer" => FieldType::Integer,
            "boolean" => FieldType::Boolean,
            "timestamp" => {
                let precision = node.string("precision").and_then(|name| TimestampPrecision::named(&name));
                FieldType::Timestamp(precision.unwrap_or(TimestampPrecision::Seconds))
            }
            "date" => FieldType::Date,
            "ulid" => FieldType::Ulid,
            "uuid" => FieldType::Uuid,
            "list" => FieldType::List(
                node.get("items").and_then(|items| self.field(String::new(), &items.span, items)).map(Box::new),
            ),
            "map" => FieldType::Map(self.fields(node.section("fields"))),
            _ => FieldType::Any,
        };
        if let (FieldType::Map(fields), Some(max)) = (&kind, node.get("max"))
            && !fields.is_empty()
        {
            let message = "`max` does not apply to a map with fields";
            codes::DOES_NOT_APPLY.report(self.diagnostics, &max.span, message).help("limit its fields instead");
        }
        if let FieldType::List(Some(_)) = &kind {
            self.element(node);
        }
        let min = self.bound(node, "min", &kind);
        let max = self.bound(node, "max", &kind);
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            let span = node.get("min").map_or(span.clone(), |node| node.span.clone());
            let message = format!("no value is at least {min} and at most {max}");
            codes::EMPTY_RANGE.report(self.diagnostics, &span, message).help("`min` has to be at most `max`");
        }
        let longest = node.text("pattern").and_then(|text| self.compiled(&text).as_ref().ok()?.max_bytes);
        if let (FieldType::String, Some(min), Some(longest)) = (&kind, min, longest)
            && min > longest as f64
        {
            let span = node.get("min").map_or(span.clone(), |node| node.span.clone());
            codes::EMPTY_RANGE
                .report(self.diagnostics, &span, format!("no text of at least {min} characters matches the pattern"))
                .help("lower `min`, or let the pattern match more");
        }
        let size = max.map(|max| max as usize);
        // A key that does not apply to the type has been reported.
        let since_text = node.text("since").filter(|_| matches!(kind, FieldType::Timestamp(_)));
        let mut field = Field {
            description: node.string("description"),
            optional: node.boolean("optional").unwrap_or(false),
            default: None,
            personal: node.boolean("personal").unwrap_or(false),
            immutable: node.boolean("immutable").unwrap_or(false),
            readonly: node.boolean("readonly").unwrap_or(false),
            since: since_text.as_ref().and_then(|text| self.condition(text)),
            secret: node.boolean("secret").unwrap_or(false),
            reference: node.get("references").and_then(|reference| {
                let on_delete = reference.string("on_delete").and_then(|name| OnDelete::named(&name));
                Some(Reference {
                    entity: reference.string("entity")?,
                    on_delete: on_delete.unwrap_or(OnDelete::Restrict),
                    span: reference.get("entity")?.span.clone(),
                })
            }),
            range: (min, max),
            max_size: match &kind {
                FieldType::List(_) => size.unwrap_or(MAX_ELEMENTS),
                FieldType::Map(_) | FieldType::Any => size.unwrap_or(MAX_BYTES),
                _ => size.unwrap_or(MAX_CHARS),
            },
            min_elements: if matches!(kind, FieldType::List(_)) { min.map_or(0, |min| min as usize) } else { 0 },
            text_syntax: self.text_syntax(node, &kind, min, max),
            span: span.clone(),
            since_text,
            has_known_type: known,
            name,
            field_type: kind,
        };
        field.default = node.get("default").filter(|_| known).and_then(|default| self.default(&field, default));
        self.choices_fit(&field, node);
        Some(field)
    }

    /// Each choice has to satisfy the other rules of the field.
    fn choices_fit(&mut self, field: &Field, node: &Node) {
        let Some(form) = &field.text_syntax else { return };
        for choice in node.texts("one_of") {
            if !form.one_of.is_empty() && !form.accepts(&choice.value) {
                let message = format!("`{}` is a choice, but `{}` does not accept it", choice.value, field.name);
                let help = "a choice has to fit `min`, `max`, `prefix`, `pattern` and `format` too";
                codes::BAD_CHOICES.report(self.diagnostics, &choice.span, message).help(help);
            }
        }
    }

    /// Reports keys that do not apply to the elements of a list.
    fn element(&mut self, list: &Node) {
        for entry in list.get("items").map_or(&[][..], Node::entries) {
            if matches!(entry.key.as_str(), "optional" | "default" | "immutable" | "readonly" | "references") {
                let message = format!("`{}` does not apply to the elements of a list", entry.key);
                codes::DOES_NOT_APPLY.report(self.diagnostics, &entry.key_span, message).help("move it to the list");
            }
        }
    }

    /// Reports keys that do not apply to the type.
    fn applicable(&mut self, node: &Node, type_name: &str) {
        for entry in node.entries() {
            let Some(key) = grammar::FIELD.keys.iter().find(|key| key.name == entry.key) else { continue };
            if !key.only.is_empty() && !key.only.contains(&type_name) {
                let message = format!("`{}` does not apply to the type `{type_name}`", entry.key);
                let help = format!("it is for {}", list(key.only));
                codes::DOES_NOT_APPLY.report(self.diagnostics, &entry.key_span, message).help(help);
            }
        }
    }

    fn bound(&mut self, node: &Node, key: &str, kind: &FieldType) -> Option<f64> {
        let value = node.get(key)?;
        let number = value.json().as_f64();
        let counts = !matches!(kind, FieldType::Number | FieldType::Integer);
        let good = number.is_some_and(|number| match kind {
            FieldType::Number => true,
            _ => number.fract() == 0.0 && (!counts || number >= 0.0),
        });
        if !good {
            let wanted = if counts { "a whole number that is not negative" } else { "a number of the field's type" };
            let message = format!("`{key}` should be {wanted}");
            codes::WRONG_TYPE.report(self.diagnostics, &value.span, message).help(format!("write {wanted}"));
            return None;
        }
        number
    }

    fn text_syntax(
        &mut self,
        node: &Node,
        kind: &FieldType,
        min: Option<f64>,
        max: Option<f64>,
    ) -> Option<Arc<TextSyntax>> {
        let scalar_type = match kind {
            FieldType::String => ScalarType::Text,
            FieldType::Integer => ScalarType::Integer,
            FieldType::Boolean => ScalarType::Boolean,
            FieldType::Timestamp(precision) => ScalarType::Timestamp(*precision),
            FieldType::Date => ScalarType::Date,
            FieldType::Ulid => ScalarType::Ulid,
            FieldType::Uuid => ScalarType::Uuid,
            FieldType::Number | FieldType::List(_) | FieldType::Map(_) | FieldType::Any => return None,
        };
        let textual = matches!(kind, FieldType::String);
        let pattern = node.text("pattern").filter(|_| textual);
        let one_of = if textual { self.choices(node) } else { Vec::new() };
        let prefix =
            node.text("prefix").filter(|_| matches!(kind, FieldType::String | FieldType::Ulid | FieldType::Uuid));
        if let Some(prefix) = &prefix
            && !prefix.value.chars().all(|each| each.is_ascii_alphanumeric() || "_-.".contains(each))
        {
            codes::BAD_NAME
                .report(self.diagnostics, &prefix.span, format!("`{}` is not a valid prefix", prefix.value))
                .help("use letters, digits, `_`, `-` and `.`");
        }
        // Integers are not converted to floats, which lose digits beyond 2^53.
        let whole = |key: &str| node.integer(key).filter(|_| matches!(kind, FieldType::Integer));
        Some(Arc::new(TextSyntax {
            scalar_type,
            prefix: prefix.map_or_else(String::new, |prefix| prefix.value),
            pattern: pattern.and_then(|pattern| self.pattern(&pattern)),
            one_of,
            also: node.text("also").and_then(|also| self.bounded_pattern(&also)),
            format: node.string("format").filter(|_| textual).and_then(|name| StringFormat::named(&name)),
            schemes: if textual { self.schemes(node) } else { Vec::new() },
            min_chars: min.filter(|_| textual).map_or(0, |min| min as usize),
            max_chars: max.filter(|_| textual).map_or(MAX_CHARS, |max| max as usize),
            bounds: (whole("min"), whole("max")),
        }))
    }

    /// The schemes of addresses; empty: the default.
    fn schemes(&mut self, node: &Node) -> Vec<String> {
        let Some(list) = node.get("schemes") else { return Vec::new() };
        if node.string("format").as_deref() != Some(StringFormat::Uri.name()) {
            codes::DOES_NOT_APPLY
                .report(self.diagnostics, &list.span, "`schemes` applies to texts of the format `uri`")
                .help("add `format = \"uri\"`, or remove it");
            return Vec::new();
        }
        let schemes = node.texts("schemes");
        if list.items().is_empty() {
            let message = "the list of schemes is empty";
            codes::BAD_CHOICES.report(self.diagnostics, &list.span, message).help("name at least one, such as `https`");
        }
        for scheme in schemes.iter().filter(|scheme| !is_scheme(&scheme.value)) {
            codes::BAD_CHOICES
                .report(self.diagnostics, &scheme.span, format!("`{}` is not a scheme", scheme.value))
                .help("use lower-case letters, digits, `+`, `-` and `.`, starting with a letter: `https`, `s3`");
        }
        super::values(schemes)
    }

    /// A pattern, compiled once even if many fields share it.
    fn compiled(&mut self, text: &SpannedText) -> &Result<Pattern, String> {
        let budget = &mut self.pattern_budget;
        self.patterns.entry(text.value.clone()).or_insert_with(|| Pattern::new(&text.value, budget))
    }

    fn pattern(&mut self, text: &SpannedText) -> Option<Pattern> {
        match self.compiled(text).clone() {
            Ok(pattern) => Some(pattern),
            Err(reason) => {
                codes::BAD_PATTERN
                    .report(self.diagnostics, &text.span, format!("this regular expression cannot be used: {reason}"))
                    .help("it is matched against the whole text; single quotes save the backslashes: `'[a-z]+[0-9]'`");
                None
            }
        }
    }

    /// A pattern whose matches have a maximum length.
    fn bounded_pattern(&mut self, text: &SpannedText) -> Option<Pattern> {
        let pattern = self.pattern(text)?;
        if pattern.max_bytes.is_none() {
            codes::BAD_PATTERN
                .report(self.diagnostics, &text.span, "the length of these older values is not bounded")
                .help("bound the repetitions, such as `[a-z]{1,12}_[0-9]{1,12}`");
        }
        Some(pattern)
    }

    fn choices(&mut self, node: &Node) -> Vec<String> {
        let choices = node.texts("one_of");
        if let Some(list) = node.get("one_of")
            && list.items().is_empty()
        {
            let message = "the list of choices is empty";
            codes::BAD_CHOICES.report(self.diagnostics, &list.span, message).help("name at least one value");
        }
        for (at, choice) in choices.iter().enumerate() {
            if choices[..at].iter().any(|earlier| earlier.value == choice.value) {
                let message = format!("`{}` is repeated", choice.value);
                codes::BAD_CHOICES.report(self.diagnostics, &choice.span, message).help("remove one");
            }
        }
        super::values(choices)
    }

    fn default(&mut self, field: &Field, node: &Node) -> Option<DefaultValue> {
        let value = node.json();
        let made = format!("{}{}", field.prefix(), EXAMPLE_ULID);
        match (&field.field_type, value.as_str()) {
            (FieldType::Ulid | FieldType::Uuid, Some("new")) => return Some(DefaultValue::New),
            (FieldType::String, Some("new")) if field.text_syntax.as_ref().is_some_and(|form| form.accepts(&made)) => {
                return Some(DefaultValue::New);
            }
            (FieldType::Timestamp(_) | FieldType::Date, Some("now")) => return Some(DefaultValue::Now),
            (FieldType::String | FieldType::Ulid | FieldType::Uuid, Some("caller")) if field.choices().is_empty() => {
                return Some(DefaultValue::Caller);
            }
            _ => {}
        }
        // A TOML date has been reported as an invalid value.
        let good = value == Value::Null || field.accepts(&value);
        if !good || (value == "new" && matches!(field.field_type, FieldType::String) && field.choices().is_empty()) {
            let help = match (&field.field_type, value.as_str()) {
                (FieldType::String, Some("new")) => {
                    format!("`new` makes a ULID such as {made}, which the field does not accept")
                }
                (FieldType::Ulid | FieldType::Uuid, _) => {
                    format!("write {}, \"new\" or \"caller\"", field.expectation())
                }
                (FieldType::Timestamp(_) | FieldType::Date, _) => format!("write {}, or \"now\"", field.expectation()),
                _ => format!("write {}", field.expectation()),
            };
            let message = format!("`{}` does not accept its default", field.name);
            codes::BAD_DEFAULT.report(self.diagnostics, &node.span, message).help(help);
            return None;
        }
        Some(DefaultValue::Constant(value))
    }
}

/// Whether a text is the scheme of an address, in lower case (RFC 3986, section 3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || "+-.".contains(each))
}
