//! What a system tells of itself: things that hang together, or have a history, which plain items would not.
//!
//! The items of an aggregate are written by its commands and by nothing else, and the things of a household fit each other.
//! So a system says here what happens at a tenant, and what comes of it looks as if people had done it.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::{StreamExt as _, future::LocalBoxFuture, stream};
use indicatif::ProgressBar;
use nagaya_events::{Processor, ProcessorOptions, follow_generations};
use nagaya_tenancy::{Nagaya, Tenant};

use super::{ITEMS, luck::Luck, report::Filled};
use crate::systems;

/// How often a store that is busy is asked again, and after which time.
pub(super) const PATIENCE: usize = 50;
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// What happens at a tenant, and makes items of some entities.
pub(crate) trait Story {
    /// The entities that it makes items of. Nothing else fills them.
    fn entities(&self) -> &'static [&'static str];

    /// The entities whose items follow from those: the system keeps them in step, and nobody else makes them.
    fn follow(&self) -> &'static [&'static str] {
        &[]
    }

    /// How many items of each a tenant gets, unless somebody says how many.
    fn usual(&self) -> usize {
        ITEMS
    }

    /// The item that tells whether a tenant's story has begun: its entity and its id.
    fn mark(&self, whose: &Whose<'_>) -> (&'static str, Vec<String>);

    /// What happens at a tenant, each of it by itself. What has happened already does not happen again.
    fn tell<'s>(&'s self, tenant: &'s Tenant, whose: Whose<'s>) -> Happenings<'s>;
}

/// What happens, in order; nothing of it before it is waited for.
pub(crate) type Happenings<'s> = Box<dyn ExactSizeIterator<Item = LocalBoxFuture<'s, anyhow::Result<Vec<Told>>>> + 's>;

/// Whose story it is, and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whose<'w> {
    pub(super) seed: u64,
    /// All tenants, and which of them it is.
    pub(super) tenants: &'w [String],
    pub(super) at: usize,
    /// The day that the data leads up to, in milliseconds since 1970.
    pub(super) until: i64,
    /// How many items of each entity there are to be, if there are so many different ones.
    pub(super) items: usize,
}

impl<'w> Whose<'w> {
    pub(super) fn tenant(&self) -> &'w str {
        self.tenants.get(self.at).map_or("", String::as_str)
    }

    /// The luck of the n-th thing of a kind.
    pub(super) fn luck(&self, kind: &str, n: usize) -> Luck {
        Luck::of(self.seed, &[self.tenant(), kind], [n, 0])
    }
}

/// What has come of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Told {
    pub(super) entity: &'static str,
    /// Whether it is new.
    pub(super) made: bool,
    /// Whether its end is that it was deleted.
    pub(super) deleted: bool,
}

/// Tells a story of all tenants.
pub(super) async fn tell(
    story: &dyn Story,
    tenants: &[Tenant],
    all: Whose<'_>,
    (at_once, bar): (usize, &ProgressBar),
) -> anyhow::Result<Vec<Filled>> {
    let empty = |entity: &&str| Filled { entity: (*entity).to_owned(), ..Filled::default() };
    let mut filled: Vec<Filled> = story.entities().iter().map(empty).collect();
    let telling = tenants.iter().enumerate().flat_map(|(at, tenant)| {
        let happenings = story.tell(tenant, Whose { at, ..all });
        bar.inc_length(happenings.len() as u64);
        happenings.map(move |happens| async move { (at, happens.await) })
    });
    let mut telling = stream::iter(telling).buffered(at_once);
    while let Some((at, told)) = telling.next().await {
        let name = all.tenants.get(at).map_or("", String::as_str);
        let told = told.with_context(|| format!("the story of `{name}` cannot be told"))?;
        bar.inc(1);
        for Told { entity, made, deleted } in told {
            let Some(filled) = filled.iter_mut().find(|filled| filled.entity == entity) else { continue };
            filled.tenants.insert(at);
            filled.made += usize::from(made);
            filled.present += usize::from(!made);
            filled.deleted += usize::from(deleted);
        }
    }
    Ok(filled)
}

/// Builds what is built from events and from other changes, so that it shows them at once. How many things could not be shown.
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
    systems::catch_up(system, nagaya).await?;
    Ok(parked)
}
