//! What was done, by whom, when and from where: written in the same set as the change.
//!
//! Where the design has an audit, a tenant's changes, and what operators do on its behalf, become items of the tenant's own.
//! Besides, everything that an operator does goes into a log of the layer's own.

mod changes;
mod log;

use std::sync::Arc;

use nagaya_design::{Audit, Field, Part};
use nagaya_store::{Condition, Item, Value, Write, WriteSet};
use serde_json::{Map, Value as Json};

use crate::{Error, blueprint::Blueprint, draft, guard::Scope, plan::Planned, room::Room, values};

pub use self::log::{LogEntry, LogPage};

/// Something that was done to an item.
#[derive(Debug)]
pub(crate) struct Act {
    verb: &'static str,
    blueprint: Arc<Blueprint>,
    /// What it was done to: an id, or an access pattern.
    target: String,
    /// The tenant that it concerns.
    tenant: Option<String>,
    old: Option<Item>,
    new: Option<Item>,
}

impl Act {
    fn action(&self) -> String {
        format!("{}.{}", self.blueprint.name(), self.verb)
    }
}

impl Room {
    /// Adds a change to what is to be written down.
    pub(crate) fn note_change(
        &self,
        blueprint: &Arc<Blueprint>,
        old: Option<&Item>,
        new: Option<&Item>,
        planned: &mut Planned,
    ) {
        let verb = if old.is_none() { "create" } else { "update" };
        if old != new {
            self.note(verb, blueprint, (old, new), planned);
        }
    }

    /// Adds a removal to what is to be written down; `kept` is what is left of the item.
    pub(crate) fn note_removal(
        &self,
        blueprint: &Arc<Blueprint>,
        old: &Item,
        kept: Option<&Item>,
        planned: &mut Planned,
    ) {
        self.note("delete", blueprint, (Some(old), kept), planned);
    }

    fn note(
        &self,
        verb: &'static str,
        blueprint: &Arc<Blueprint>,
        (old, new): (Option<&Item>, Option<&Item>),
        planned: &mut Planned,
    ) {
        if self.reason.is_none() && !blueprint.audited {
            return;
        }
        let item = new.or(old);
        let tenant = self.scope.tenant().map(str::to_owned).or_else(|| self.owner(blueprint, item?));
        let target = item.map_or_else(String::new, |item| target(blueprint, &blueprint.id_of(item)));
        let (old, new) = (old.cloned(), new.cloned());
        planned.acts.push(Act { verb, blueprint: Arc::clone(blueprint), target, tenant, old, new });
    }

    /// The tenant that an item belongs to, where it is one that can look at its entries.
    fn owner(&self, blueprint: &Blueprint, item: &Item) -> Option<String> {
        let owner = values::lookup(item, blueprint.entity.tenant.as_deref()?)?.as_str()?;
        let is_system = self.house.design.tenant.system.as_deref() == Some(owner);
        (!is_system).then(|| owner.to_owned())
    }

    /// Writes down what an operator is about to read.
    pub(crate) async fn note_reading(
        &self,
        verb: &'static str,
        read: impl IntoIterator<Item = (&Arc<Blueprint>, String)>,
    ) -> Result<(), Error> {
        let tenant = self.scope.tenant();
        let act = |(blueprint, target): (&Arc<Blueprint>, String)| Act {
            verb,
            blueprint: Arc::clone(blueprint),
            target,
            tenant: tenant.map(str::to_owned),
            old: None,
            new: None,
        };
        let acts: Vec<_> = read.into_iter().map(act).collect();
        let entries = self.entries(&acts)?;
        let together = self.house.store.capabilities().cross_partition;
        for entries in entries.chunks(if together { nagaya_store::limits::MAX_ACTIONS } else { 1 }) {
            self.house.store.write(entries.iter().cloned().collect::<WriteSet>()).await?;
        }
        Ok(())
    }

    /// The writes that write down what was done.
    pub(crate) fn entries(&self, acts: &[Act]) -> Result<Vec<Write>, Error> {
        let mut writes = Vec::new();
        for act in acts {
            if let (Some(audit), Some(tenant)) = (&self.house.design.audit, &act.tenant)
                && act.blueprint.audited
            {
                writes.push(self.entry(audit, tenant, act)?);
            }
            if let Some(reason) = &self.reason {
                writes.push(self.log_entry(reason, act));
            }
        }
        Ok(writes)
    }

    /// The entry of an act among its tenant's items.
    fn entry(&self, audit: &Audit, tenant: &str, act: &Act) -> Result<Write, Error> {
        let settings = &self.house.settings;
        let blueprint = self.house.blueprint(&self.house.design.entities[audit.entity].name)?;
        let mut fields = Map::new();
        for part in Part::ALL {
            let Some(field) = audit.field(part).and_then(|name| blueprint.entity.field(name)) else { continue };
            let value = match part {
                Part::Action => fit(field, &act.action()),
                Part::Actor => fit(field, &self.principal.user),
                Part::Target => fit(field, &act.target),
                Part::At => field.instant(settings.clock.millis()),
                Part::Changes => {
                    Some(changes::of(&act.blueprint.entity, act.old.as_ref(), act.new.as_ref(), field.size))
                }
                Part::Request => self.principal.request.as_ref().and_then(|request| fit(field, request)),
                Part::Address => self.principal.address.as_ref().and_then(|address| fit(field, address)),
                Part::Reason => self.reason.as_ref().and_then(|reason| fit(field, reason)),
            };
            fields.extend(value.map(|value| (field.name.clone(), value)));
        }
        let item = draft::create(blueprint, &Scope::Tenant(tenant.into()), settings, fields)?;
        let free = Condition::absent(blueprint.key.partition.as_str());
        Ok(Write::put(&blueprint.table, item).when(free))
    }
}

/// A text as a field takes it: cut where it is too long; `None` if the field does not take it at all.
fn fit(field: &Field, text: &str) -> Option<Json> {
    let value = Json::from(changes::cut(text, field.size));
    let mut problems = Vec::new();
    field.check(&value, &field.name, &mut problems);
    problems.is_empty().then_some(value)
}

/// What an act was done to, in one text.
pub(crate) fn target(blueprint: &Blueprint, id: &[String]) -> String {
    let entity = &blueprint.entity;
    let part = |(field, text): (&str, &String)| match entity.is_personal(field) {
        true => changes::MASKED.to_owned(),
        false => text.clone(),
    };
    let parts: Vec<_> = entity.id_fields().into_iter().zip(id).map(part).collect();
    if parts.is_empty() { entity.name.clone() } else { parts.join("/") }
}

/// A text that is stored in the layer's own items.
fn text(value: &str) -> Value {
    Value::from(changes::cut(value, 2_000))
}
