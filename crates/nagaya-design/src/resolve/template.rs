//! Binds a template's text to the fields of its entity.

use std::sync::Arc;

use super::Resolver;
use crate::{
    codes,
    condition::Condition,
    design::{KeyAttributes, KeyTemplates},
    diagnostic::{Span, a, closest, did_you_mean, list},
    field::{self, Field},
    template::{End, Part, RawPart, Slot, Template, parse_parts},
    text_syntax::{ScalarType, TextSyntax, TimestampPrecision},
    tree::{Node, SpannedText},
};

/// Where a template is used, which decides which fields it may contain.
#[derive(Clone, Copy)]
pub(super) struct TemplateContext<'a> {
    /// It is a sort key, so its order matters.
    pub(super) sort: bool,
    /// The condition of the index, which may ensure that an optional field is present.
    pub(super) when: Option<&'a Condition>,
    /// It is a former key: only read, never written.
    pub(super) former: bool,
    /// It is an index key.
    pub(super) index: bool,
}

impl Resolver<'_> {
    /// The templates for both attributes of a key.
    pub(super) fn key_templates(
        &mut self,
        node: &Node,
        at: &Span,
        attributes: &KeyAttributes,
        fields: &[Field],
        context: TemplateContext<'_>,
    ) -> Option<KeyTemplates> {
        let names = [attributes.partition.as_str(), attributes.sort.as_str()];
        let settings: &[&str] = if context.index { &["wall", "when"] } else { &[] };
        let mut whole = true;
        for entry in node.entries().iter().filter(|entry| !settings.contains(&entry.key.as_str())) {
            if !names.contains(&entry.key.as_str()) {
                whole = false;
                let message = format!("`{}` is not an attribute of this key", entry.key);
                let near = closest(&entry.key, names.iter().chain(settings).copied());
                codes::KEY_ATTRIBUTES.report(self.diagnostics, &entry.key_span, message).help(match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the attributes are {}", list(&names)),
                });
            }
        }
        for name in names.iter().filter(|name| node.get(name).is_none()) {
            // A misspelt attribute has already been reported.
            if whole {
                let message = format!("the key attribute `{name}` has no template");
                codes::KEY_ATTRIBUTES.report(self.diagnostics, at, message).help(format!("add `{name} = \"…\"`"));
            }
        }
        let partition = node
            .text(names[0])
            .and_then(|text| self.template(text, fields, TemplateContext { sort: false, ..context }));
        let sort =
            node.text(names[1]).and_then(|text| self.template(text, fields, TemplateContext { sort: true, ..context }));
        Some(KeyTemplates { partition: partition?, sort: sort? })
    }

    pub(super) fn template(
        &mut self,
        text: SpannedText,
        fields: &[Field],
        context: TemplateContext<'_>,
    ) -> Option<Template> {
        let raw = match parse_parts(&text.value) {
            Ok(raw) => raw,
            Err(error) => {
                let span = self.span_of(&text, &error.range);
                codes::TEMPLATE_SYNTAX.report(self.diagnostics, &span, error.message).help(error.help);
                return None;
            }
        };
        let before = self.diagnostics.len();
        let mut whole = true;
        let mut parts = Vec::new();
        for (at, part) in raw.iter().enumerate() {
            match part {
                RawPart::Literal(literal) => parts.push(Part::Literal(literal.clone())),
                RawPart::Field { path, pad, range } => {
                    let span = self.span_of(&text, range);
                    let form = self.key_field(path, *pad, &span, fields, context);
                    let next = raw.get(at + 1);
                    whole &= form.is_some();
                    if let Some(form) = form
                        && let Some(end) = self.end(form, *pad, next, &span)
                    {
                        parts.push(Part::Slot(Slot {
                            path: path.clone(),
                            pad: *pad,
                            range: range.clone(),
                            text_syntax: Arc::clone(form),
                            end,
                        }));
                    }
                }
            }
        }
        (whole && self.diagnostics.len() == before).then(|| Template::new(text.value, text.span, parts))
    }

    /// The syntax of a field that may be used here.
    fn key_field<'f>(
        &mut self,
        path: &str,
        pad: Option<usize>,
        span: &Span,
        fields: &'f [Field],
        context: TemplateContext<'_>,
    ) -> Option<&'f Arc<TextSyntax>> {
        let Some(found) = field::find(fields, path) else {
            let names = fields.iter().map(|field| field.name.as_str());
            let message = format!("the entity has no field `{path}`");
            codes::UNKNOWN_FIELD.report(self.diagnostics, span, message).help(did_you_mean(path, names));
            return None;
        };
        if !found.has_known_type {
            return None;
        }
        if field::is_marked(fields, path, |field| field.secret) {
            codes::SECRET_IN_KEY
                .report(self.diagnostics, span, format!("`{path}` is secret, but keys are visible"))
                .help("keys appear in logs, cursors and metrics: use a separate field with a hash of it");
        }
        let optional = field::is_marked(fields, path, |field| field.optional);
        if optional && !context.former && !context.when.is_some_and(|when| when.requires(path)) {
            let message = format!("`{path}` is optional, so the key could not always be rendered");
            codes::OPTIONAL_IN_KEY.report(self.diagnostics, span, message).also(&found.span, "optional here").help(
                if context.index {
                    format!("make it required, or leave items without it out of the index: `when = \"exists {path}\"`")
                } else {
                    "make it required, or use another field".to_owned()
                },
            );
        }
        let Some(form) = &found.text_syntax else {
            let message = format!("`{path}` is {}, which cannot be part of a key", a(found.field_type.name()));
            let help = "string, integer, boolean, timestamp, date, ulid and uuid can";
            codes::NOT_A_KEY_TYPE.report(self.diagnostics, span, message).help(help);
            return None;
        };
        if form.one_of.iter().any(String::is_empty) {
            let message = format!("`{path}` may be empty, but a key cannot contain an empty value");
            codes::BAD_CHOICES
                .report(self.diagnostics, span, message)
                .also(&found.span, "one of its choices is empty")
                .help("name the choice, such as `none`");
        }
        match form.scalar_type {
            ScalarType::Timestamp(TimestampPrecision::Any) => {
                let message = format!(
                    "`{path}` has no fixed format: equal times have different texts, and text order is not time \
                     order"
                );
                codes::FREE_TIMESTAMP
                    .report(self.diagnostics, span, message)
                    .also(&found.span, "declared with `precision = \"any\"`")
                    .help("give it `precision = \"seconds\"`, `\"millis\"` or `\"micros\"`");
            }
            ScalarType::Integer | ScalarType::Timestamp(TimestampPrecision::Epoch) => {
                self.number_in_key(path, pad, span, found, form, context.sort);
            }
            _ if pad.is_some() => {
                let message = format!("`{path}` is {}, and only numbers are padded", a(found.field_type.name()));
                codes::TEMPLATE_SYNTAX.report(self.diagnostics, span, message).help(format!("write `{{{path}}}`"));
            }
            _ => {}
        }
        Some(form)
    }

    fn number_in_key(
        &mut self,
        path: &str,
        pad: Option<usize>,
        span: &Span,
        field: &Field,
        form: &TextSyntax,
        sort: bool,
    ) {
        let epoch = matches!(form.scalar_type, ScalarType::Timestamp(_));
        let (min, max) = if epoch { (Some(0), Some(9_999_999_999)) } else { form.bounds };
        let digits = |number: i64| number.checked_ilog10().map_or(1, |digits| digits as usize + 1);
        let Some(pad) = pad else {
            // Numbers with the same number of digits have the same order as text.
            let one_length = min.zip(max).is_some_and(|(min, max)| min >= 0 && digits(min) == digits(max));
            if sort && !one_length {
                let width = max.map_or(10, digits);
                codes::UNPADDED_NUMBER
                    .report(self.diagnostics, span, format!("`{path}` sorts as text here: 10 comes before 9"))
                    .help(format!("pad it: `{{{path}:0{width}}}`"));
            }
            return;
        };
        let most = 10_i64.checked_pow(u32::try_from(pad).unwrap_or(u32::MAX)).map_or(i64::MAX, |limit| limit - 1);
        let (message, help) = if min.is_none_or(|min| min < 0) {
            (format!("`{path}` may be negative, but a padded number cannot be"), "give the field `min = 0`".to_owned())
        } else if max.is_none_or(|max| max > most) {
            let help = match max {
                Some(max) => format!("pad it to {} digits: `{{{path}:0{}}}`", digits(max), digits(max)),
                None => format!("give the field `max = {most}`"),
            };
            (format!("`{path}` may have more than {pad} digits"), help)
        } else {
            return;
        };
        codes::NUMBER_DOES_NOT_FIT
            .report(self.diagnostics, span, message)
            .also(&field.span, "declared here")
            .help(help);
    }

    /// How the parser finds the end of a value.
    fn end(&mut self, form: &TextSyntax, pad: Option<usize>, next: Option<&RawPart>, span: &Span) -> Option<End> {
        let fixed = pad.or_else(|| form.fixed_length());
        let touching = match next {
            None => return Some(End::Last),
            Some(RawPart::Literal(literal)) => {
                let mark = literal.chars().next()?;
                match fixed {
                    Some(length) if form.may_contain(mark) => return Some(End::After(length)),
                    // Letters and digits occur in escapes, numbers and booleans, so they cannot terminate a value.
                    None if mark.is_ascii_alphanumeric() => format!("`{mark}` can be part of this value"),
                    None if mark == '-' && form.may_be_negative() => "`-` can be part of this number".to_owned(),
                    _ => return Some(End::Before(mark)),
                }
            }
            Some(RawPart::Field { path, .. }) => match fixed {
                Some(length) => return Some(End::After(length)),
                None => format!("`{path}` follows directly"),
            },
        };
        let message = format!("the end of this value is ambiguous: {touching}");
        codes::TOUCHING_FIELDS.report(self.diagnostics, span, message).help("put a separator such as `#` after it");
        None
    }
}
