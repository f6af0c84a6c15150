//! The audit: its entity is behind the tenant's wall, and its fields accept what is recorded.

use serde_json::Value;

use crate::{
    audit::{AUDIT_VERBS, Audit, AuditPart},
    codes,
    design::{Design, Entity, Wall},
    diagnostic::{Diagnostic, Span, a, did_you_mean},
    field::{Field, FieldType},
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    let (Some(audit), Some(entity)) = (&design.audit, design.audit_entity()) else { return };
    if entity.tenant.is_none() || !matches!(entity.wall, Wall::Key | Wall::Attribute) {
        let message = format!(
            "`{}` items are not behind their tenant's wall, so tenants could not read their own entries",
            entity.name
        );
        let help = "give the entity the tenant, and a wall of `key` or `attribute`";
        codes::BAD_AUDIT.report(diagnostics, &entity.span, message).help(help);
    }
    let promised = entity.fields.iter().find(|field| field.reference.is_some());
    if !entity.unique.is_empty() || promised.is_some() {
        let message =
            format!("`{}` has a unique constraint or a reference, so writing an entry could fail", entity.name);
        let help = "remove it: an entry has to be writable in any case";
        codes::BAD_AUDIT.report(diagnostics, &entity.span, message).help(help);
    }
    for (part, text) in audit.fields() {
        match entity.fields.iter().find(|field| field.name == text.value) {
            None => {
                let names = entity.fields.iter().map(|field| field.name.as_str());
                let message = format!("`{}` has no field `{}`", entity.name, text.value);
                codes::BAD_AUDIT.report(diagnostics, &text.span, message).help(did_you_mean(&text.value, names));
            }
            Some(field) => {
                if let Err((message, help)) = takes(*part, entity, field) {
                    codes::BAD_AUDIT.report(diagnostics, &text.span, message).help(help);
                }
            }
        }
    }
    if let Some((action, message)) = refused_action(design, audit, entity) {
        let help = "let the field accept `entity.verb` for every audited entity, or add `audit = false` to the entity";
        codes::BAD_AUDIT.report(diagnostics, &action, message).help(help);
    }
    for field in entity.fields.iter().filter(|field| !is_filled(entity, audit, field)) {
        codes::BAD_AUDIT
            .report(diagnostics, &field.span, format!("an entry has no value for `{}`", field.name))
            .help("make it optional, give it a default, or name it in `[audit]`");
    }
}

/// Checks that a field can hold a part of an entry.
fn takes(part: AuditPart, entity: &Entity, field: &Field) -> Result<(), (String, String)> {
    let fits = match (part, &field.field_type) {
        (AuditPart::At, FieldType::Timestamp(_)) | (AuditPart::Changes, FieldType::Any) => true,
        (AuditPart::Changes, FieldType::Map(inner)) => inner.is_empty(),
        (AuditPart::At | AuditPart::Changes, _) => false,
        (_, kind) => matches!(kind, FieldType::String),
    };
    let wanted = match part {
        AuditPart::At => "a timestamp",
        AuditPart::Changes => "a map without fields of its own",
        _ => "a string",
    };
    let name = &field.name;
    if !fits {
        let message = format!("`{name}` is {} and cannot hold the {}", a(field.field_type.name()), part.name());
        return Err((message, format!("make it {wanted}")));
    }
    if field.secret || entity.tenant.as_deref() == Some(name) {
        let message = format!("`{name}` is secret or the tenant and cannot hold the {}", part.name());
        return Err((message, "name another field".to_owned()));
    }
    if !part.is_always_known() && !field.optional && field.default.is_none() {
        let message = format!("`{name}` has to be optional: the {} is not always known", part.name());
        return Err((message, "add `optional = true`".to_owned()));
    }
    Ok(())
}

/// The first action that the field for actions does not accept.
fn refused_action(design: &Design, audit: &Audit, entity: &Entity) -> Option<(Span, String)> {
    let (_, text) = audit.fields().iter().find(|(part, _)| *part == AuditPart::Action)?;
    let field =
        entity.fields.iter().find(|field| field.name == text.value && matches!(field.field_type, FieldType::String))?;
    let audited = design.entities.iter().filter(|each| design.is_audited(each));
    let mut actions = audited.flat_map(|each| AUDIT_VERBS.map(|verb| format!("{}.{verb}", each.name)));
    let refused = actions.find(|action| !field.accepts(&Value::from(action.as_str())))?;
    Some((text.span.clone(), format!("`{}` can never be `{refused}`", field.name)))
}

/// Whether every entry has a value for a field.
fn is_filled(entity: &Entity, audit: &Audit, field: &Field) -> bool {
    let named = audit.fields().iter().any(|(_, text)| text.value == field.name);
    let tenant = entity.tenant.as_deref().is_some_and(|path| path.split('.').next() == Some(&field.name));
    named || tenant || field.optional || field.default.is_some()
}
