//! Conditions: their fields exist, and their values have the type of the field.

use serde_json::Value;

use crate::{
    codes,
    condition::{Condition, ConditionField, ConditionValue, Term},
    design::{AccessPattern, Design, Entity, SCHEMA_ATTRIBUTE},
    diagnostic::{Diagnostic, did_you_mean},
    field::{Field, FieldType},
    template::is_field_name,
    text_syntax::{StringFormat, TimestampPrecision},
    tree::SpannedText,
    version::Version,
};

pub(super) fn check(design: &Design, source: &str, diagnostics: &mut Vec<Diagnostic>) {
    for entity in &design.entities {
        let mut checker = Checker { entity, source, diagnostics, parameters: false };
        for mapping in &entity.indexes {
            checker.condition(mapping.when.as_ref(), mapping.when_text.as_ref());
        }
        for unique in &entity.unique {
            checker.condition(unique.when.as_ref(), unique.when_text.as_ref());
        }
        for field in &entity.fields {
            checker.condition(field.since.as_ref(), field.since_text.as_ref());
        }
    }
    for access in &design.access_patterns {
        let entity = &design.entities[access.entity];
        let mut checker = Checker { entity, source, diagnostics, parameters: true };
        checker.condition(access.filter.as_ref(), access.filter_text.as_ref());
        checker.shared_parameters(access);
    }
}

struct Checker<'a> {
    entity: &'a Entity,
    source: &'a str,
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Whether parameters such as `{name}` are allowed.
    parameters: bool,
}

impl Checker<'_> {
    fn condition(&mut self, condition: Option<&Condition>, text: Option<&SpannedText>) {
        if let (Some(condition), Some(text)) = (condition, text) {
            condition.each_field(&mut |field, literals, equality| self.operand(field, literals, equality, text));
            self.one_type_each(condition, text);
        }
    }

    /// A parameter of the filter with the name of a field in `by` has one value for both, so the types must match.
    fn shared_parameters(&mut self, access: &AccessPattern) {
        let (Some(filter), Some(text)) = (&access.filter, &access.filter_text) else { return };
        let kind = |path: &str| self.entity.field(path).map(|field| field.field_type.name());
        let clash = filter
            .parameters()
            .into_iter()
            .find(|(name, path)| access.by.iter().any(|by| by == name) && kind(name) != kind(path));
        if let Some((name, path)) = clash {
            let message = format!("`{{{name}}}` is also the field `{name}` in `by`, and `{path}` is of another type");
            let help = "give the filter's parameter another name";
            codes::CONDITION_VALUE.report(self.diagnostics, &text.span, message).help(help);
        }
    }

    /// A parameter has one value, so the fields that it is compared with have one type.
    fn one_type_each(&mut self, condition: &Condition, text: &SpannedText) {
        let parameters = condition.parameters();
        let kind = |path: &str| self.entity.field(path).map(|field| field.field_type.name());
        let clash = parameters.iter().enumerate().find_map(|(at, (name, path))| {
            let earlier = parameters[..at].iter().find(|(other, _)| other == name)?;
            (kind(earlier.1) != kind(path)).then_some((*name, earlier.1, *path))
        });
        if let Some((name, one, other)) = clash {
            let message =
                format!("`{{{name}}}` cannot be compared with both `{one}` and `{other}`: their types differ");
            codes::CONDITION_VALUE.report(self.diagnostics, &text.span, message).help("use two parameters");
        }
    }

    fn operand(&mut self, operand: &ConditionField, literals: &[ConditionValue], equality: bool, text: &SpannedText) {
        let span = text.span_of(self.source, operand.range.clone());
        if operand.path == SCHEMA_ATTRIBUTE && self.entity.schema.is_some() {
            literals.iter().for_each(|literal| self.schema_version(literal, text));
            return;
        }
        let Some(field) = self.entity.field(&operand.path) else {
            let names = self.entity.fields.iter().map(|field| field.name.as_str());
            let message = format!("`{}` has no field `{}`", self.entity.name, operand.path);
            codes::CONDITION_FIELD.report(self.diagnostics, &span, message).help(did_you_mean(&operand.path, names));
            return;
        };
        if self.entity.is_secret(&operand.path) {
            let message = format!("`{}` is secret, and a condition would reveal it", operand.path);
            codes::CONDITION_VALUE.report(self.diagnostics, &span, message).help("use another field");
        }
        // Stores compare stored values, which are as they were typed.
        if !literals.is_empty()
            && field.text_syntax.as_ref().is_some_and(|form| form.format == Some(StringFormat::Email))
        {
            let message =
                format!("`{}` is an e-mail address, and conditions compare texts with their case", operand.path);
            codes::COMPARED_ADDRESS
                .report(self.diagnostics, &span, message)
                .help("find it by a key or an index, which compare addresses without case: `by = [\"…\"]`");
        }
        for literal in literals {
            self.literal(field, literal, equality, text);
        }
    }

    /// The schema version is not a field, but conditions may use it.
    fn schema_version(&mut self, literal: &ConditionValue, text: &SpannedText) {
        let good = match &literal.value {
            Term::Parameter(_) => self.parameters,
            Term::Constant(value) => value.as_str().is_some_and(|version| version.parse::<Version>().is_ok()),
        };
        if !good {
            let span = text.span_of(self.source, literal.range.clone());
            codes::CONDITION_VALUE
                .report(self.diagnostics, &span, format!("`{SCHEMA_ATTRIBUTE}` is never {}", literal.value))
                .help("write a version in quotes, such as `'1.0'`");
        }
    }

    fn literal(&mut self, field: &Field, literal: &ConditionValue, equality: bool, text: &SpannedText) {
        let span = text.span_of(self.source, literal.range.clone());
        match &literal.value {
            Term::Parameter(name) if !self.parameters => {
                let message =
                    format!("`{{{name}}}` is a parameter, which only the filter of an access pattern can have");
                codes::CONDITION_VALUE.report(self.diagnostics, &span, message).help("write a constant");
            }
            Term::Parameter(name) if !is_field_name(name) => codes::CONDITION_VALUE
                .report(self.diagnostics, &span, format!("`{name}` is not a valid parameter name"))
                .help("use letters, digits and `_`"),
            Term::Parameter(_) => {}
            Term::Constant(value) if !fits(field, value, equality) => codes::CONDITION_VALUE
                .report(self.diagnostics, &span, format!("`{}` is never {}", field.name, literal.value))
                .also(&field.span, format!("it is {}", field.expectation()))
                .help("compare it with a value that it can have"),
            Term::Constant(_) => {}
        }
    }
}

fn fits(field: &Field, value: &Value, equality: bool) -> bool {
    match (&field.field_type, value) {
        (FieldType::Any, _) => true,
        (FieldType::Boolean, Value::Bool(_)) => true,
        (FieldType::Number, Value::Number(number)) => {
            !equality || number.as_f64().is_some_and(|number| field.is_in_range(number))
        }
        (FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch), Value::Number(number)) => {
            let holds = |number| field.text_syntax.as_ref().is_none_or(|form| form.is_in_bounds(number));
            !equality || number.as_i64().is_some_and(holds)
        }
        // A comparison may use any text, unless the field lists its choices.
        (FieldType::String, Value::String(text)) => {
            !equality || field.choices().is_empty() || field.choices().contains(text)
        }
        (FieldType::Timestamp(_) | FieldType::Date | FieldType::Ulid | FieldType::Uuid, Value::String(text)) => {
            !equality || field.text_syntax.as_ref().is_some_and(|form| form.accepts(text))
        }
        _ => false,
    }
}
