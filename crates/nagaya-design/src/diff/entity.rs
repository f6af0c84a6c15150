//! Entities: keys, walls, routes, constraints and schema steps.

use super::{CALLERS, Differences, ITEMS, KEYS, READERS, text};
use crate::design::{Design, Entity, KeyTemplates, SchemaStep, UniqueConstraint};

impl Differences {
    pub(super) fn entity(
        &mut self,
        path: &str,
        (old_design, old): (&Design, &Entity),
        (new_design, new): (&Design, &Entity),
    ) {
        let (old_table, new_table) = (old_design.table_of(old), new_design.table_of(new));
        self.compare_value(path, "the table", &old_table.id, &new_table.id, Some(KEYS));
        self.description(path, &old.description, &new.description);
        self.key(&format!("{path}.key"), &old.key, &new.key);
        self.former_keys(path, old, new);
        let wall = Some("who may read and write it changes");
        self.compare_value(path, "the wall", old.wall, new.wall, wall);
        self.compare_value(path, "the tenant's field", text(&old.tenant), text(&new.tenant), wall);
        self.compare_value(path, "the owner", text(&old.owner), text(&new.owner), wall);
        self.flag(path, "sharing names with other tenants", old.names_first_come, new.names_first_come, None);
        self.compare_value(path, "the discriminator", text(&old.discriminator), text(&new.discriminator), Some(ITEMS));
        let lost = old.version.is_some().then_some("the versions of stored items no longer count");
        self.compare_value(path, "the version attribute", text(&old.version), text(&new.version), lost);
        self.compare_value(path, "the path", &old.path, &new.path, Some(CALLERS));
        let removed = ("the route to {} is gone", Some(CALLERS));
        self.members(path, (&old.routes, &new.routes), removed, ("the route to {} is new", None));
        self.audited(path, old, new);
        let section = format!("{path}.index");
        for (path, old, new) in self.named(&section, &old.indexes, &new.indexes, |mapping| &mapping.name, CALLERS) {
            self.key(&path, &old.key, &new.key);
            self.compare_value(&path, "the wall", old.wall, new.wall, wall);
            let stale = Some("stored items are in the index by the old one");
            self.compare_value(&path, "the condition", text(&old.when), text(&new.when), stale);
        }
        self.fields(&format!("{path}.fields"), &old.fields, &new.fields, &new.schema_steps);
        self.unique(&format!("{path}.unique"), old, new);
        self.deletion(path, old, new);
        self.schema_steps(path, old, new);
        self.compare_value(path, "the schema version", text(&old.schema), text(&new.schema), None);
    }

    fn key(&mut self, path: &str, old: &KeyTemplates, new: &KeyTemplates) {
        self.compare_value(path, "the partition", &old.partition, &new.partition, Some(KEYS));
        self.compare_value(path, "the sort key", &old.sort, &new.sort, Some(KEYS));
        // The type of a field decides how its value ends in the key, and so which characters are escaped.
        let ends = |key: &KeyTemplates| -> Vec<_> {
            key.partition.slots().chain(key.sort.slots()).map(|slot| slot.end).collect()
        };
        let same_text = old.partition.as_str() == new.partition.as_str() && old.sort.as_str() == new.sort.as_str();
        if same_text && ends(old) != ends(new) {
            self.add(path, "values are escaped differently", Some(KEYS));
        }
    }

    fn former_keys(&mut self, path: &str, old: &Entity, new: &Entity) {
        let texts = |entity: &Entity| -> Vec<String> {
            entity.former_keys.iter().map(|key| format!("{} / {}", key.partition, key.sort)).collect()
        };
        let removed = ("the former key `{}` is gone", Some("items under it can no longer be read"));
        self.members(path, (&texts(old), &texts(new)), removed, ("the former key `{}` is new", None));
    }

    fn unique(&mut self, path: &str, old: &Entity, new: &Entity) {
        let text = |unique: &UniqueConstraint| {
            let within = if unique.within_tenant { "within a tenant" } else { "among all" };
            let when = unique.when.as_ref().map_or_else(String::new, |when| format!(" when {when}"));
            format!("{} {within}{when}", unique.fields.join("+"))
        };
        let texts = |entity: &Entity| -> Vec<String> { entity.unique.iter().map(text).collect() };
        let removed = ("`{}` is no longer unique", None);
        self.members(path, (&texts(old), &texts(new)), removed, ("`{}` has to be unique", Some(ITEMS)));
    }

    fn deletion(&mut self, path: &str, old: &Entity, new: &Entity) {
        let ttl = |entity: &Entity| entity.ttl_after.map_or_else(String::new, |seconds| format!("{seconds}s"));
        let is_sooner = new.ttl_after.is_some_and(|new| old.ttl_after.is_none_or(|old| new < old));
        let sooner = is_sooner.then_some("items expire earlier than before");
        self.compare_value(path, "the time to live", ttl(old), ttl(new), sooner);
        match (&old.soft_delete, &new.soft_delete) {
            (Some(_), None) => {
                self.add(path, "deleting removes items permanently", Some("deleted items cannot be restored"));
            }
            (None, Some(_)) => self.add(path, "deleting only marks items", None),
            (Some(before), Some(after)) if before.mark != after.mark => {
                self.add(path, "deleted items are marked differently", Some("items deleted before count as present"));
            }
            (Some(before), Some(after)) if (&before.at, &before.by) != (&after.at, &after.by) => {
                self.add(path, "a deletion is recorded in other fields", Some(READERS));
            }
            _ => {}
        }
    }

    fn schema_steps(&mut self, path: &str, old: &Entity, new: &Entity) {
        let same_step = |step: &SchemaStep, other: &SchemaStep| step.from == other.from && step.to == other.to;
        for step in &old.schema_steps {
            let name = format!("the step from {} to {}", step.from, step.to);
            match new.schema_steps.iter().find(|other| same_step(step, other)) {
                None => {
                    self.add(path, format!("{name} is gone"), Some("items of the older version cannot be upgraded"));
                }
                Some(other) if !step.has_same_effect(other) => {
                    let differ = Some("items upgraded before and after differ");
                    self.add(path, format!("{name} does something else"), differ);
                }
                Some(_) => {}
            }
        }
        for step in new.schema_steps.iter().filter(|step| !old.schema_steps.iter().any(|other| same_step(step, other)))
        {
            self.add(path, format!("a step from {} to {}", step.from, step.to), None);
        }
    }
}
