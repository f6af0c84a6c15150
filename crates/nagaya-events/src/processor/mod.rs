//! The processor: from changes of the store to projections.
//!
//! What arrives is never trusted to be in order, complete, or new. Each aggregate has a checkpoint beside its item, which
//! moves in the same write: an event at or below it is skipped, the next one is applied, and before one further on what is
//! missing is read from the events themselves. So it does not matter how often a change arrives, in which order, or to
//! which of several processors.

mod advance;
mod checkpoint;
mod position;
mod together;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use nagaya_store::{ChangePosition, From};
use nagaya_tenancy::{Follower, FollowerStatus, Nagaya, Operator, Principal, Tenant};
use tokio::{sync::OnceCell, task::JoinSet};

pub(crate) use self::{
    advance::{Advanced, Freeing, overtaken},
    checkpoint::Checkpoint,
    position::is_lost,
    together::{Aggregate, Became, Gathered},
};
use crate::{Error, ErrorKind, Projection, Recorded, generation::Generations, layout::Layout};

/// Keeps a projection in step with the events.
#[derive(Clone)]
pub struct Processor {
    pub(crate) nagaya: Nagaya,
    pub(crate) layout: Arc<Layout>,
    pub(crate) projection: Arc<dyn Projection>,
    pub(crate) operator: Operator,
    follower: Arc<OnceCell<Follower>>,
    /// A position that was kept, and how far has been read on from there.
    read_on: Arc<Mutex<Option<(ChangePosition, ChangePosition)>>>,
    /// The table of its items, by the design's name.
    pub(crate) table: String,
    /// The houses of the generations that have been used.
    houses: Arc<Mutex<BTreeMap<u32, Nagaya>>>,
    status: FollowerStatus,
    pub(crate) options: Options,
}

impl std::fmt::Debug for Processor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Processor({})", self.projection.entity())
    }
}

/// How a processor works.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many changes are read at once.
    pub batch: usize,
    /// How many aggregates are worked on at the same time, in each task.
    pub at_once: usize,
    /// How many tasks work side by side.
    pub tasks: usize,
    /// How long to wait when there is nothing to do.
    pub pause: Duration,
    /// How often an event is tried that cannot be applied, before it is parked.
    pub attempts: u32,
    /// How long to wait before the second attempt; twice as long before each further one.
    pub backoff: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            batch: 1_000,
            at_once: 64,
            tasks: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
            pause: Duration::from_millis(20),
            attempts: 4,
            backoff: Duration::from_millis(50),
        }
    }
}

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Changes that were read, those of other items included.
    pub read: usize,
    /// Events among them.
    pub events: usize,
    /// Aggregates that were parked, or are.
    pub parked: usize,
}

/// Who the processor is in what is written down.
pub(crate) const USER: &str = "event-processor";

impl Processor {
    /// A processor for one of an aggregate's projections.
    pub fn new(nagaya: &Nagaya, projection: Arc<dyn Projection>, options: Options) -> Result<Self, Error> {
        let layout = Arc::new(Layout::of(nagaya.design(), projection.aggregate())?);
        let no_projection = || ErrorKind::NoProjection(projection.entity().to_owned());
        let (_, table) = layout.projection(projection.entity()).ok_or_else(no_projection)?;
        let table = table.to_owned();
        let operator = nagaya.operator("keeps projections in step with events", &Principal::new("", USER));
        let (nagaya, follower, read_on) = (nagaya.clone(), Arc::default(), Arc::default());
        Ok(Processor {
            nagaya,
            layout,
            projection,
            operator,
            follower,
            read_on,
            table,
            houses: Arc::default(),
            status: FollowerStatus::default(),
            options,
        })
    }

    /// The projection that it keeps in step.
    pub fn projection(&self) -> &str {
        self.projection.entity()
    }

    /// How far it is, in this process.
    pub fn status(&self) -> &FollowerStatus {
        &self.status
    }

    /// Works until told to stop. What goes wrong is logged, and tried again.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut failures = 0_u32;
        loop {
            // A step is finished once it has begun: what it has read is applied before the process ends.
            let began = self.nagaya.clock().millis();
            let pause = match self.step().await {
                Ok(step) => {
                    failures = 0;
                    // A step that is not full has read all that there was when it began.
                    if step.read < self.options.batch {
                        self.status.caught_up(began);
                    }
                    if step.read == 0 { self.options.pause } else { Duration::ZERO }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    // The first, the second, the fourth …: a store that is down for an hour does not fill the log.
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, projection = self.projection.entity(), failures, "the processor failed");
                    }
                    (self.options.backoff * failures.min(100)).min(Duration::from_secs(5))
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// What follows the events. That it begins is written down, so it begins once.
    pub(crate) async fn follower(&self) -> Result<&Follower, Error> {
        let follow = || async { Ok(self.operator.follow(&self.layout.events.name).await?) };
        self.follower.get_or_try_init(follow).await
    }

    /// Reads changes once, and applies them.
    pub async fn step(&self) -> Result<Step, Error> {
        let follower = self.follower().await?;
        self.step_with(follower).await
    }

    async fn step_with(&self, follower: &Follower) -> Result<Step, Error> {
        let position = self.position().await?;
        let Some(stored) = position.after() else {
            // Where nothing has been followed yet, what is there is read first; what happens meanwhile is followed then.
            return self.begin(follower, position).await;
        };
        let after = self.read_on().as_ref().filter(|(from, _)| *from == stored).map(|(_, to)| to.clone());
        let after = From::After(after.unwrap_or_else(|| stored.clone()));
        let followed = match follower.changes(after, self.options.batch).await {
            Ok(followed) => followed,
            // What happened in between is not kept any more as changes, but as events it is.
            Err(error) if is_lost(&error) => return self.begin(follower, position).await,
            Err(error) => return Err(error.into()),
        };
        let (mut events, mut unread) = (Vec::with_capacity(followed.changes.len()), BTreeSet::new());
        for change in followed.changes {
            // Events are made, and never changed.
            let (None, Some(new)) = (change.old, change.new) else { continue };
            let aggregate = new.text(&self.layout.id).unwrap_or_default().to_owned();
            match Recorded::read(&self.layout, &change.tenant, new) {
                Ok(event) => events.push(event),
                Err(error) => {
                    tracing::error!(%error, tenant = change.tenant, "what is no event lies among events");
                    unread.insert((change.tenant, aggregate));
                }
            }
        }
        let count = events.len() + unread.len();
        let mut aggregates = by_aggregate(events);
        // Their events are read where they lie, as far as they can be.
        aggregates.extend(unread.into_iter().map(|aggregate| (aggregate, Vec::new())));
        let parked = self.feed_all(aggregates).await?;
        if count > 0 || followed.read >= self.options.batch {
            self.reached(&position, &followed.next).await?;
        } else if followed.read > 0 {
            // Reading alone is nothing to write down: the own notes may be what was read.
            *self.read_on() = Some((stored, followed.next));
        }
        Ok(Step { read: followed.read, events: count, parked })
    }

    /// How far has been read on from a position that was kept, without anything in it that was worth keeping a new one.
    fn read_on(&self) -> MutexGuard<'_, Option<(ChangePosition, ChangePosition)>> {
        self.read_on.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies events, whichever come in whatever order; how many aggregates are parked.
    pub async fn feed(&self, events: Vec<Recorded>) -> Result<usize, Error> {
        self.feed_all(by_aggregate(events)).await
    }

    async fn feed_all(&self, aggregates: Aggregates) -> Result<usize, Error> {
        if aggregates.is_empty() {
            return Ok(0);
        }
        // Read after the changes were: a generation that is begun later reads their events itself.
        let generations: Arc<[u32]> = Generations::read(self).await?.fed().into();
        let mut aggregates: Vec<_> = aggregates.into_iter().collect();
        let part = aggregates.len().div_ceil(self.options.tasks.max(1)).max(FEW);
        if aggregates.len() <= part {
            return self.feed_part(&generations, aggregates).await;
        }
        let mut parts = JoinSet::new();
        while !aggregates.is_empty() {
            let part = aggregates.split_off(aggregates.len().saturating_sub(part));
            let (processor, generations) = (self.clone(), Arc::clone(&generations));
            parts.spawn(async move { processor.feed_part(&generations, part).await }.boxed());
        }
        let (mut parked, mut failed) = (0, None);
        while let Some(done) = parts.join_next().await {
            match done {
                Ok(Ok(more)) => parked += more,
                Ok(Err(error)) => failed = Some(error),
                Err(error) => failed = Some(ErrorKind::Busy(format!("a part of the work has ended: {error}")).into()),
            }
        }
        failed.map_or(Ok(parked), Err)
    }

    async fn feed_part(&self, generations: &[u32], mut part: Vec<Aggregate>) -> Result<usize, Error> {
        let mut parked = 0;
        for (nth, generation) in generations.iter().enumerate() {
            // The last one needs no copy of them.
            let part = if nth + 1 == generations.len() { std::mem::take(&mut part) } else { part.clone() };
            let became = self.advance_all(*generation, part).await?;
            parked += became.iter().filter(|one| one.advanced == Advanced::Parked).count();
        }
        Ok(parked)
    }

    /// The handle of a tenant in a generation of the projection.
    pub(crate) fn tenant(&self, generation: u32, tenant: &str) -> Result<Tenant, Error> {
        Ok(self.house(generation).tenant(&principal(tenant))?)
    }

    /// The house with a generation of the projection.
    pub(crate) fn house(&self, generation: u32) -> Nagaya {
        let mut houses = self.houses.lock().unwrap_or_else(PoisonError::into_inner);
        houses.entry(generation).or_insert_with(|| self.nagaya.generation(&self.table, generation)).clone()
    }
}

/// Events by their tenant and aggregate; none: all that there are.
type Aggregates = BTreeMap<(String, String), Vec<Recorded>>;

/// So few are not worth a task of their own.
const FEW: usize = 16;

fn by_aggregate(events: Vec<Recorded>) -> Aggregates {
    let mut aggregates = Aggregates::new();
    for event in events {
        aggregates.entry((event.tenant.clone(), event.aggregate.clone())).or_default().push(event);
    }
    aggregates
}

fn principal(tenant: &str) -> Principal {
    Principal::new(tenant, USER)
}
