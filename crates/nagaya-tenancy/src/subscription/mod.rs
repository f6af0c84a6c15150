//! Change subscriptions: the changes of some entities' items, of all tenants, read page by page from where the last run stopped.
//!
//! Projections, feeds and search postings read changes this way. A subscription sees all tenants, so only an operator starts
//! one. The start is audited once. The reads are not: an audit record for each read would itself be a change to read.

mod checkpoint;
mod consumer;
mod source;
mod status;
mod unreadable;

use std::{
    fmt,
    pin::pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use nagaya_store::{ChangePosition, Clock, StartPosition};
use tokio::{sync::OnceCell, time};

use self::checkpoint::Checkpoint;
pub use self::{
    consumer::{
        ChangeConsumer, ConsumerError, ConsumerFuture, FailedChange, Processed, ProcessedPage, process_everything,
        process_page, process_pending,
    },
    source::{ChangeSource, ItemChange, ItemChangePage, ScanPage},
    status::SubscriptionStatus,
    unreadable::UnreadableChange,
};
use crate::{Error, Operator, SideRecord, TenancyFuture};

/// The longest pause after failures.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Reads changes from where it stopped before, and runs the steps that process them.
///
/// A step takes the [next page](Subscription::next_page), processes it and [acknowledges](Subscription::acknowledge) it. Pages
/// are delivered at least once. Several processes may share a stored position: each page then goes to at least one of them.
#[derive(Debug)]
pub struct Subscription {
    name: String,
    operator: Operator,
    entities: Vec<String>,
    source: OnceCell<ChangeSource>,
    /// Where the position is stored; `None`: it is kept in memory only.
    checkpoint: Option<Checkpoint>,
    /// The stored position, and how far has been read after it without storing a new one.
    unsaved_position: Mutex<Option<(Option<ChangePosition>, ChangePosition)>>,
    options: SubscriptionOptions,
    /// Steps that have failed since the last one that succeeded.
    failures: AtomicU32,
    status: SubscriptionStatus,
    clock: Clock,
}

/// How a subscription polls.
#[derive(Debug, Clone)]
pub struct SubscriptionOptions {
    /// How many changes a page has at most.
    pub batch: usize,
    /// The pause after a step that read nothing; doubled after each further one.
    pub pause: Duration,
    /// The longest of these pauses.
    pub longest_pause: Duration,
    /// The pause after a step that failed; doubled after each further one, up to five seconds.
    pub backoff: Duration,
}

impl Default for SubscriptionOptions {
    fn default() -> Self {
        let pause = Duration::from_millis(20);
        SubscriptionOptions { batch: 1_000, pause, longest_pause: pause, backoff: Duration::from_millis(50) }
    }
}

/// The next page of a subscription.
#[derive(Debug)]
pub struct Delivery {
    /// The changes of the entities' items, in order for each item.
    pub changes: Vec<ItemChange>,
    /// How many changes were read, those of other entities included.
    pub read: usize,
    /// Changes before this page were lost, or none has ever been read: the subscriber has to read all stored items.
    pub gap: bool,
    next: ChangePosition,
    stored: Option<SideRecord>,
}

impl Operator {
    /// Subscribes to the changes of entities that are in one table. The subscription starts now and keeps its position in
    /// memory, unless it gets a [checkpoint](Subscription::with_checkpoint). `name` is for logs and
    /// metrics.
    pub fn subscribe(&self, name: &str, entities: &[&str], options: SubscriptionOptions) -> Subscription {
        Subscription {
            name: name.to_owned(),
            operator: self.clone(),
            entities: entities.iter().map(|&entity| entity.to_owned()).collect(),
            source: OnceCell::new(),
            checkpoint: None,
            unsaved_position: Mutex::default(),
            options,
            failures: AtomicU32::new(0),
            status: SubscriptionStatus::default(),
            clock: self.0.state.settings.clock.clone(),
        }
    }
}

impl Subscription {
    /// Stores the position beside an entity under a name, so that another process resumes there. Where nothing is stored yet,
    /// the first page is a gap.
    #[must_use]
    pub fn with_checkpoint(mut self, operator: Operator, entity: &str, name: String) -> Self {
        self.checkpoint = Some(Checkpoint { operator, entity: entity.to_owned(), name });
        self
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a page has as many changes as it may have: there may be more.
    fn is_full(&self, page: &Delivery) -> bool {
        page.read >= self.options.batch
    }

    /// How far it is, in this process.
    pub fn status(&self) -> &SubscriptionStatus {
        &self.status
    }

    /// How many steps have failed since the last one that succeeded.
    pub fn failures(&self) -> u32 {
        self.failures.load(Relaxed)
    }

    /// What it reads from. The start is audited, so there is one start.
    pub async fn source(&self) -> Result<&ChangeSource, Error> {
        let entities: Vec<&str> = self.entities.iter().map(String::as_str).collect();
        self.source.get_or_try_init(|| self.operator.change_source_of(&entities)).await
    }

    /// The changes after the last page that was acknowledged.
    pub fn next_page(&self) -> TenancyFuture<'_, Delivery> {
        Box::pin(async move {
            let source = self.source().await?;
            let stored = match &self.checkpoint {
                Some(checkpoint) => checkpoint.read().await?,
                None => None,
            };
            let from = match (self.resume_position(stored.as_ref()), &self.checkpoint) {
                (Some(position), _) => StartPosition::After(position),
                (None, None) => StartPosition::Latest,
                (None, Some(_)) => return gap(source, stored).await,
            };
            match source.changes(from, self.options.batch).await {
                Ok(ItemChangePage { changes, next, read }) => Ok(Delivery { changes, read, gap: false, next, stored }),
                Err(error) if error.is_gap() => {
                    tracing::warn!(
                        subscription = self.name,
                        "the store no longer has all changes since the last page; some were missed"
                    );
                    gap(source, stored).await
                }
                Err(error) => Err(error),
            }
        })
    }

    /// A page without changes, as after a gap: the subscriber has to read all stored items.
    pub fn restart(&self) -> TenancyFuture<'_, Delivery> {
        Box::pin(async move {
            let stored = match &self.checkpoint {
                Some(checkpoint) => checkpoint.read().await?,
                None => None,
            };
            gap(self.source().await?, stored).await
        })
    }

    /// Moves on to the page after this one. A stored position is written only where the page was `relevant` to the
    /// subscriber, full, or a gap: the writes of positions are changes too, and must not cause further ones.
    pub fn acknowledge(&self, page: Delivery, relevant: bool) -> TenancyFuture<'_, ()> {
        Box::pin(async move {
            let worth_storing = relevant || page.gap || self.is_full(&page);
            match &self.checkpoint {
                Some(checkpoint) if worth_storing => checkpoint.write(page.stored.as_ref(), &page.next).await,
                _ => {
                    let stored = page.stored.as_ref().and_then(checkpoint::position);
                    *self.unsaved_position.lock().unwrap_or_else(PoisonError::into_inner) = Some((stored, page.next));
                    Ok(())
                }
            }
        })
    }

    /// Runs steps until `stop` resolves. A step returns how many changes it read. One that fails is logged and repeated
    /// after a pause. One that has started is finished before this returns.
    pub async fn run<E, F>(&self, stop: impl Future<Output = ()>, mut step: impl FnMut() -> F)
    where
        E: fmt::Display,
        F: Future<Output = Result<usize, E>>,
    {
        let mut stop = pin!(stop);
        let mut idle = self.options.pause;
        loop {
            let (started, failures) = (self.clock.millis(), self.failures());
            let pause = match self.attempt(step()).await {
                Ok(read) => {
                    if failures > 0 {
                        tracing::info!(subscription = self.name, failures, "changes are processed again");
                    }
                    // A page that is not full has all changes that there were when the step started.
                    if read < self.options.batch {
                        self.status.caught_up(started);
                    }
                    let pause = if read == 0 { idle } else { Duration::ZERO };
                    idle = if read == 0 { (idle * 2).min(self.options.longest_pause) } else { self.options.pause };
                    pause
                }
                Err(error) => {
                    let failures = self.failures();
                    // The first, the second, the fourth …: a store that is down for an hour does not fill the log.
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, subscription = self.name, failures, "processing changes failed");
                    }
                    self.backoff()
                }
            };
            if time::timeout(pause, &mut stop).await.is_ok() {
                return;
            }
        }
    }

    /// Runs steps until one reads nothing; an error if more than `retries` steps in a row have failed.
    pub async fn catch_up<E, F>(&self, retries: u32, mut step: impl FnMut() -> F) -> Result<(), E>
    where
        F: Future<Output = Result<usize, E>>,
    {
        loop {
            match self.attempt(step()).await {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if self.failures() > retries => return Err(error),
                Err(_) => time::sleep(self.backoff()).await,
            }
        }
    }

    async fn attempt<E>(&self, step: impl Future<Output = Result<usize, E>>) -> Result<usize, E> {
        let done = step.await;
        if done.is_err() {
            self.status.failed();
        }
        self.failures.store(if done.is_ok() { 0 } else { self.failures().saturating_add(1) }, Relaxed);
        done
    }

    fn backoff(&self) -> Duration {
        let doubled = self.failures().saturating_sub(1).min(16);
        self.options.backoff.saturating_mul(1 << doubled).min(LONGEST_BACKOFF)
    }

    /// The position to read after: the stored one, or a later one that this process has reached from there.
    fn resume_position(&self, stored: Option<&SideRecord>) -> Option<ChangePosition> {
        let stored = stored.and_then(checkpoint::position);
        let read_ahead = self.unsaved_position.lock().unwrap_or_else(PoisonError::into_inner);
        let reached = read_ahead.as_ref().filter(|(from, _)| *from == stored).map(|(_, reached)| reached.clone());
        reached.or(stored)
    }
}

/// A page without changes. Its position is taken before the subscriber reads the stored items: no change falls between.
async fn gap(source: &ChangeSource, stored: Option<SideRecord>) -> Result<Delivery, Error> {
    let next = source.changes(StartPosition::Latest, 1).await?.next;
    Ok(Delivery { changes: Vec::new(), read: 0, gap: true, next, stored })
}
