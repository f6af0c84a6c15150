//! Fields that callers do not give: something else sets them.

use crate::{
    audit::Part,
    codes,
    design::{Design, Entity, SCHEMA_ATTRIBUTE},
    diagnostic::Diagnostic,
    field::{Field, Type},
};

pub(super) fn check(design: &Design, problems: &mut Vec<Diagnostic>) {
    for (at, entity) in design.entities.iter().enumerate() {
        for field in &entity.fields {
            if field.readonly && design.is_created_by_callers(at) {
                can_be_set(entity, field, problems);
            }
            if field.since_text.is_some() {
                since(design, at, field, problems);
            }
            inner(field, problems);
        }
    }
    for event in design.aggregates.iter().flat_map(|aggregate| &aggregate.event) {
        for field in &event.fields {
            misplaced(field, problems);
            inner(field, problems);
        }
    }
}

/// What callers make has to be complete without the fields that they do not give.
fn can_be_set(entity: &Entity, field: &Field, problems: &mut Vec<Diagnostic>) {
    if field.optional || field.default.is_some() || field.since.is_some() {
        return;
    }
    problems.push(
        Diagnostic::new(
            &codes::NEVER_SET,
            field.span.clone(),
            format!("callers make items of `{}` and do not give `{}`, which every item needs", entity.name, field.name),
        )
        .help("make it optional, give it a default, or leave `create` out of the entity's `routes`"),
    );
}

/// The beginning of a condition can only be kept where it may be absent, may change, and is nothing else besides.
fn since(design: &Design, at: usize, field: &Field, problems: &mut Vec<Diagnostic>) {
    let entity = &design.entities[at];
    let name = &field.name;
    let soft = entity.soft_delete.as_ref();
    let audit = design.audit.as_ref().filter(|audit| audit.entity == at);
    let wrong = if entity.is_key_field(name) {
        Some((format!("`{name}` is part of the key, and would change with the condition"), "use another field"))
    } else if !field.optional {
        Some((format!("`{name}` is required, but gone while the condition does not hold"), "add `optional = true`"))
    } else if field.immutable {
        Some((format!("`{name}` is immutable, and could not follow the condition"), "leave `immutable` out"))
    } else if field.default.is_some() {
        Some((format!("`{name}` has a default, but is gone while the condition does not hold"), "leave `default` out"))
    } else if soft.is_some_and(|soft| soft.at.as_ref() == Some(name)) {
        Some((format!("`{name}` takes the instant of deletion"), "use another field"))
    } else if audit.is_some_and(|audit| audit.field(Part::At) == Some(name)) {
        Some((format!("`{name}` takes the instant of what is written down"), "use another field"))
    } else if design.table_of(entity).ttl.as_ref() == Some(name) {
        Some((format!("`{name}` says when the item expires"), "use another field"))
    } else if design.aggregates.iter().any(|aggregate| aggregate.keeps(at)) {
        Some((format!("`{}` is written from events, which say when they happened", entity.name), "leave `since` out"))
    } else {
        let fields = field.since.as_ref().map(|condition| condition.fields()).unwrap_or_default();
        let follows = |path: &str| entity.field(path).is_some_and(|other| other.since_text.is_some());
        let managed = |path: &str| path == SCHEMA_ATTRIBUTE && entity.schema.is_some();
        fields.into_iter().find(|path| follows(path) || managed(path)).map(|path| {
            (format!("`{name}` cannot follow from `{path}`, which is set after it"), "ask for other fields")
        })
    };
    if let (Some((message, help)), Some(text)) = (wrong, &field.since_text) {
        problems.push(Diagnostic::new(&codes::BAD_SINCE, text.span.clone(), message).help(help));
    }
}

/// Inside of maps and lists, what is given is given as a whole.
fn inner(field: &Field, problems: &mut Vec<Diagnostic>) {
    let fields = match &field.kind {
        Type::Map(fields) => fields.as_slice(),
        Type::List(Some(element)) => {
            // That an element is not readonly has been said where it is read.
            if element.since_text.is_some() {
                misplaced(element, problems);
            }
            inner(element, problems);
            return;
        }
        _ => return,
    };
    for field in fields {
        misplaced(field, problems);
        inner(field, problems);
    }
}

fn misplaced(field: &Field, problems: &mut Vec<Diagnostic>) {
    let key = match &field.since_text {
        Some(_) => "since",
        None if field.readonly => "readonly",
        None => return,
    };
    problems.push(
        Diagnostic::new(
            &codes::DOES_NOT_APPLY,
            field.span.clone(),
            format!("`{key}` applies to the fields of an entity, not inside of maps, lists and events"),
        )
        .help("say it of a field of the entity itself"),
    );
}
