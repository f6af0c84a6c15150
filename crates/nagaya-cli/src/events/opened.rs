//! An event-sourced system, opened on its store.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, bail};
use nagaya_events::{Inspector, Processor, ProcessorOptions, Projection};
use nagaya_server::System;
use nagaya_tenancy::{ChangeConsumer, Nagaya, Operator, Tenant, UnreadableChange};

use super::SystemArgs;
use crate::{serve, source, systems};

/// A system on its store.
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) nagaya: Nagaya,
    /// What is built from its events, where the system has code for it.
    pub(super) projections: Vec<Arc<dyn Projection>>,
    /// All that it derives from changes.
    pub(super) consumers: Vec<Arc<dyn ChangeConsumer>>,
}

impl Opened {
    /// Opens a system whose store is there already; `None` after showing what is wrong with the design.
    pub(super) async fn open(at: &SystemArgs) -> anyhow::Result<Option<Self>> {
        let Some(system) = read_system(at)? else { return Ok(None) };
        Opened::open_system(at, system).await.map(Some)
    }

    /// The same for what needs the code that builds projections, with that code.
    pub(super) async fn with_projections(at: &SystemArgs) -> anyhow::Result<Option<(Self, Vec<Arc<dyn Projection>>)>> {
        let Some(system) = read_system(at)? else { return Ok(None) };
        let projections = required_projections(&system)?;
        Ok(Some((Opened::open_system(at, system).await?, projections)))
    }

    /// The same for what is derived from changes, of events and of other items.
    pub(super) async fn with_consumers(at: &SystemArgs) -> anyhow::Result<Option<Self>> {
        let Some(system) = read_any_system(at)? else { return Ok(None) };
        let opened = Opened::open_system(at, system).await?;
        check_consumers(&opened.name, &opened.consumers)?;
        Ok(Some(opened))
    }

    async fn open_system(at: &SystemArgs, system: System) -> anyhow::Result<Self> {
        let nagaya = at.store.open_existing(&system).await?;
        let consumers = system.consumers(&nagaya)?;
        Ok(Opened { name: system.name, nagaya, projections: system.projections, consumers })
    }

    /// The records of streams that functions could not read, each with the consumer that has its note.
    pub(super) async fn unreadable_changes(
        &self,
    ) -> anyhow::Result<BTreeMap<String, (&dyn ChangeConsumer, UnreadableChange)>> {
        let mut found = BTreeMap::new();
        for consumer in &self.consumers {
            for change in consumer.subscription().unreadable().await? {
                found.insert(change.id.clone(), (&**consumer, change));
            }
        }
        Ok(found)
    }

    /// The kinds of aggregates that it has.
    pub(super) fn aggregates(&self) -> impl Iterator<Item = &str> {
        self.nagaya.design().aggregates.iter().map(|aggregate| aggregate.name.as_str())
    }

    /// The kind of aggregate that is meant.
    pub(super) fn aggregate(&self, asked: Option<&str>) -> anyhow::Result<&str> {
        let known: Vec<_> = self.aggregates().collect();
        match (asked, known.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => bail!("{} has several kinds of aggregates: name one of {}", self.name, known.join(", ")),
            (Some(asked), _) => {
                let found = known.iter().find(|name| **name == asked);
                found
                    .copied()
                    .with_context(|| format!("{} has no aggregate `{asked}`, but {}", self.name, known.join(", ")))
            }
        }
    }

    pub(super) fn inspector(&self, aggregate: &str) -> anyhow::Result<Inspector> {
        Ok(Inspector::new(&self.nagaya, aggregate)?)
    }

    pub(super) fn processor(&self, projection: &Arc<dyn Projection>) -> anyhow::Result<Processor> {
        Ok(Processor::new(&self.nagaya, Arc::clone(projection), ProcessorOptions::default())?)
    }

    /// A handle that leaves a trace of what it is used for.
    pub(super) fn operator(&self, reason: &str) -> Operator {
        serve::operator(&self.nagaya, reason)
    }

    /// The same, within one tenant.
    pub(super) fn tenant(&self, reason: &str, tenant: &str) -> anyhow::Result<Tenant> {
        self.operator(reason).as_tenant(tenant).with_context(|| format!("`{tenant}` is not a valid tenant id"))
    }

    /// The aggregates that seal fields of their events.
    pub(super) fn sealing_aggregates(&self) -> anyhow::Result<Vec<String>> {
        let aggregates = self.nagaya.design().aggregates.iter().filter(|aggregate| aggregate.keys.is_some());
        let aggregates: Vec<_> = aggregates.map(|aggregate| aggregate.name.clone()).collect();
        if aggregates.is_empty() {
            bail!("no fields are sealed in the events of {}: its design has no `keys` for an aggregate", self.name);
        }
        Ok(aggregates)
    }
}

/// The system that is meant; `None` after showing what is wrong with its design.
pub(super) fn read_system(at: &SystemArgs) -> anyhow::Result<Option<System>> {
    let Some(system) = read_any_system(at)? else { return Ok(None) };
    if system.design.aggregates.is_empty() {
        bail!("the design of {} has no aggregate, and therefore no events", system.name);
    }
    Ok(Some(system))
}

/// The same for what does not need events.
pub(super) fn read_any_system(at: &SystemArgs) -> anyhow::Result<Option<System>> {
    source::system(&at.system, at.store.kind.engine(), &at.store.resources())
}

/// Refuses a system that derives nothing from changes.
pub(super) fn check_consumers(system: &str, consumers: &[Arc<dyn ChangeConsumer>]) -> anyhow::Result<()> {
    if consumers.is_empty() {
        bail!("{system} derives nothing from changes: that needs code, which a design does not have");
    }
    Ok(())
}

/// What a system builds from its events.
pub(super) fn required_projections(system: &System) -> anyhow::Result<Vec<Arc<dyn Projection>>> {
    if system.projections.is_empty() {
        let all = systems::all(&systems::Resources::default())?;
        let known: Vec<_> =
            all.iter().filter(|known| !known.projections.is_empty()).map(|known| known.name.as_str()).collect();
        bail!(
            "{} has no projections, which are code and not part of a design: name a built-in system ({})",
            system.name,
            known.join(", ")
        );
    }
    Ok(system.projections.clone())
}
