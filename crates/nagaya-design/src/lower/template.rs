//! Binds a template's text to the fields of its entity.

use std::sync::Arc;

use super::Lower;
use crate::{
    codes,
    condition::Condition,
    design::{KeyAttributes, KeyTemplates},
    diagnostic::{Diagnostic, Span, a, closest, did_you_mean, list},
    field::{self, Field},
    form::{Form, Material, Precision},
    template::{End, Part, Raw, Slot, Template, split},
    tree::{Node, Text},
};

/// Where a template stands, which decides what may be in it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// Its order matters.
    pub(super) sort: bool,
    /// The condition that lets optional fields in.
    pub(super) when: Option<&'a Condition>,
    /// It is only read, never written.
    pub(super) former: bool,
    /// It is the template of an index.
    pub(super) index: bool,
}

impl Lower<'_> {
    /// The templates for both attributes of a key.
    pub(super) fn key_templates(
        &mut self,
        node: &Node,
        at: &Span,
        attributes: &KeyAttributes,
        fields: &[Field],
        place: Place<'_>,
    ) -> Option<KeyTemplates> {
        let names = [attributes.partition.as_str(), attributes.sort.as_str()];
        let settings: &[&str] = if place.index { &["wall", "when"] } else { &[] };
        let mut whole = true;
        for entry in node.entries().iter().filter(|entry| !settings.contains(&entry.key.as_str())) {
            if !names.contains(&entry.key.as_str()) {
                whole = false;
                let message = format!("`{}` is not an attribute of this key", entry.key);
                let near = closest(&entry.key, names.iter().chain(settings).copied());
                self.report(Diagnostic::new(&codes::KEY_ATTRIBUTES, entry.key_span.clone(), message).help(
                    match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("the attributes are {}", list(&names)),
                    },
                ));
            }
        }
        for name in names.iter().filter(|name| node.get(name).is_none()) {
            // A misspelt attribute has been reported as the one it should not be.
            if whole {
                self.report(
                    Diagnostic::new(
                        &codes::KEY_ATTRIBUTES,
                        at.clone(),
                        format!("the key attribute `{name}` has no template"),
                    )
                    .help(format!("add `{name} = \"…\"`")),
                );
            }
        }
        let partition =
            node.text(names[0]).and_then(|text| self.template(text, fields, Place { sort: false, ..place }));
        let sort = node.text(names[1]).and_then(|text| self.template(text, fields, Place { sort: true, ..place }));
        Some(KeyTemplates { partition: partition?, sort: sort? })
    }

    pub(super) fn template(&mut self, text: Text, fields: &[Field], place: Place<'_>) -> Option<Template> {
        let raw = match split(&text.value) {
            Ok(raw) => raw,
            Err(malformed) => {
                let span = self.piece(&text, &malformed.range);
                self.report(Diagnostic::new(&codes::TEMPLATE_SYNTAX, span, malformed.message).help(malformed.help));
                return None;
            }
        };
        let before = self.problems.len();
        let mut whole = true;
        let mut parts = Vec::new();
        for (at, part) in raw.iter().enumerate() {
            match part {
                Raw::Literal(literal) => parts.push(Part::Literal(literal.clone())),
                Raw::Field { path, pad, range } => {
                    let span = self.piece(&text, range);
                    let form = self.key_field(path, *pad, &span, fields, place);
                    let next = raw.get(at + 1);
                    whole &= form.is_some();
                    if let Some(form) = form
                        && let Some(end) = self.end(form, *pad, next, &span)
                    {
                        parts.push(Part::Slot(Slot {
                            path: path.clone(),
                            pad: *pad,
                            range: range.clone(),
                            form: Arc::clone(form),
                            end,
                        }));
                    }
                }
            }
        }
        (whole && self.problems.len() == before).then(|| Template::new(text.value, text.span, parts))
    }

    /// The form of a field that may stand here.
    fn key_field<'f>(
        &mut self,
        path: &str,
        pad: Option<usize>,
        span: &Span,
        fields: &'f [Field],
        place: Place<'_>,
    ) -> Option<&'f Arc<Form>> {
        let Some(found) = field::find(fields, path) else {
            let names = fields.iter().map(|field| field.name.as_str());
            self.report(
                Diagnostic::new(&codes::UNKNOWN_FIELD, span.clone(), format!("the entity has no field `{path}`"))
                    .help(did_you_mean(path, names)),
            );
            return None;
        };
        if !found.known {
            return None;
        }
        if field::is_marked(fields, path, |field| field.secret) {
            self.report(
                Diagnostic::new(&codes::SECRET_IN_KEY, span.clone(), format!("`{path}` is secret, and keys are not"))
                    .help("keys show in logs, cursors and metrics: use a hash of it as a field of its own"),
            );
        }
        let optional = field::is_marked(fields, path, |field| field.optional);
        if optional && !place.former && !place.when.is_some_and(|when| when.requires(path)) {
            self.report(
                Diagnostic::new(
                    &codes::OPTIONAL_IN_KEY,
                    span.clone(),
                    format!("`{path}` is optional, so this key could not always be made"),
                )
                .also(found.span.clone(), "optional here")
                .help(if place.index {
                    format!("make it required, or keep items without it out: `when = \"exists {path}\"`")
                } else {
                    "make it required, or use another field".to_owned()
                }),
            );
        }
        let Some(form) = &found.form else {
            self.report(
                Diagnostic::new(
                    &codes::NOT_A_KEY_TYPE,
                    span.clone(),
                    format!("`{path}` is {}, which cannot be part of a key", a(found.kind.name())),
                )
                .help("string, integer, boolean, timestamp, date, ulid and uuid can"),
            );
            return None;
        };
        if form.one_of.iter().any(String::is_empty) {
            self.report(
                Diagnostic::new(
                    &codes::BAD_CHOICES,
                    span.clone(),
                    format!("`{path}` may be empty, and a key cannot hold an empty value"),
                )
                .also(found.span.clone(), "one of its choices is empty")
                .help("name the choice, such as `none`"),
            );
        }
        match form.material {
            Material::Timestamp(Precision::Any) => self.report(
                Diagnostic::new(&codes::FREE_TIMESTAMP, span.clone(), format!("`{path}` has no fixed form: equal instants have different texts, and text order is not time order"))
                    .also(found.span.clone(), "declared with `precision = \"any\"`")
                    .help("give it `precision = \"seconds\"`, `\"millis\"` or `\"micros\"`"),
            ),
            Material::Integer | Material::Timestamp(Precision::Epoch) => self.number_in_key(path, pad, span, found, form, place.sort),
            _ if pad.is_some() => self.report(
                Diagnostic::new(&codes::TEMPLATE_SYNTAX, span.clone(), format!("`{path}` is {}, and only numbers are padded", a(found.kind.name())))
                    .help(format!("write `{{{path}}}`")),
            ),
            _ => {}
        }
        Some(form)
    }

    fn number_in_key(&mut self, path: &str, pad: Option<usize>, span: &Span, field: &Field, form: &Form, sort: bool) {
        let epoch = matches!(form.material, Material::Timestamp(_));
        let (min, max) = if epoch { (Some(0), Some(9_999_999_999)) } else { form.bounds };
        let digits = |number: i64| number.checked_ilog10().map_or(1, |digits| digits as usize + 1);
        let Some(pad) = pad else {
            // Numbers of one length sort as text like they do as numbers.
            let one_length = min.zip(max).is_some_and(|(min, max)| min >= 0 && digits(min) == digits(max));
            if sort && !one_length {
                let width = max.map_or(10, digits);
                self.report(
                    Diagnostic::new(
                        &codes::UNPADDED_NUMBER,
                        span.clone(),
                        format!("`{path}` sorts as text here: 10 comes before 9"),
                    )
                    .help(format!("pad it: `{{{path}:0{width}}}`")),
                );
            }
            return;
        };
        let most = 10_i64.checked_pow(u32::try_from(pad).unwrap_or(u32::MAX)).map_or(i64::MAX, |limit| limit - 1);
        let (message, help) = if min.is_none_or(|min| min < 0) {
            (format!("`{path}` may be negative, and a padded number cannot be"), "give the field `min = 0`".to_owned())
        } else if max.is_none_or(|max| max > most) {
            let help = match max {
                Some(max) => format!("pad it to {} digits: `{{{path}:0{}}}`", digits(max), digits(max)),
                None => format!("give the field `max = {most}`"),
            };
            (format!("`{path}` may have more than {pad} digits"), help)
        } else {
            return;
        };
        self.report(
            Diagnostic::new(&codes::NUMBER_DOES_NOT_FIT, span.clone(), message)
                .also(field.span.clone(), "declared here")
                .help(help),
        );
    }

    /// How a parser will find the end of a value.
    fn end(&mut self, form: &Form, pad: Option<usize>, next: Option<&Raw>, span: &Span) -> Option<End> {
        let fixed = pad.or_else(|| form.fixed_length());
        let touching = match next {
            None => return Some(End::Last),
            Some(Raw::Literal(literal)) => {
                let mark = literal.chars().next()?;
                match fixed {
                    Some(length) if form.may_contain(mark) => return Some(End::After(length)),
                    // Letters and digits spell escapes, numbers and truth values, so they cannot end one.
                    None if mark.is_ascii_alphanumeric() => format!("`{mark}` can be part of this value"),
                    None if mark == '-' && form.may_be_negative() => "`-` can be part of this number".to_owned(),
                    _ => return Some(End::Before(mark)),
                }
            }
            Some(Raw::Field { path, .. }) => match fixed {
                Some(length) => return Some(End::After(length)),
                None => format!("`{path}` follows at once"),
            },
        };
        self.report(
            Diagnostic::new(
                &codes::TOUCHING_FIELDS,
                span.clone(),
                format!("nothing tells where this value ends: {touching}"),
            )
            .help("put a mark such as `#` after it"),
        );
        None
    }
}
