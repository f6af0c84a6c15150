//! The entities and fields in which a design stores an aggregate.

use nagaya_design::{Design, Entity, EventType, SortBound};

use crate::{Error, ErrorKind};

/// The entities and fields in which a design stores an aggregate.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) aggregate: String,
    /// The field with the aggregate's id.
    pub(crate) id: String,
    pub(crate) events: Entity,
    pub(crate) head: Entity,
    pub(crate) idempotency: Option<Entity>,
    pub(crate) snapshot: Option<Entity>,
    /// The entity of the keys that encrypt personal fields.
    pub(crate) keys: Option<Entity>,
    pub(crate) projections: Vec<Entity>,
    /// The access pattern that lists an aggregate's events in order, from one id to another.
    pub(crate) history: String,
    pub(crate) types: Vec<EventType>,
    /// The table of each projection, by its name in the design.
    pub(crate) tables: Vec<String>,
}

impl Layout {
    pub(crate) fn from_design(design: &Design, aggregate: &str) -> Result<Self, Error> {
        let found = design.aggregates.iter().find(|each| each.name == aggregate);
        let found = found.ok_or_else(|| ErrorKind::NoAggregate(aggregate.to_owned()))?;
        let entity = |at: usize| design.entities[at].clone();
        let events = entity(found.events);
        let projections: Vec<Entity> = found.projections.iter().map(|at| entity(*at)).collect();
        let tables = projections.iter().map(|entity| design.table_of(entity).id.clone()).collect();
        Ok(Layout {
            aggregate: found.name.clone(),
            id: found.id.clone(),
            history: history_access(design, &events, &found.id)
                .ok_or_else(|| ErrorKind::NoHistory { aggregate: found.name.clone(), entity: events.name.clone() })?,
            events,
            head: entity(found.head),
            idempotency: found.idempotency.map(entity),
            // A snapshot would contain in clear what is encrypted in the events.
            snapshot: found.snapshot.filter(|_| found.keys.is_none()).map(entity),
            keys: found.keys.map(entity),
            projections,
            types: found.event_types.clone(),
            tables,
        })
    }

    /// The entity of a projection, and its table.
    pub(crate) fn projection(&self, entity: &str) -> Option<(&Entity, &str)> {
        let found = self.projections.iter().zip(&self.tables).find(|(each, _)| each.name == entity);
        found.map(|(entity, table)| (entity, table.as_str()))
    }
}

/// The access pattern that reads the events of one aggregate by their ids.
fn history_access(design: &Design, events: &Entity, id: &str) -> Option<String> {
    let reads = |access: &&nagaya_design::AccessPattern| {
        let by_id = design.parameters(access).iter().any(|parameter| parameter.name == id && parameter.required);
        access.mapping.is_none() && by_id && matches!(&access.bound, SortBound::Range(field) if field == "eventId")
    };
    design.access_patterns_of(events).find(reads).map(|access| access.name.clone())
}
