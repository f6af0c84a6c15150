//! What commands make: things that have a history, which a plain item would not have.
//!
//! The items of an aggregate are written by its commands and by nothing else. So a system with aggregates says here how its
//! commands are used, and what comes of them looks as if people had done it.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::{StreamExt as _, future::LocalBoxFuture, stream};
use indicatif::ProgressBar;
use nagaya_events::{Processor, ProcessorOptions, follow_generations};
use nagaya_tenancy::{Nagaya, Tenant};

use super::{luck::Luck, report::Filled};
use crate::systems;

/// How often a store that is busy is asked again, and after which time.
pub(super) const PATIENCE: usize = 50;
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// A kind of thing that a system's commands make.
pub(crate) trait Story {
    /// The entity that shows it.
    fn entity(&self) -> &'static str;

    /// The item that tells whether the n-th of a tenant is there: its entity and its id.
    fn mark(&self, part: &Part<'_>) -> (&'static str, Vec<String>);

    /// Makes the n-th of a tenant, and does with it what people do. What has happened already does not happen again.
    fn tell<'s>(&'s self, tenant: &'s Tenant, part: Part<'s>) -> LocalBoxFuture<'s, anyhow::Result<Told>>;
}

/// Which of all things it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'p> {
    pub(super) seed: u64,
    pub(super) tenant: &'p str,
    pub(super) n: usize,
    /// The day that the data leads up to, in milliseconds since 1970.
    pub(super) until: i64,
}

impl Part<'_> {
    /// The luck of this one.
    pub(super) fn luck(&self, story: &str) -> Luck {
        Luck::of(self.seed, &[self.tenant, story], [self.n, 0])
    }
}

/// What has come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    /// Whether it is new.
    pub(super) made: bool,
    /// Whether its end is that it was deleted.
    pub(super) deleted: bool,
}

/// Tells a story for all tenants, so many times each.
pub(super) async fn tell(
    story: &dyn Story,
    tenants: &[(&str, &Tenant)],
    (seed, until): (u64, i64),
    items: usize,
    (at_once, bar): (usize, &ProgressBar),
) -> anyhow::Result<Filled> {
    let mut filled = Filled { entity: story.entity().to_owned(), ..Filled::default() };
    let parts = (0..items).flat_map(|n| tenants.iter().enumerate().map(move |(at, tenant)| (n, at, tenant)));
    let telling = parts.map(|(n, at, (name, tenant))| async move {
        let told = story.tell(tenant, Part { seed, tenant: name, n, until }).await;
        (at, told)
    });
    let mut telling = stream::iter(telling).buffered(at_once);
    while let Some((at, told)) = telling.next().await {
        let told = told.with_context(|| format!("a story of `{}` cannot be told", story.entity()))?;
        bar.inc(1);
        filled.tenants.insert(at);
        filled.made += usize::from(told.made);
        filled.present += usize::from(!told.made);
        filled.deleted += usize::from(told.deleted);
    }
    Ok(filled)
}

/// Builds what is built from events, so that it shows them at once. How many things could not be shown.
pub(super) async fn build(nagaya: &Nagaya, system: &str) -> anyhow::Result<usize> {
    let mut parked = 0;
    follow_generations(nagaya).await?;
    for projection in systems::projections(system) {
        let options = ProcessorOptions::default();
        let batch = options.batch;
        let processor = Processor::new(nagaya, projection, options)?;
        loop {
            let step = processor.step().await?;
            parked += step.parked;
            // What is read besides events is read again next time, unless there is a whole batch of it.
            if step.events == 0 && step.read < batch {
                break;
            }
        }
    }
    Ok(parked)
}
