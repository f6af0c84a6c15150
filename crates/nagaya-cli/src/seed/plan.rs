//! The plan: which entities get items, from whom, and in which order.

use std::collections::BTreeMap;

use nagaya_design::{AuditPart, Design, Entity, Wall};

use super::links::{self, Link};

/// An entity that gets items.
#[derive(Debug)]
pub(super) struct Task<'d> {
    pub(super) entity: &'d Entity,
    /// Whether they belong to no tenant, and an operator writes them.
    pub(super) by_operator: bool,
    /// The links of its fields.
    pub(super) links: BTreeMap<String, Link>,
}

/// An entity that gets no items.
#[derive(Debug)]
pub(super) struct Skipped {
    pub(super) entity: String,
    pub(super) why: String,
}

/// The entities to fill, referenced ones first; and those to skip.
pub(super) fn plan(design: &Design) -> (Vec<Task<'_>>, Vec<Skipped>) {
    let mut skipped = Vec::new();
    let mut filled = Vec::new();
    for entity in &design.entities {
        match why_not(design, entity) {
            Some(why) => skipped.push(Skipped { entity: entity.name.clone(), why }),
            None => filled.push(entity),
        }
    }
    let tasks = filled.iter().map(|entity| Task {
        entity,
        by_operator: entity.wall == Wall::System || entity.tenant.is_none(),
        links: links::links(design, entity, &filled),
    });
    (in_order(tasks.collect()), skipped)
}

/// Why an entity gets no items.
fn why_not(design: &Design, entity: &Entity) -> Option<String> {
    let at = design.entities.iter().position(|each| each.name == entity.name)?;
    if let Some(audit) = &design.audit {
        let entries =
            [AuditPart::Action, AuditPart::Actor, AuditPart::Target].into_iter().filter_map(|part| audit.field(part));
        if audit.entity == at {
            return Some("holds the audit entries of changes".to_owned());
        }
        if entries.clone().count() > 1 && entries.clone().all(|field| entity.field(field).is_some()) {
            return Some("holds archived audit entries".to_owned());
        }
    }
    design.aggregates.iter().find_map(|aggregate| {
        let events = &design.entities[aggregate.events];
        // Items in the partition of the events are about them: the head, snapshots.
        let beside =
            entity.table == events.table && entity.key.partition.to_string() == events.key.partition.to_string();
        if aggregate.projections.contains(&at) {
            return Some(format!("is built from the events of `{}`", aggregate.name));
        }
        let own = beside || aggregate.has_entity(at);
        own.then(|| format!("is written together with the events of `{}`", aggregate.name))
    })
}

/// Needed entities first; cycles in the order of the design.
fn in_order(mut waiting: Vec<Task<'_>>) -> Vec<Task<'_>> {
    let mut ordered: Vec<Task<'_>> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let is_waiting =
            |name: &str, of: &Task<'_>| name != of.entity.name && waiting.iter().any(|other| other.entity.name == name);
        let refers = |task: &&Task<'_>| {
            let references = task.entity.fields.iter().filter_map(|field| field.reference.as_ref());
            references.clone().any(|reference| is_waiting(&reference.entity, task))
        };
        let needs = |task: &&Task<'_>| refers(task) || task.links.values().any(|link| is_waiting(&link.entity, task));
        let next = waiting
            .iter()
            .position(|task| !needs(&task))
            .or_else(|| waiting.iter().position(|task| !refers(&task)))
            .unwrap_or(0);
        ordered.push(waiting.remove(next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_referred_to_comes_first() {
        for system in crate::systems::names() {
            let design = crate::systems::find(system, &crate::systems::Resources::default())
                .expect("sound")
                .expect("built in")
                .design;
            let (tasks, _) = plan(&design);
            let at = |name: &str| tasks.iter().position(|task| task.entity.name == name);
            for task in &tasks {
                for field in &task.entity.fields {
                    let Some(reference) = &field.reference else { continue };
                    assert!(at(&reference.entity) <= at(&task.entity.name), "{system}: {}", task.entity.name);
                }
            }
        }
    }

    #[test]
    fn events_and_audit_entries_are_left_out() {
        let left_out = |system: &str| -> Vec<String> {
            let design = crate::systems::find(system, &crate::systems::Resources::default())
                .expect("sound")
                .expect("built in")
                .design;
            plan(&design).1.into_iter().map(|skipped| skipped.entity).collect()
        };
        assert_eq!(left_out("todo"), ["event", "head", "snapshot", "idempotency", "todo"]);
        assert_eq!(left_out("aiagent"), ["audit", "archived_audit"]);
        assert_eq!(left_out("management"), ["audit_log"]);
        assert!(left_out("kondate").is_empty());
    }
}
