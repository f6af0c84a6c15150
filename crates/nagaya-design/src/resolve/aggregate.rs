//! Aggregates: their entities and their events.

use super::Resolver;
use crate::{
    design::{Aggregate, Design, EventType},
    tree::{Entry, SpannedText},
};

impl Resolver<'_> {
    pub(super) fn aggregate(&mut self, entry: &Entry, design: &Design) -> Option<Aggregate> {
        let node = &entry.node;
        let names = design.entities.iter().map(|entity| entity.name.as_str());
        let mut entity =
            |text: Option<SpannedText>| text.and_then(|text| self.resolve("entity", &text, names.clone(), "entity"));
        let events = entity(node.text("events"));
        let head = entity(node.text("head"));
        let idempotency = entity(node.text("idempotency"));
        let snapshot = entity(node.text("snapshot"));
        let keys = entity(node.text("keys"));
        let projections = node.texts("projections").into_iter().filter_map(|text| entity(Some(text))).collect();
        let mut event = Vec::new();
        for entry in node.section("event") {
            event.push(EventType { name: entry.key.clone(), fields: self.fields(entry.node.entries()) });
        }
        Some(Aggregate {
            name: entry.key.clone(),
            description: node.string("description"),
            id: node.string("id")?,
            events: events?,
            head: head?,
            idempotency,
            snapshot,
            keys,
            projections,
            event_types: event,
            span: entry.key_span.clone(),
        })
    }
}
