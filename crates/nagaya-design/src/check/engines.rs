//! Limits and missing features of one engine.

use crate::{
    Engine, codes,
    design::{Design, Entity, Table},
    diagnostic::{Diagnostic, Span},
    field::{FieldType, OnDelete},
    language::Languages,
    template::Part,
};

pub(super) fn check(design: &Design, engine: Engine, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    for table in &design.tables {
        ignored_settings(table, engine, diagnostics);
    }
    if engine == Engine::Dynamodb {
        dynamodb_filters(design, diagnostics);
    }
    if engine == Engine::Cosmos {
        for table in &design.tables {
            cosmos_ttl(table, diagnostics);
        }
        for entity in &design.entities {
            cosmos_id(design, entity, languages, diagnostics);
            cosmos_batches(design, entity, diagnostics);
            cosmos_numbers(entity, diagnostics);
        }
        cosmos_queries(design, diagnostics);
        cosmos_audit(design, diagnostics);
        cosmos_changes(design, diagnostics);
    }
}

fn ignored_settings(table: &Table, engine: Engine, diagnostics: &mut Vec<Diagnostic>) {
    let ignored = table.ignored_settings(engine);
    if !ignored.is_empty() {
        let message = format!("the {engine} engine ignores {}", crate::diagnostic::list(&ignored));
        codes::SETTING_IGNORED.report(diagnostics, &table.span, message).help(if ignored.contains(&"encryption") {
            "keep its directory on an encrypted disk"
        } else {
            "the design runs without it"
        });
    }
}

/// DynamoDB rejects a filter on an attribute of the query's own key.
fn dynamodb_filters(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for access in &design.access_patterns {
        let (attributes, _) = design.key_of_access(access);
        let (Some(filter), Some(text)) = (&access.filter, &access.filter_text) else { continue };
        filter.each_field(&mut |field, _, _| {
            if field.path == attributes.partition || field.path == attributes.sort {
                let message = format!("`{}` is an attribute of the key that `{}` queries", field.path, access.name);
                let help = "use it in `by`, `range` or `prefix`, or use another index";
                codes::DYNAMODB_FILTER.report(diagnostics, &text.span, message).help(help);
            }
        });
    }
}

/// In Cosmos DB the expiry attribute is always `ttl`.
fn cosmos_ttl(table: &Table, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(ttl) = table.ttl.as_ref().filter(|ttl| *ttl != "ttl") {
        let message = format!("the expiry of a document is in `ttl`, not in `{ttl}`");
        codes::COSMOS_TTL.report(diagnostics, &table.span, message).help("write `ttl = \"ttl\"`");
    }
}

/// Characters that a Cosmos DB id cannot contain.
const FORBIDDEN: [char; 4] = ['/', '\\', '?', '#'];

fn cosmos_id(design: &Design, entity: &Entity, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    let table = design.table_of(entity);
    let template = &entity.key.sort;
    let literal = template.parts.iter().find_map(|part| match part {
        Part::Literal(literal) => literal.chars().find(|each| FORBIDDEN.contains(each)),
        Part::Slot(_) => None,
    });
    if let Some(mark) = literal {
        codes::COSMOS_ID
            .report(diagnostics, &template.span, format!("the id of a document cannot contain `{mark}`"))
            .also(&table.span, "the sort key of this table becomes the id")
            .help("join the parts of the sort key with `_`, `-`, `:` or `|`");
        return;
    }
    // `#` is escaped in values; the others are not.
    let free = template.slots().find(|slot| languages.may_contain(slot, "[/\\\\?]"));
    if let Some(slot) = free {
        let message = format!("`{}` may contain `/`, `\\` or `?`, which the id of a document cannot", slot.path);
        let help = "narrow it with a `pattern` such as `[A-Za-z0-9_-]+`";
        codes::COSMOS_ID.report(diagnostics, &template.span, message).help(help);
    }
}

fn cosmos_queries(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for access in &design.access_patterns {
        let table = design.table_of(&design.entities[access.entity]);
        let (attributes, _) = design.key_of_access(access);
        if attributes.partition != table.key.partition {
            let message = format!("the query of `{}` reads every partition of the container", access.name);
            codes::COSMOS_CROSS_QUERY.report(diagnostics, &access.span, message).help(format!(
                "start its index with `{}` where the tenant is known, or explain why it is fine: `# NG0901: …` above \
                 this line",
                table.key.partition
            ));
        }
    }
}

fn cosmos_batches(design: &Design, entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let tenant = entity.tenant.as_deref();
    let one_partition = entity.key.partition.fields().all(|path| Some(path) == tenant);
    for unique in &entity.unique {
        if !unique.within_tenant || !one_partition {
            let fields = crate::diagnostic::list(&unique.fields);
            cosmos_batch(diagnostics, &unique.span, &format!("the item and the marker that keeps {fields} unique"))
                .help("make it unique within a tenant whose partition is the container's");
        }
    }
    for field in &entity.fields {
        let Some(reference) = field.reference.as_ref().filter(|reference| reference.on_delete == OnDelete::Cascade)
        else {
            continue;
        };
        if design.entity(&reference.entity).is_some_and(|target| are_apart(target, entity)) {
            let what = format!("`{}` and its `{}` items", reference.entity, entity.name);
            cosmos_batch(diagnostics, &reference.span, &what)
                .help("keep both in one partition of one container, or use `on_delete = \"restrict\"`");
        }
    }
}

/// Whether items of two entities are never in one partition.
fn are_apart(one: &Entity, other: &Entity) -> bool {
    one.table != other.table || one.key.partition.as_str() != other.key.partition.as_str()
}

/// Reports items that are written together, but not in one batch.
fn cosmos_batch<'d>(diagnostics: &'d mut Vec<Diagnostic>, span: &Span, what: &str) -> &'d mut Diagnostic {
    let message = format!("{what} are in different partitions, and a batch has only one: they are written in steps");
    codes::COSMOS_BATCH.report(diagnostics, span, message)
}

fn cosmos_audit(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    let (Some(audit), Some(entries)) = (&design.audit, design.audit_entity()) else { return };
    let mut audited = design.entities.iter().filter(|entity| design.is_audited(entity));
    let first = audited.find(|entity| are_apart(entity, entries));
    if let (Some(first), Some((_, action))) = (first, audit.fields().first()) {
        let what = format!("`{}` items and `{}` items", entries.name, first.name);
        cosmos_batch(diagnostics, &action.span, &what).help(
            "keep both in one partition of one container, or explain why it is fine: `# NG0903: …` above this line",
        );
    }
}

fn cosmos_numbers(entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    for field in entity.fields.iter().filter(|field| matches!(field.field_type, FieldType::Integer)) {
        let within = |bound: Option<f64>| bound.is_some_and(|bound| bound.abs() <= EXACT);
        if !within(field.range.0) || !within(field.range.1) {
            let message = format!("`{}` may exceed 2^53, beyond which numbers lose digits", field.name);
            let help = "give it a `min` and a `max`, or keep it as a string";
            codes::COSMOS_NUMBER.report(diagnostics, &field.span, message).help(help);
        }
    }
}

fn cosmos_changes(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for aggregate in &design.aggregates {
        let events = &design.entities[aggregate.events];
        let Some(idempotency) = aggregate.idempotency.map(|at| &design.entities[at]) else { continue };
        if are_apart(idempotency, events) {
            cosmos_batch(diagnostics, &aggregate.span, &format!("`{}` and `{}`", idempotency.name, events.name))
                .also(&idempotency.key.partition.span, "its partition")
                .help("give both the same partition");
        }
    }
    for table in design.tables.iter().filter(|table| table.stream) {
        let message = "the change feed has the newest version of a document only: no old images and no deletions";
        let help = "if consumers need old images or deletions, keep them in the data, for instance by soft delete";
        codes::COSMOS_CHANGES.report(diagnostics, &table.span, message).help(help);
    }
}
