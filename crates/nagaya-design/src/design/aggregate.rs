//! Aggregates and their events.

use crate::{diagnostic::Span, field::Field};

/// An event of an aggregate.
#[derive(Debug, Clone)]
pub struct EventType {
    /// Its name.
    pub name: String,
    /// The fields of its data.
    pub fields: Vec<Field>,
}

/// An event-sourced aggregate.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// The field with its id.
    pub id: String,
    /// Position of the entity that holds its events.
    pub events: usize,
    /// Position of the entity with its version.
    pub head: usize,
    /// Position of the entity that maps idempotency keys.
    pub idempotency: Option<usize>,
    /// Position of the entity with its snapshots.
    pub snapshot: Option<usize>,
    /// Position of the entity with the encryption keys of personal fields.
    pub keys: Option<usize>,
    /// Positions of the entities built from its events.
    pub projections: Vec<usize>,
    /// Its events.
    pub event_types: Vec<EventType>,
    pub(crate) span: Span,
}

impl Aggregate {
    /// Whether the entity at a position belongs to it.
    pub fn has_entity(&self, entity: usize) -> bool {
        let single = [Some(self.events), Some(self.head), self.idempotency, self.snapshot, self.keys];
        single.contains(&Some(entity)) || self.projections.contains(&entity)
    }
}
