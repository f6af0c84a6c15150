//! Fields that callers cannot set: `readonly`, `since` and those that the token gives.

use crate::{
    audit::AuditPart,
    codes,
    design::{Design, Entity, SCHEMA_ATTRIBUTE},
    diagnostic::Diagnostic,
    field::{DefaultValue, Field, FieldType},
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for (at, entity) in design.entities.iter().enumerate() {
        for field in &entity.fields {
            if field.readonly && design.is_created_by_callers(at) {
                can_be_set(entity, field, diagnostics);
            }
            since(design, at, field, diagnostics);
            inner(field, diagnostics);
        }
    }
    for event in design.aggregates.iter().flat_map(|aggregate| &aggregate.event_types) {
        for field in &event.fields {
            misplaced(field, diagnostics);
            inner(field, diagnostics);
        }
    }
}

/// A new item has to be complete without the fields that callers cannot set.
fn can_be_set(entity: &Entity, field: &Field, diagnostics: &mut Vec<Diagnostic>) {
    if field.optional || field.default.is_some() || field.since.is_some() {
        return;
    }
    let message =
        format!("callers create items of `{}` but cannot set `{}`, which is required", entity.name, field.name);
    let help = "make it optional, give it a default, or leave `create` out of the entity's `routes`";
    codes::NEVER_SET.report(diagnostics, &field.span, message).help(help);
}

/// A `since` field has to be optional and mutable, and cannot have another purpose.
fn since(design: &Design, at: usize, field: &Field, diagnostics: &mut Vec<Diagnostic>) {
    let Some(text) = &field.since_text else { return };
    let entity = &design.entities[at];
    let name = &field.name;
    let soft = entity.soft_delete.as_ref();
    let audit = design.audit.as_ref().filter(|audit| audit.entity == at);
    let wrong = if entity.is_key_field(name) {
        Some((format!("`{name}` is part of the key, but would change with the condition"), "use another field"))
    } else if !field.optional {
        Some((format!("`{name}` is required, but absent while the condition is false"), "add `optional = true`"))
    } else if field.immutable {
        Some((format!("`{name}` is immutable, but changes with the condition"), "remove `immutable`"))
    } else if field.default.is_some() {
        Some((format!("`{name}` has a default, but is absent while the condition is false"), "remove `default`"))
    } else if soft.is_some_and(|soft| soft.at.as_ref() == Some(name)) {
        Some((format!("`{name}` holds the time of deletion"), "use another field"))
    } else if audit.is_some_and(|audit| audit.field(AuditPart::At) == Some(name)) {
        Some((format!("`{name}` holds the time of the audit entry"), "use another field"))
    } else if design.table_of(entity).ttl.as_ref() == Some(name) {
        Some((format!("`{name}` says when the item expires"), "use another field"))
    } else if design.aggregates.iter().any(|aggregate| aggregate.has_entity(at)) {
        Some((format!("`{}` is built from events, which have their own times", entity.name), "remove `since`"))
    } else {
        let fields = field.since.as_ref().map(|condition| condition.fields()).unwrap_or_default();
        let follows = |path: &str| entity.field(path).is_some_and(|other| other.since_text.is_some());
        let managed = |path: &str| path == SCHEMA_ATTRIBUTE && entity.schema.is_some();
        fields
            .into_iter()
            .find(|path| follows(path) || managed(path))
            .map(|path| (format!("`{name}` cannot depend on `{path}`, which is set after it"), "use other fields"))
    };
    if let Some((message, help)) = wrong {
        codes::BAD_SINCE.report(diagnostics, &text.span, message).help(help);
    }
}

/// Maps and lists are written as a whole, so these keys do not apply inside of them.
fn inner(field: &Field, diagnostics: &mut Vec<Diagnostic>) {
    let fields = match &field.field_type {
        FieldType::Map(fields) => fields.as_slice(),
        FieldType::List(Some(element)) => {
            // `readonly` elements are reported where the list is read.
            if element.since_text.is_some() {
                misplaced(element, diagnostics);
            }
            inner(element, diagnostics);
            return;
        }
        _ => return,
    };
    for field in fields {
        misplaced(field, diagnostics);
        inner(field, diagnostics);
    }
}

fn misplaced(field: &Field, diagnostics: &mut Vec<Diagnostic>) {
    let key = match &field.since_text {
        Some(_) => "since",
        None if field.readonly => "readonly",
        None if field.default == Some(DefaultValue::Caller) => "default = \"caller\"",
        None => return,
    };
    let message = format!("`{key}` applies to the fields of an entity, not inside of maps, lists and events");
    codes::DOES_NOT_APPLY.report(diagnostics, &field.span, message).help("move it to a field of the entity itself");
}
