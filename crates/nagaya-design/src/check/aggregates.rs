//! Aggregates: events and head can be written together, and have the fields that replay needs.

use crate::{
    codes,
    design::{Aggregate, Design, Entity},
    diagnostic::{Diagnostic, list},
    text_syntax::ScalarType,
};

/// The fields of an aggregate's entities besides its id.
const EVENT_FIELDS: [&str; 4] = ["eventId", "eventType", "aggregateVersion", "data"];
const HEAD_FIELDS: [&str; 2] = ["aggregateVersion", "lastEventId"];
const SNAPSHOT_FIELDS: [&str; 3] = ["aggregateVersion", "lastEventId", "state"];
const IDEMPOTENCY_FIELDS: [&str; 3] = ["idempotencyKey", "eventId", "requestHash"];

pub(super) fn check(design: &Design, diagnostics: &mut Vec<Diagnostic>) {
    for aggregate in &design.aggregates {
        let (events, head) = (&design.entities[aggregate.events], &design.entities[aggregate.head]);
        carries(aggregate, events, &EVENT_FIELDS, diagnostics);
        carries(aggregate, head, &HEAD_FIELDS, diagnostics);
        if let Some(snapshot) = aggregate.snapshot.map(|at| &design.entities[at]) {
            carries(aggregate, snapshot, &SNAPSHOT_FIELDS, diagnostics);
        }
        if let Some(keys) = aggregate.keys.map(|at| &design.entities[at]) {
            let kept =
                ["subjectId", "key"].iter().filter(|name| keys.field(name).is_none()).copied().collect::<Vec<_>>();
            if !kept.is_empty() || !keys.is_secret("key") {
                let message = format!("`{}` needs the fields `subjectId` and, as a secret, `key`", keys.name);
                codes::BAD_AGGREGATE
                    .report(diagnostics, &aggregate.span, message)
                    .also(&keys.span, "the entity")
                    .help("give it `key = { type = \"string\", max = 64, secret = true }`");
            }
        }
        if let Some(idempotency) = aggregate.idempotency.map(|at| &design.entities[at]) {
            carries(aggregate, idempotency, &IDEMPOTENCY_FIELDS, diagnostics);
        }
        if events.table != head.table || events.key.partition.as_str() != head.key.partition.as_str() {
            let message = format!(
                "`{}` and `{}` are in different partitions, so an event and its version cannot be written together on \
                 every engine",
                events.name, head.name
            );
            let help = "put both into one table, with the same partition template";
            codes::BAD_AGGREGATE.report(diagnostics, &aggregate.span, message).help(help);
        }
        if !design.table_of(events).stream {
            let message = format!(
                "the changes of `{}` are not streamed, so no projection can be built from them",
                design.table_of(events).id
            );
            codes::BAD_AGGREGATE.report(diagnostics, &aggregate.span, message).help("add `stream = true` to the table");
        }
        let first = events.key.sort.slots().next();
        let ordered = first.is_some_and(|slot| match slot.path.as_str() {
            "eventId" => slot.text_syntax.scalar_type == ScalarType::Ulid,
            "aggregateVersion" => slot.pad.is_some(),
            _ => false,
        });
        if !ordered {
            let message = format!("the sort key of `{}` does not put events in order", events.name);
            let help = "continue it with `{eventId}`, a ulid, or with `{aggregateVersion:010}`";
            codes::BAD_AGGREGATE.report(diagnostics, &aggregate.span, message).help(help);
        }
        if let Some(idempotency) = aggregate.idempotency.map(|at| &design.entities[at])
            && idempotency.ttl_after.is_none()
        {
            let message = format!("`{}` items would never expire", idempotency.name);
            codes::BAD_AGGREGATE.report(diagnostics, &aggregate.span, message).help("give it `ttl_after = \"24h\"`");
        }
    }
}

fn carries(aggregate: &Aggregate, entity: &Entity, fields: &[&str], diagnostics: &mut Vec<Diagnostic>) {
    let all = fields.iter().copied().chain([aggregate.id.as_str()]);
    let missing: Vec<_> = all.filter(|name| entity.field(name).is_none()).collect();
    if !missing.is_empty() {
        let message = format!("`{}` does not have {}", entity.name, list(&missing));
        let help = "add the fields";
        codes::BAD_AGGREGATE.report(diagnostics, &aggregate.span, message).also(&entity.span, "the entity").help(help);
    }
}
