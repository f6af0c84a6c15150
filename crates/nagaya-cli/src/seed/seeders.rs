//! Running the seeders of a system, and building what it derives from their items.

use anyhow::{Context as _, anyhow};
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;
use nagaya_events::refresh_generations;
use nagaya_seed::{SeedContext, SeededItem, Seeder};
use nagaya_server::System;
use nagaya_tenancy::{Nagaya, Tenant, process_pending};

use super::report::EntityReport;

/// Runs a seeder for all tenants.
pub(super) async fn run(
    seeder: &dyn Seeder,
    tenants: &[Tenant],
    first: SeedContext<'_>,
    (at_once, bar): (usize, &ProgressBar),
) -> anyhow::Result<Vec<EntityReport>> {
    let empty = |entity: &&str| EntityReport { entity: (*entity).to_owned(), ..EntityReport::default() };
    let mut filled: Vec<EntityReport> = seeder.entities().iter().map(empty).collect();
    let steps = tenants.iter().enumerate().flat_map(|(index, tenant)| {
        let steps = seeder.steps(tenant, SeedContext { index, ..first });
        bar.inc_length(steps.len() as u64);
        steps.map(move |step| async move { (index, step.await) })
    });
    let mut steps = stream::iter(steps).buffered(at_once);
    while let Some((index, results)) = steps.next().await {
        let name = first.tenants.get(index).map_or("", String::as_str);
        let results = results
            .map_err(|error| anyhow!(error))
            .with_context(|| format!("the data of `{name}` cannot be written"))?;
        bar.inc(1);
        for SeededItem { entity, was_created: created, deleted } in results {
            let Some(filled) = filled.iter_mut().find(|filled| filled.entity == entity) else { continue };
            filled.tenants.insert(index);
            filled.created += usize::from(created);
            filled.existing += usize::from(!created);
            filled.deleted += usize::from(deleted);
        }
    }
    Ok(filled)
}

/// How often a page of changes is tried.
const RETRIES: u32 = 10;

/// Builds what the system derives from events and other changes. Gives how much could not be built.
pub(super) async fn build(nagaya: &Nagaya, system: &System) -> anyhow::Result<usize> {
    let mut parked = 0;
    refresh_generations(nagaya).await?;
    for consumer in system.consumers(nagaya)? {
        parked += process_pending(&*consumer, RETRIES).await.map_err(|error| anyhow!(error))?;
    }
    Ok(parked)
}
