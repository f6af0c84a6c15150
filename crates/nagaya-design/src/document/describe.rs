//! Parts of a design in words, for the Markdown document.

use crate::{
    design::{Entity, Wall},
    field::{DefaultValue, Field, FieldType, OnDelete},
    role::{Role, Verb},
    text_syntax::TimestampPrecision,
};

pub(super) fn role(role: &Role) -> Vec<String> {
    let may: Vec<_> = role.may.iter().map(|permission| code(&permission.to_string())).collect();
    let may = if role.is_unlimited() { "everything that operators can do".to_owned() } else { may.join(", ") };
    let mut notes: Vec<_> = role.description.iter().map(String::as_str).collect();
    notes.extend(role.operator.then_some("A role of operators."));
    vec![code(&role.name), may, notes.join(" ")]
}

pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

pub(super) fn codes(texts: &[String]) -> String {
    texts.iter().map(|text| code(text)).collect::<Vec<_>>().join(", ")
}

/// The anchor that Markdown renderers give a heading.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|each| each.is_alphanumeric() || "-_ ".contains(*each))
        .collect::<String>();
    kept.replace(' ', "-")
}

pub(super) fn wall_in_words(entity: &Entity) -> String {
    let tenant = entity.tenant.as_deref().map(code);
    match (entity.wall, tenant) {
        (Wall::Key, Some(tenant)) => {
            format!("Wall: the key. The partition contains {tenant}, so a tenant reaches only its own items.")
        }
        (Wall::Attribute, Some(tenant)) => {
            format!(
                "Wall: the attribute {tenant}, checked on every item read and written. No IAM leading-key policy covers it."
            )
        }
        (Wall::Public, Some(tenant)) => format!("Wall: public. Every tenant reads it, the one in {tenant} writes it."),
        (Wall::Public, None) => "Wall: public. Every tenant reads it, only an operator writes it.".to_owned(),
        (Wall::System, _) => {
            "Wall: system. Only an operator reads and writes it, with a reason, and audited.".to_owned()
        }
        (Wall::Key | Wall::Attribute, None) => String::new(),
    }
}

pub(super) fn field_rows(fields: &[Field], parent: &str, rows: &mut Vec<Vec<String>>) {
    for field in fields {
        let path = format!("{parent}{}", field.name);
        rows.push(vec![code(&path), type_in_words(field), default_in_words(field), field_notes(field).join(", ")]);
        match &field.field_type {
            FieldType::Map(inner) => field_rows(inner, &format!("{path}."), rows),
            FieldType::List(Some(element)) => {
                if let FieldType::Map(inner) = &element.field_type {
                    field_rows(inner, &format!("{path}[]."), rows);
                }
            }
            _ => {}
        }
    }
}

fn type_in_words(field: &Field) -> String {
    match &field.field_type {
        FieldType::Timestamp(TimestampPrecision::Millis) => "timestamp (ms)".to_owned(),
        FieldType::Timestamp(TimestampPrecision::Micros) => "timestamp (µs)".to_owned(),
        FieldType::Timestamp(TimestampPrecision::Epoch) => "timestamp (epoch)".to_owned(),
        FieldType::List(Some(element)) => format!("list of {}", element.field_type.name()),
        other => match field.prefix() {
            "" => other.name().to_owned(),
            prefix => format!("{} + {}", code(prefix), other.name()),
        },
    }
}

fn default_in_words(field: &Field) -> String {
    match &field.default {
        None => String::new(),
        Some(DefaultValue::New) => "new id".to_owned(),
        Some(DefaultValue::Now) => "now".to_owned(),
        Some(DefaultValue::Caller) => "the caller".to_owned(),
        Some(DefaultValue::Constant(value)) => code(&value.to_string()),
    }
}

fn field_notes(field: &Field) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(field.description.clone());
    notes.extend(field.optional.then(|| "optional".to_owned()));
    if !field.choices().is_empty() {
        notes.push(format!("one of {}", codes(field.choices())));
    }
    notes.extend(field.pattern().map(|pattern| format!("matches {}", code(pattern))));
    if let Some(format) = field.text_syntax.as_ref().and_then(|form| form.format) {
        notes.push(format.to_string());
    }
    match (&field.field_type, field.range) {
        (FieldType::Number | FieldType::Integer, (Some(min), Some(max))) => notes.push(format!("{min} to {max}")),
        (FieldType::Number | FieldType::Integer, (Some(min), None)) => notes.push(format!("at least {min}")),
        (FieldType::Number | FieldType::Integer, (None, Some(max))) => notes.push(format!("at most {max}")),
        (FieldType::String, (_, Some(max))) if field.pattern().is_none() => {
            notes.push(format!("up to {max} characters"));
        }
        (FieldType::List(_), _) => notes.push(format!("up to {} elements", field.max_size)),
        _ => {}
    }
    notes.extend(field.immutable.then(|| "immutable".to_owned()));
    match &field.since {
        Some(condition) => notes.push(format!("the time since {}", code(&condition.to_string()))),
        None => notes.extend(field.why_not_writable().map(|_| "set by the system".to_owned())),
    }
    notes.extend(field.personal.then(|| "**personal**".to_owned()));
    notes.extend(field.secret.then(|| "**secret**".to_owned()));
    notes.extend(field.reference.as_ref().map(|reference| {
        let on_delete = match reference.on_delete {
            OnDelete::Restrict => "which cannot be deleted while this exists",
            OnDelete::Cascade => "deleted with it",
        };
        format!("refers to [{}](#{}), {on_delete}", reference.entity, anchor(&reference.entity))
    }));
    notes
}

/// The verbs of single items, unless it has all.
pub(super) fn verb_note(entity: &Entity) -> String {
    if entity.routes == Verb::ALL {
        return String::new();
    }
    let verbs: Vec<_> = entity.routes.iter().map(|verb| verb.name()).collect();
    format!(", to {} only", verbs.join(" and "))
}

pub(super) fn constraint_notes(entity: &Entity) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(entity.version.as_ref().map(|version| format!("Optimistic version in {}.", code(version))));
    for unique in &entity.unique {
        let fields = unique.fields.iter().map(|field| code(field)).collect::<Vec<_>>().join(" and ");
        let within = if unique.within_tenant { "within a tenant" } else { "among all tenants" };
        let when = unique
            .when
            .as_ref()
            .map_or_else(String::new, |when| format!(", counting items with {}", code(&when.to_string())));
        notes.push(format!("Unique {within}: {fields}{when}."));
    }
    notes.extend(entity.names_first_come.then(|| {
        "Names are first come, first served: creating an item tells whether another tenant has the name.".to_owned()
    }));
    notes.extend(entity.owner.as_ref().map(|owner| format!("Belongs to the user in {}.", code(owner))));
    notes.extend(entity.ttl_after.map(|seconds| format!("Expires {} after its last write.", duration(seconds))));
    if let Some(soft) = &entity.soft_delete {
        let mut marks: Vec<String> =
            soft.mark.iter().map(|(field, value)| format!("{} = {}", code(field), code(&value.to_string()))).collect();
        marks.extend([&soft.at, &soft.by].into_iter().flatten().map(|field| code(field)));
        notes.push(format!("Soft delete: marked by {}.", marks.join(", ")));
    }
    for former in &entity.former_keys {
        notes.push(format!(
            "Older items have the key {} / {}.",
            code(former.partition.as_str()),
            code(former.sort.as_str())
        ));
    }
    if let Some(schema) = entity.schema {
        let steps: Vec<_> = entity.schema_steps.iter().map(|step| format!("{} → {}", step.from, step.to)).collect();
        let steps = if steps.is_empty() { String::new() } else { format!(" Steps: {}.", steps.join(", ")) };
        notes.push(format!("Schema version {schema}.{steps}"));
    }
    notes
}

pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        seconds if seconds % 86_400 == 0 => format!("{} days", seconds / 86_400),
        seconds if seconds % 3_600 == 0 => format!("{} hours", seconds / 3_600),
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}
