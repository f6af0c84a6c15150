//! The archive of the audit: its entity takes every entry as it is.

use serde_json::Value;

use crate::{
    audit::AuditPart,
    codes,
    design::{Design, Entity, Wall},
    diagnostic::Diagnostic,
    field::{Field, FieldType},
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    let (Some(audit), Some(entries), Some(archived)) =
        (&design.audit, design.audit_entity(), design.audit_archive_entity())
    else {
        return;
    };
    let Some(archive) = &audit.archive else { return };
    let mut report = |message: String, help: &str| {
        codes::BAD_ARCHIVE.report(diagnostics, &archive.span, message).help(help);
    };
    if archived.name == entries.name {
        report(format!("`{}` holds the entries already", entries.name), "name another entity");
        return;
    }
    if audit.field(AuditPart::At).is_none() {
        let help = "name the timestamp of the entries: `at = \"…\"`";
        report("`[audit]` has no `at`, so nothing tells how old an entry is".to_owned(), help);
    }
    if let Some(lives) = entries.ttl_after.filter(|lives| *lives <= archive.after) {
        let message = format!("entries are gone after {lives} s, and would move after {} s", archive.after);
        report(message, "let them move earlier, or live longer");
    }
    if archived.tenant != entries.tenant || !matches!(archived.wall, Wall::Key | Wall::Attribute) {
        let message = format!("`{}` items are not behind the wall of the tenant of the entries", archived.name);
        report(message, "give the entity the same tenant, and a wall of `key` or `attribute`");
    }
    for field in missing_in_key(entries, archived) {
        let message = format!(
            "`{field}` is in the key of `{}` and not in that of `{}`, so two entries could have one place",
            entries.name, archived.name
        );
        report(message, "put all fields of the key of the entries into the key of the archive");
    }
    let at = archive.entity;
    let is_aggregates =
        design.aggregates.iter().any(|aggregate| aggregate.has_entity(at) || aggregate.projections.contains(&at));
    if is_aggregates || !archived.unique.is_empty() || archived.soft_delete.is_some() {
        let message = format!("`{}` has rules of its own, so an entry could be refused", archived.name);
        report(message, "name an entity without unique constraints, soft delete and events");
    }
    for (field, problem) in unfit_fields(entries, archived) {
        report(format!("`{field}` of `{}` {problem}", archived.name), "give both entities the same fields");
    }
}

/// The fields that tell entries apart, and not their copies in the archive.
fn missing_in_key<'d>(entries: &'d Entity, archived: &Entity) -> Vec<&'d str> {
    let is_in_key =
        |field: &str| archived.key.partition.fields().chain(archived.key.sort.fields()).any(|each| each == field);
    let mut missing: Vec<&str> = Vec::new();
    for field in entries.key.partition.fields().chain(entries.key.sort.fields()) {
        if !is_in_key(field) && !missing.contains(&field) {
            missing.push(field);
        }
    }
    missing
}

/// The fields by which an archive cannot take entries as they are.
fn unfit_fields<'d>(entries: &'d Entity, archived: &'d Entity) -> Vec<(&'d str, &'static str)> {
    let missing = entries.fields.iter().filter_map(|field| {
        let problem = match archived.fields.iter().find(|other| other.name == field.name) {
            None => "is missing",
            Some(other) if !is_same(field, other) => "differs from the field of the entries",
            Some(_) => return None,
        };
        Some((field.name.as_str(), problem))
    });
    let further = archived.fields.iter().filter_map(|field| {
        let is_new = !entries.fields.iter().any(|other| other.name == field.name);
        let problem = match is_new {
            _ if field.reference.is_some() => "is a reference, so an entry could be refused",
            true if !field.optional => "is required, and the entries do not have it",
            _ => return None,
        };
        Some((field.name.as_str(), problem))
    });
    missing.chain(further).collect()
}

/// Whether two fields hold the same values.
fn is_same(one: &Field, other: &Field) -> bool {
    let values = |field: &Field| {
        let mut schema = field.json_schema();
        if let Value::Object(schema) = &mut schema {
            // What the field is called and who may set it does not matter.
            ["description", "default", "readOnly"].iter().for_each(|key| drop(schema.remove(*key)));
        }
        schema
    };
    let precision = |field: &Field| match field.field_type {
        FieldType::Timestamp(precision) => Some(precision),
        _ => None,
    };
    values(one) == values(other)
        && precision(one) == precision(other)
        && (one.secret, one.personal) == (other.secret, other.personal)
}
