//! The processor: applies the changes of the store to a projection.
//!
//! Changes may arrive in any order, repeatedly or not at all. Each aggregate has a checkpoint beside its item, which moves in
//! the same write: an event at or below it is skipped, the next one is applied, and before a later one the missing events are
//! read from the event table. So several processors may work on the same changes.

mod advance;
mod batch;
mod checkpoint;
mod consumer;
mod measure;
mod retry;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicU64},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use nagaya_tenancy::{
    ChangeSource, ItemChange, Nagaya, Operator, Principal, ProcessedPage, Subscription, SubscriptionOptions,
    SubscriptionStatus, Tenant, process_page,
};
use tokio::{sync::Notify, task::JoinSet};

pub(crate) use self::{
    advance::{AdvanceState, Unpark},
    batch::{AdvanceOutcome, Aggregate, WriteBatch},
    checkpoint::{Checkpoint, NEXT_ATTEMPT_FIELD},
};
pub use self::{measure::oldest_waiting_event, retry::RetryReport};
use crate::{Error, ErrorKind, Projection, RecordedEvent, generation::Generations, layout::Layout, skipped::SkipList};

/// Keeps a projection up to date with the events.
#[derive(Clone)]
pub struct Processor {
    pub(crate) nagaya: Nagaya,
    pub(crate) layout: Arc<Layout>,
    pub(crate) projection: Arc<dyn Projection>,
    pub(crate) operator: Operator,
    subscription: Arc<Subscription>,
    /// The table of its items, by its name in the design.
    pub(crate) table: String,
    /// One tenancy handle for each generation that has been used.
    generations: Arc<Mutex<BTreeMap<u32, Nagaya>>>,
    /// The events that were dropped from the projection.
    pub(crate) skips: Arc<RwLock<SkipList>>,
    pub(crate) options: Options,
    attempts: Arc<Attempts>,
}

/// Attempts to apply an event that have failed in this process.
#[derive(Debug, Default)]
struct Attempts {
    count: AtomicU64,
    /// Wakes the task that makes further ones.
    failed: Notify,
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
    /// How many aggregates each task works on at the same time.
    pub at_once: usize,
    /// How many tasks run in parallel.
    pub tasks: usize,
    /// The pause when there are no changes.
    pub pause: Duration,
    /// How often an event that cannot be applied is tried by itself. Its aggregate is parked from the first failure on.
    pub attempts: u32,
    /// The time from the first attempt to the second; doubled before each further one.
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
pub struct StepReport {
    /// Changes that were read, those of other items included.
    pub read: usize,
    /// Events among them.
    pub events: usize,
    /// Aggregates that were parked, or are.
    pub parked_aggregates: usize,
}

/// The user of the processor in audit records.
pub(crate) const USER: &str = "event-processor";
/// Its reason there.
const REASON: &str = "keeps projections up to date with events";

impl Processor {
    /// A processor for one of an aggregate's projections.
    pub fn new(nagaya: &Nagaya, projection: Arc<dyn Projection>, options: Options) -> Result<Self, Error> {
        let layout = Arc::new(Layout::from_design(nagaya.design(), projection.aggregate_name())?);
        let entity = projection.entity();
        let (_, table) = layout.projection(entity).ok_or_else(|| ErrorKind::NoProjection(entity.to_owned()))?;
        let table = table.to_owned();
        let operator = nagaya.operator(REASON, &principal(""));
        let polling = SubscriptionOptions {
            batch: options.batch,
            pause: options.pause,
            longest_pause: options.pause,
            backoff: options.backoff,
        };
        // Every generation knows the table of the first one: the position is stored there.
        let first = nagaya.with_generation(&table, 1).operator(REASON, &principal(""));
        let subscription = operator.subscribe(entity, &[&layout.events.name], polling).with_checkpoint(
            first,
            entity,
            format!("position-{entity}"),
        );
        let (nagaya, subscription) = (nagaya.clone(), Arc::new(subscription));
        Ok(Processor {
            nagaya,
            layout,
            projection,
            operator,
            subscription,
            table,
            generations: Arc::default(),
            skips: Arc::default(),
            options,
            attempts: Arc::default(),
        })
    }

    /// The projection that it keeps up to date.
    pub fn projection_name(&self) -> &str {
        self.projection.entity()
    }

    /// How far it is, in this process.
    pub fn status(&self) -> &SubscriptionStatus {
        self.subscription.status()
    }

    /// Works until told to stop. A failure is logged, and the step is repeated. Events that fail are tried again beside the
    /// steps. A further attempt is one conditional write, which may be dropped at any point.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let steps = self.subscription.run(stop, || async { self.step().await.map(|step| step.read) });
        tokio::select! {
            () = steps => {}
            never = self.keep_retrying() => match never {},
        }
    }

    /// The source of the events.
    pub(crate) async fn source(&self) -> Result<&ChangeSource, Error> {
        Ok(self.subscription.source().await?)
    }

    /// Reads a page of changes, and applies them.
    pub fn step(&self) -> BoxFuture<'_, Result<StepReport, Error>> {
        Box::pin(async move {
            let ProcessedPage { read, relevant, parked, .. } =
                process_page(self).await.map_err(consumer::step_error)?;
            Ok(StepReport { read, events: relevant, parked_aggregates: parked })
        })
    }

    /// Applies all stored events, in all generations.
    async fn catch_up(&self) -> Result<StepReport, Error> {
        let mut step = StepReport::default();
        for generation in Generations::read(self).await?.all() {
            let progress = self.catch_up_generation(generation).await?;
            step.events += usize::try_from(progress.events).unwrap_or(usize::MAX);
            step.parked_aggregates += progress.parked;
        }
        Ok(StepReport { read: step.events.max(1), ..step })
    }

    /// The new events among changes, by tenant and aggregate. An aggregate with an unreadable one has none here: its events
    /// are read from the event table, as far as possible.
    fn by_aggregate(&self, changes: Vec<ItemChange>) -> Aggregates {
        let (mut events, mut unreadable) = (Vec::with_capacity(changes.len()), BTreeSet::new());
        for change in changes {
            // Events are created, and never changed.
            let (None, Some(new)) = (change.old, change.new) else { continue };
            let aggregate = new.text(&self.layout.id).unwrap_or_default().to_owned();
            match RecordedEvent::read(&self.layout, &change.tenant, new) {
                Ok(event) => events.push(event),
                Err(error) => {
                    let tenant = &*self.nagaya.tenant_in_logs(&change.tenant);
                    tracing::error!(%error, tenant, "unreadable record in the event table");
                    unreadable.insert((change.tenant, aggregate));
                }
            }
        }
        let mut aggregates = by_aggregate(events);
        aggregates.extend(unreadable.into_iter().map(|aggregate| (aggregate, Vec::new())));
        aggregates
    }

    /// Applies events, in whatever order they come; how many aggregates are parked.
    pub async fn apply_events(&self, events: Vec<RecordedEvent>) -> Result<usize, Error> {
        self.apply_all(by_aggregate(events)).await
    }

    fn apply_all(&self, aggregates: Aggregates) -> BoxFuture<'_, Result<usize, Error>> {
        Box::pin(async move {
            if aggregates.is_empty() {
                return Ok(0);
            }
            // Read after the changes: a generation that is started later reads their events itself.
            let generations: Arc<[u32]> = Generations::read(self).await?.all().into();
            let mut aggregates: Vec<_> = aggregates.into_iter().collect();
            let part = aggregates.len().div_ceil(self.options.tasks.max(1)).max(MIN_AGGREGATES_PER_TASK);
            if aggregates.len() <= part {
                return self.apply_part(&generations, aggregates).await;
            }
            let mut parts = JoinSet::new();
            while !aggregates.is_empty() {
                let part = aggregates.split_off(aggregates.len().saturating_sub(part));
                let (processor, generations) = (self.clone(), Arc::clone(&generations));
                parts.spawn(async move { processor.apply_part(&generations, part).await }.boxed());
            }
            let (mut parked, mut failed) = (0, None);
            while let Some(done) = parts.join_next().await {
                match done {
                    Ok(Ok(more)) => parked += more,
                    Ok(Err(error)) => failed = Some(error),
                    Err(error) => failed = Some(ErrorKind::Busy(format!("a task has ended early: {error}")).into()),
                }
            }
            failed.map_or(Ok(parked), Err)
        })
    }

    async fn apply_part(&self, generations: &[u32], mut part: Vec<Aggregate>) -> Result<usize, Error> {
        let mut parked = 0;
        for (nth, generation) in generations.iter().enumerate() {
            // The last generation needs no copy.
            let part = if nth + 1 == generations.len() { std::mem::take(&mut part) } else { part.clone() };
            let outcomes = self.advance_all(*generation, part).await?;
            parked += outcomes.iter().filter(|one| one.state == AdvanceState::Parked).count();
        }
        Ok(parked)
    }

    /// The handle of a tenant in a generation of the projection.
    pub(crate) fn tenant(&self, generation: u32, tenant: &str) -> Result<Tenant, Error> {
        Ok(self.nagaya_of_generation(generation).tenant(&principal(tenant))?)
    }

    /// The tenancy handle with a generation of the projection.
    pub(crate) fn nagaya_of_generation(&self, generation: u32) -> Nagaya {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.entry(generation).or_insert_with(|| self.nagaya.with_generation(&self.table, generation)).clone()
    }

    /// The first generation, in whose table the records about all generations are.
    pub(crate) fn first_generation(&self) -> Operator {
        self.nagaya_of_generation(1).operator(REASON, &principal(""))
    }
}

/// Events by tenant and aggregate; none: all that are stored.
type Aggregates = BTreeMap<(String, String), Vec<RecordedEvent>>;

/// Fewer aggregates are not worth a task.
const MIN_AGGREGATES_PER_TASK: usize = 16;

fn by_aggregate(events: Vec<RecordedEvent>) -> Aggregates {
    let mut aggregates = Aggregates::new();
    for event in events {
        aggregates.entry((event.tenant.clone(), event.aggregate.clone())).or_default().push(event);
    }
    aggregates
}

pub(crate) fn principal(tenant: &str) -> Principal {
    Principal::new(tenant, USER)
}
