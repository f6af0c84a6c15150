//! Constraints of entities: uniqueness, references, soft delete, expiry.

use crate::{
    codes,
    design::{Design, Entity, SoftDelete, UniqueConstraint, Wall},
    diagnostic::{Diagnostic, a, did_you_mean, list},
    field::{Field, FieldType},
    text_syntax::TimestampPrecision,
};

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for entity in &design.entities {
        for unique in &entity.unique {
            unique_kept(design, entity, unique, diagnostics);
        }
        for field in &entity.fields {
            reference(design, entity, field, diagnostics);
            inner_references(field, diagnostics);
        }
        if let Some(soft) = &entity.soft_delete {
            soft_delete(entity, soft, diagnostics);
        }
        expiry(design, entity, diagnostics);
    }
    for event in design.aggregates.iter().flat_map(|aggregate| &aggregate.event_types) {
        for field in &event.fields {
            if let Some(reference) = &field.reference {
                let message = format!(
                    "`{}` of the event `{}` cannot refer to an entity: events are never deleted",
                    field.name, event.name
                );
                codes::BAD_REFERENCE.report(diagnostics, &reference.span, message).help("refer from the projection");
            }
            inner_references(field, diagnostics);
        }
    }
}

fn unique_kept(design: &Design, entity: &Entity, unique: &UniqueConstraint, diagnostics: &mut Vec<Diagnostic>) {
    if unique.fields.is_empty() {
        codes::UNIQUE_NOT_KEPT
            .report(diagnostics, &unique.span, "a unique constraint needs a field")
            .help("name at least one: `fields = [\"email\"]`");
    }
    for text in &unique.field_texts {
        let path = &text.value;
        let Some(field) = entity.field(path) else {
            let names = entity.fields.iter().map(|field| field.name.as_str());
            let message = format!("`{}` has no field `{path}`", entity.name);
            codes::UNIQUE_NOT_KEPT.report(diagnostics, &text.span, message).help(did_you_mean(path, names));
            continue;
        };
        if field.text_syntax.is_none() {
            let message = format!("`{path}` is {}, which cannot be compared", a(field.field_type.name()));
            codes::UNIQUE_NOT_KEPT.report(diagnostics, &text.span, message).help("use a text, integer, date or id");
        } else if entity.is_optional(path) && !unique.when.as_ref().is_some_and(|when| when.requires(path)) {
            let message = format!("`{path}` is optional: it is undefined whether two items without it are equal");
            let help = format!("make it required, or add `when = \"exists {path}\"`");
            codes::UNIQUE_NOT_KEPT.report(diagnostics, &text.span, message).help(help);
        } else if entity.is_secret(path) {
            let message = format!("`{path}` is secret, and a conflict would reveal it");
            codes::UNIQUE_NOT_KEPT.report(diagnostics, &text.span, message).help("use another field");
        }
    }
    if unique.within_tenant && entity.tenant.is_none() {
        let message = format!("`{}` belongs to no tenant, so it cannot be unique within one", entity.name);
        codes::UNIQUE_NOT_KEPT.report(diagnostics, &unique.span, message).help("write `within = \"all\"`");
    }
    let is_field = |path: &str| unique.fields.iter().any(|field| field == path);
    let is_of_tenant = entity.wall == Wall::Key && !entity.tenant.as_deref().is_some_and(is_field);
    if (unique.within_tenant || !is_of_tenant) && entity.id_fields().into_iter().all(is_field) {
        let message = "the key already makes this unique";
        codes::UNIQUE_NOT_KEPT.report(diagnostics, &unique.span, message).help("remove the constraint");
    }
    let expires = entity.ttl_after.is_some()
        || design.table_of(entity).ttl.as_deref().is_some_and(|ttl| entity.field(ttl).is_some());
    if expires {
        let message =
            format!("{} stays taken for a while after the `{}` item has expired", list(&unique.fields), entity.name);
        let help = "remove the constraint or the expiry, or explain why it is fine: `# NG0602: …` above this line";
        codes::UNIQUE_OUTLIVES.report(diagnostics, &unique.span, message).help(help);
    }
}

/// No key can find items by a field inside a map or list, so such a field cannot be a reference.
fn inner_references(field: &Field, diagnostics: &mut Vec<Diagnostic>) {
    let inner = match &field.field_type {
        FieldType::Map(inner) => inner.as_slice(),
        FieldType::List(Some(element)) => std::slice::from_ref(&**element),
        _ => &[],
    };
    for field in inner {
        if let Some(reference) = &field.reference {
            let message = format!(
                "`{}` is inside a map or list, and references there cannot be found from their target",
                field.name
            );
            let help = "refer from a field of the entity itself";
            codes::BAD_REFERENCE.report(diagnostics, &reference.span, message).help(help);
        }
        inner_references(field, diagnostics);
    }
}

fn reference(design: &Design, entity: &Entity, field: &Field, diagnostics: &mut Vec<Diagnostic>) {
    let Some(reference) = &field.reference else { return };
    let span = reference.span.clone();
    if design.unread.contains(&reference.entity) {
        return;
    }
    let Some(target) = design.entity(&reference.entity) else {
        let names = design.entities.iter().map(|entity| entity.name.as_str());
        let message = format!("there is no entity `{}`", reference.entity);
        codes::BAD_REFERENCE.report(diagnostics, &span, message).help(did_you_mean(&reference.entity, names));
        return;
    };
    let ids = target.id_fields();
    let is_tenant = entity.tenant.as_deref() == Some(field.name.as_str());
    let fits = match ids.as_slice() {
        [] => is_tenant,
        [_] => true,
        _ => false,
    };
    if !fits {
        let message = match ids.len() {
            0 => format!("`{}` is found by its tenant alone, and `{}` is not the tenant", target.name, field.name),
            _ => format!("`{}` is found by {}, not by one field", target.name, list(&ids)),
        };
        let help = "refer to an entity whose key has one field besides the tenant";
        codes::BAD_REFERENCE.report(diagnostics, &span, message).also(&target.key.sort.span, "its key").help(help);
        return;
    }
    let scalar_type =
        |field: Option<&Field>| field.and_then(|field| field.text_syntax.as_ref()).map(|form| form.scalar_type);
    if let [id] = ids.as_slice()
        && scalar_type(target.field(id)) != scalar_type(Some(field))
    {
        let wanted = target.field(id).map_or("string", |field| field.field_type.name());
        let message = format!(
            "`{}` is {}, and the id of `{}` is {}",
            field.name,
            a(field.field_type.name()),
            target.name,
            a(wanted)
        );
        codes::BAD_REFERENCE.report(diagnostics, &span, message).help("give both the same type");
        return;
    }
    if target.wall == Wall::Key && entity.tenant.is_none() {
        let message =
            format!("`{}` belongs to no tenant and cannot refer to a tenant's `{}`", entity.name, target.name);
        codes::BAD_REFERENCE.report(diagnostics, &span, message).help("add the tenant to it, or remove the reference");
        return;
    }
    // The check that the target exists would tell the writer about items that it must not see, or never find one.
    let hidden = match target.wall {
        Wall::System => entity.is_written_by_tenant().then_some(("operators only", "tenants write")),
        Wall::Key | Wall::Attribute => {
            (!entity.is_written_by_tenant()).then_some(("its tenant only", "operators write"))
        }
        Wall::Public => None,
    };
    if let Some((readers, writers)) = hidden {
        let message = format!("`{}` is seen by {readers}, and {writers} `{}`", target.name, entity.name);
        codes::HIDDEN_REFERENCE
            .report(diagnostics, &span, message)
            .also(target.spans.wall.as_ref().unwrap_or(&target.span), "its wall")
            .help("remove `references`, or give both entities walls that let the writer see the target");
        return;
    }
    // Deleting the target has to find all referring items without a scan.
    if design.referrer_lookup(entity, field, target).is_none() {
        let message = format!(
            "no access pattern finds the `{}` items that refer to one `{}`, so a delete cannot find them",
            entity.name, target.name
        );
        let help = match target.wall == Wall::System || target.tenant.is_none() {
            false => format!("add an access pattern of `{}` with `by = [\"{}\"]`", entity.name, field.name),
            true => format!(
                "an operator deletes it: add an access pattern of `{}` with `by = [\"{}\"]` behind a wall of \
                 `system`",
                entity.name, field.name
            ),
        };
        codes::REFERENCE_NOT_FOUND.report(diagnostics, &span, message).help(help);
    }
}

fn soft_delete(entity: &Entity, soft: &SoftDelete, diagnostics: &mut Vec<Diagnostic>) {
    let mut wrong = |message: String, help: &str| {
        codes::BAD_SOFT_DELETE.report(diagnostics, &soft.span, message).help(help);
    };
    if soft.mark.is_none() && soft.at.is_none() {
        wrong("nothing marks a deleted item".to_owned(), "give `field` and `value`, or `at`");
    }
    if let Some((path, value)) = &soft.mark {
        match entity.field(path) {
            None => wrong(format!("`{}` has no field `{path}`", entity.name), "name one of its fields"),
            Some(field) => {
                if !field.accepts(value) {
                    wrong(format!("`{path}` can never be {value}"), "give a value that the field can have");
                }
                if field.immutable || entity.is_key_field(path) {
                    wrong(
                        format!("`{path}` never changes, so it cannot mark deletion"),
                        "use a field that is not immutable and not in the key",
                    );
                }
            }
        }
    }
    for (path, what) in [(&soft.at, "time"), (&soft.by, "user")] {
        let Some(path) = path else { continue };
        match entity.field(path) {
            None => wrong(format!("`{}` has no field `{path}` for the {what}", entity.name), "name one of its fields"),
            Some(field) if !field.optional => wrong(
                format!("`{path}` has to be optional: items that are not deleted do not have it"),
                "add `optional = true`",
            ),
            Some(field) if what == "time" && !matches!(field.field_type, FieldType::Timestamp(_)) => {
                wrong(
                    format!("`{path}` is {} and cannot hold a time", a(field.field_type.name())),
                    "make it a timestamp",
                );
            }
            Some(_) => {}
        }
    }
}

fn expiry(design: &Design, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let table = design.table_of(entity);
    if let (Some(span), None) = (&entity.spans.ttl_after, &table.ttl) {
        let message = format!("the table `{}` has no expiry attribute", table.id);
        let help = "name one in the table: `ttl = \"expiresAt\"`";
        codes::BAD_TTL.report(diagnostics, span, message).also(&table.span, "the table").help(help);
    }
    let field = table.ttl.as_deref().and_then(|ttl| entity.field(ttl));
    if let Some(field) =
        field.filter(|field| !matches!(field.field_type, FieldType::Timestamp(TimestampPrecision::Epoch)))
    {
        let message = format!("`{}` is the expiry attribute of the table, a number of seconds since 1970", field.name);
        let help = "declare it as `{ type = \"timestamp\", precision = \"epoch\" }`, or rename it";
        codes::BAD_TTL.report(diagnostics, &field.span, message).help(help);
    }
}
