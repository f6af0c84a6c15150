//! Schema versions: the steps form a chain, and each step matches the fields of its versions.

use std::collections::BTreeSet;

use crate::{
    codes,
    design::{Design, Entity, SchemaStep},
    diagnostic::Diagnostic,
    version::Version,
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for entity in &design.entities {
        let (Some(current), false) = (entity.schema, entity.schema_steps.is_empty()) else {
            missing_schema(entity, diagnostics);
            continue;
        };
        let mut steps: Vec<&SchemaStep> = entity.schema_steps.iter().collect();
        steps.sort_by_key(|step| step.from);
        let before = diagnostics.len();
        chain(entity, current, &steps, diagnostics);
        for step in &steps {
            check_version_bump(step, diagnostics);
        }
        if diagnostics.len() == before {
            fit(entity, current, &steps, diagnostics);
        }
    }
}

fn missing_schema(entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    if let (None, Some(step)) = (entity.schema, entity.schema_steps.first()) {
        codes::SCHEMA_GAP
            .report(diagnostics, &step.span, format!("`{}` has schema steps but no schema version", entity.name))
            .help(format!("set the version that is written: `schema = \"{}\"`", step.to));
    }
}

fn chain(entity: &Entity, current: Version, steps: &[&SchemaStep], diagnostics: &mut Vec<Diagnostic>) {
    for step in steps.iter().filter(|step| step.to <= step.from) {
        let message = format!("the step from {} to {} does not go forward", step.from, step.to);
        codes::SCHEMA_GAP.report(diagnostics, &step.span, message).help("`to` has to be later than `from`");
    }
    for pair in steps.windows(2) {
        if pair[0].from == pair[1].from {
            codes::SCHEMA_GAP
                .report(diagnostics, &pair[1].span, format!("two steps start from {}", pair[1].from))
                .help("keep only one: a chain does not branch");
        } else if pair[0].to != pair[1].from {
            codes::SCHEMA_GAP
                .report(diagnostics, &pair[1].span, format!("no step leads from {} to {}", pair[0].to, pair[1].from))
                .help(format!("add one, or let this one start from {}", pair[0].to));
        }
    }
    let reached = steps.iter().any(|step| step.from == current || step.to == current);
    if !reached && let Some(span) = &entity.spans.schema {
        codes::SCHEMA_GAP
            .report(diagnostics, span, format!("no step leads to or from the version {current}"))
            .help(format!("add a step to {current}, or write the version that the steps lead to"));
    }
}

fn check_version_bump(step: &SchemaStep, diagnostics: &mut Vec<Diagnostic>) {
    if step.is_breaking() && step.to.major == step.from.major {
        let message = format!("the step from {} to {} removes or changes fields", step.from, step.to);
        let help =
            format!("readers of {} would fail: lead to {}.0 instead", step.from, step.from.major.saturating_add(1));
        codes::SCHEMA_BUMP.report(diagnostics, &step.span, message).help(help);
    }
}

/// Follows the fields forward through future steps and back through past ones, starting at the declared fields.
fn fit(entity: &Entity, current: Version, steps: &[&SchemaStep], diagnostics: &mut Vec<Diagnostic>) {
    let declared: BTreeSet<&str> = entity.fields.iter().map(|field| field.name.as_str()).collect();
    let mut wrong = |step: &SchemaStep, name: &str, reason: &str| {
        let message = format!("the step from {} to {} names `{name}`, which {reason}", step.from, step.to);
        let help = "a step can use the fields of the version before it and of the version after it";
        codes::SCHEMA_STEP.report(diagnostics, &step.span, message).help(help);
    };
    let mut fields = declared.clone();
    for step in steps.iter().filter(|step| step.from >= current) {
        for name in step.drop.iter().chain(step.rename.iter().map(|(old, _)| old)) {
            if !fields.remove(name.as_str()) {
                wrong(step, name, "is not a field at that version");
            }
        }
        fields.extend(step.add.iter().map(|(name, _)| name.as_str()));
        fields.extend(step.rename.iter().map(|(_, new)| new.as_str()));
        for (name, _) in step.set.iter().filter(|(name, _)| !fields.contains(name.as_str())) {
            wrong(step, name, "is not a field at that version");
        }
        for name in copied(step).filter(|name| !fields.contains(name) && !step.drop.iter().any(|gone| gone == name)) {
            wrong(step, name, "is not a field at that version");
        }
    }
    let mut fields = declared.clone();
    for step in steps.iter().rev().filter(|step| step.to <= current) {
        for (name, _) in step.set.iter().filter(|(name, _)| !fields.contains(name.as_str())) {
            wrong(step, name, "is not a field at that version");
        }
        for name in step.add.iter().map(|(name, _)| name).chain(step.rename.iter().map(|(_, new)| new)) {
            if !fields.remove(name.as_str()) {
                wrong(step, name, "is not a field afterwards");
            }
        }
        for name in step.drop.iter().chain(step.rename.iter().map(|(old, _)| old)) {
            if !fields.insert(name) {
                wrong(step, name, "is still a field afterwards");
            }
        }
        for name in copied(step).filter(|name| !fields.contains(name)) {
            wrong(step, name, "is not a field at that version");
        }
    }
    for step in steps {
        let constants = step.set.iter().filter(|(_, value)| copied_field(value).is_none());
        for (name, value) in step.add.iter().chain(constants) {
            if entity.field(name).is_some_and(|field| !field.accepts(value)) {
                wrong(step, name, "does not accept the value");
            }
        }
    }
}

/// The field that a value copies: `"{other}"`.
fn copied_field(value: &serde_json::Value) -> Option<&str> {
    value.as_str()?.strip_prefix('{')?.strip_suffix('}')
}

/// The fields that a step copies from.
fn copied(step: &SchemaStep) -> impl Iterator<Item = &str> {
    step.set.iter().filter_map(|(_, value)| copied_field(value))
}
