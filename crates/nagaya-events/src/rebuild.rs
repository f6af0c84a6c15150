//! Building a projection anew beside the one that is read, and checking it against its events.
//!
//! A new generation is fed by what happens from the moment that it is named, and by what has happened before. Both go by the
//! same checkpoints, so it does not matter which of them comes first, or how often, or whether the process is killed between.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use nagaya_store::Position;
use nagaya_tenancy::{Follower, Record};
use tokio::task::{JoinError, JoinSet};

use crate::{
    Content, Error, ErrorKind, Processor, Recorded, Verified,
    generation::Generations,
    processor::{Advanced, Aggregate},
};

/// How far a pass over the events has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events that have been read.
    pub events: u64,
    /// Aggregates that have been dealt with.
    pub aggregates: u64,
    /// Aggregates of these that are parked.
    pub parked: usize,
    /// Whether it is the pass that checks, which comes after the one that builds.
    pub checking: bool,
}

/// Told how far a pass has come.
pub type Tell<'t> = &'t (dyn Fn(Progress) + Send + Sync);

/// What is done with the events of each aggregate, in a generation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Job {
    /// Its item is brought to the last of them.
    Advance(u32),
    /// Its item is compared with what they give.
    Compare(u32),
    /// Its item is made what they give.
    Mend(u32),
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Done {
    parked: usize,
    mended: u64,
    pub(crate) verified: Verified,
    /// The items that were made from their first events on.
    built: Content,
    /// Whether there are others: begun before, or fed by somebody else.
    unsure: bool,
}

impl Done {
    fn merge(&mut self, other: Done) {
        self.parked += other.parked;
        self.mended += other.mended;
        self.verified.merge(other.verified);
        self.built.merge(&other.built);
        self.unsure |= other.unsure;
    }
}

/// How far all parts have come.
#[derive(Debug, Default)]
struct Count {
    events: AtomicU64,
    aggregates: AtomicU64,
    parked: AtomicUsize,
}

impl Count {
    fn progress(&self) -> Progress {
        Progress {
            events: self.events.load(Ordering::Relaxed),
            aggregates: self.aggregates.load(Ordering::Relaxed),
            parked: self.parked.load(Ordering::Relaxed),
            checking: false,
        }
    }

    /// Takes in what came of one aggregate.
    fn one(&self, done: Option<Result<Done, Error>>, all: &mut Done) -> Result<(), Error> {
        let Some(done) = done.transpose()? else { return Ok(()) };
        self.aggregates.fetch_add(1, Ordering::Relaxed);
        self.parked.fetch_add(done.parked, Ordering::Relaxed);
        all.merge(done);
        Ok(())
    }
}

/// The stored events of one aggregate, each with whose it is.
type Group = Vec<(String, Record)>;

/// How far the events have been read.
#[derive(Default)]
struct Reading {
    after: Option<Position>,
    ended: bool,
    /// What has been read of an aggregate that may go on.
    open: Group,
}

/// What came of a task; one that panics panics here.
fn ended(task: Option<Result<Result<Done, Error>, JoinError>>) -> Result<Done, Error> {
    match task {
        None => Ok(Done::default()),
        Some(Ok(done)) => done,
        Some(Err(error)) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(ErrorKind::Busy("the process is ending".to_owned()).into()),
        },
    }
}

/// How often is told how far a pass has come.
const TELLING: Duration = Duration::from_millis(100);
/// Items of a page.
pub(crate) const PAGE: usize = 2_000;

impl Processor {
    /// Builds the projection anew beside the one that is read, checks it, and reads it from then on. If it is not what its
    /// events give, the one that was read before still is; what is wrong is told.
    pub async fn rebuild(&self, tell: Tell<'_>) -> Result<Verified, Error> {
        let generation = self.begin_generation().await?;
        let follower = self.follower().await?;
        // One that was begun before may have met events that can be applied by now.
        self.free_all(generation).await?;
        let (progress, done) = self.each_aggregate(follower, None, tell, Job::Advance(generation)).await?;
        let verified = match self.read_back(generation, progress, &done).await? {
            Some(verified) => verified,
            // Something was there before, or has happened meanwhile: each item is looked at, beside its events.
            None => self.verify_generation(follower, generation, None, tell).await?,
        };
        if verified.holds() {
            self.switch_to(generation).await?;
        }
        Ok(verified)
    }

    /// Checks a generation that has just been made against what the events have given, by what is stored; `None` if they
    /// differ, or if not all of it has been made just now.
    async fn read_back(&self, generation: u32, progress: Progress, done: &Done) -> Result<Option<Verified>, Error> {
        if done.unsure || done.parked > 0 {
            return Ok(None);
        }
        let found = self.content(generation).await?;
        let Progress { events, aggregates, .. } = progress;
        let verified = Verified { generation, events, aggregates, expected: done.built, found, ..Verified::default() };
        Ok(Some(verified).filter(Verified::holds))
    }

    /// All items of a generation.
    async fn content(&self, generation: u32) -> Result<Content, Error> {
        let operator = self.house(generation).operator("verifies a projection", self.operator.principal());
        let items = operator.follow(self.projection.entity()).await?;
        let (mut content, mut after) = (Content::default(), None);
        loop {
            let page = items.scan((0, 1), after, Some(PAGE)).await?;
            for (owner, record) in &page.records {
                content.add(owner, &record.id().concat(), Some(&self.own_fields(record)));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(content),
            }
        }
    }

    /// Checks the projection that is read against its events; of one tenant, or of all.
    pub async fn verify(&self, tenant: Option<&str>) -> Result<Verified, Error> {
        self.verify_told(tenant, &|_| {}).await
    }

    /// The same, and tells how far it has come.
    pub async fn verify_told(&self, tenant: Option<&str>, tell: Tell<'_>) -> Result<Verified, Error> {
        let generation = Generations::read(self).await?.current;
        let follower = self.follower().await?;
        self.verify_generation(follower, generation, tenant, tell).await
    }

    /// Brings every item of a tenant to what its events give, in the generation that is read; how many were not.
    pub async fn repair(&self, tenant: &str, tell: Tell<'_>) -> Result<u64, Error> {
        let generation = Generations::read(self).await?.current;
        let follower = self.follower().await?;
        let handle = self.tenant(generation, tenant)?;
        let (_, done) = self.each_aggregate(follower, Some(tenant), tell, Job::Mend(generation)).await?;
        let mut repaired = done.mended;
        for (_, id, record) in self.strays(generation, Some(tenant)).await? {
            match handle.delete(self.projection.entity(), &[&id], &record).await {
                Ok(()) => repaired += 1,
                Err(error) if crate::processor::overtaken(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(repaired)
    }

    /// Brings all aggregates to what their events say, in one generation.
    pub(crate) async fn catch_up(
        &self,
        follower: &Follower,
        generation: u32,
        tell: Tell<'_>,
    ) -> Result<Progress, Error> {
        let (progress, _) = self.each_aggregate(follower, None, tell, Job::Advance(generation)).await?;
        Ok(progress)
    }

    /// Does something with the events of each aggregate, in order; many aggregates at a time, on all processors, and never
    /// more of them in memory. One reads, for events that are passed over by one reader would be read by another; what is
    /// read is worked on in tasks.
    pub(crate) async fn each_aggregate(
        &self,
        follower: &Follower,
        tenant: Option<&str>,
        tell: Tell<'_>,
        job: Job,
    ) -> Result<(Progress, Done), Error> {
        let count = Arc::new(Count::default());
        let (mut reading, mut all, mut told) = (Reading::default(), Done::default(), Instant::now());
        let mut parts: JoinSet<Result<Done, Error>> = JoinSet::new();
        while !reading.ended {
            let groups = self.groups(follower, tenant, &mut reading).await?;
            let (processor, counted) = (self.clone(), Arc::clone(&count));
            parts.spawn(async move { processor.part(job, groups, &counted).await }.boxed());
            while parts.len() > self.options.tasks.max(1) * 2 {
                all.merge(ended(parts.join_next().await)?);
            }
            if told.elapsed() >= TELLING {
                tell(count.progress());
                told = Instant::now();
            }
        }
        while !parts.is_empty() {
            all.merge(ended(parts.join_next().await)?);
        }
        let progress = count.progress();
        tell(progress);
        Ok((progress, all))
    }

    /// Does it with some aggregates.
    async fn part(&self, job: Job, groups: Vec<Group>, count: &Count) -> Result<Done, Error> {
        let mut under_way: FuturesUnordered<BoxFuture<'_, Result<Done, Error>>> = FuturesUnordered::new();
        let mut all = Done::default();
        if let Job::Advance(generation) = job {
            return self.build(generation, groups, count).await;
        }
        for group in groups {
            for events in self.events_of(group) {
                count.events.fetch_add(events.len() as u64, Ordering::Relaxed);
                under_way.push(self.work(job, events));
                while under_way.len() >= self.options.at_once {
                    count.one(under_way.next().await, &mut all)?;
                }
            }
        }
        while !under_way.is_empty() {
            count.one(under_way.next().await, &mut all)?;
        }
        Ok(all)
    }

    /// Brings some aggregates to the last of their events.
    async fn build(&self, generation: u32, groups: Vec<Group>, count: &Count) -> Result<Done, Error> {
        let mut aggregates: Vec<Aggregate> = Vec::with_capacity(groups.len());
        for events in groups.into_iter().flat_map(|group| self.events_of(group)) {
            count.events.fetch_add(events.len() as u64, Ordering::Relaxed);
            if let Some(first) = events.first() {
                aggregates.push(((first.tenant.clone(), first.aggregate.clone()), events));
            }
        }
        let mut done = Done::default();
        for one in self.advance_all(generation, aggregates).await? {
            count.aggregates.fetch_add(1, Ordering::Relaxed);
            done.parked += usize::from(one.advanced == Advanced::Parked);
            match one.built {
                Some(item) => done.built.add(&one.tenant, &one.id, item.as_ref()),
                None => done.unsure = true,
            }
        }
        count.parked.fetch_add(done.parked, Ordering::Relaxed);
        Ok(done)
    }

    /// The events of a partition, by whose they are: one's, unless somebody has put in others.
    fn events_of(&self, group: Group) -> impl Iterator<Item = Vec<Recorded>> + use<> {
        let mut events: BTreeMap<String, Vec<Recorded>> = BTreeMap::new();
        for (owner, record) in group {
            match Recorded::read(&self.layout, &owner, &record) {
                Ok(event) => events.entry(owner).or_default().push(event),
                // Who brings the aggregate in step finds a hole there, and looks.
                Err(error) => tracing::error!(%error, tenant = owner, "what is no event lies among events"),
            }
        }
        events.into_values()
    }

    fn work(&self, job: Job, events: Vec<Recorded>) -> BoxFuture<'_, Result<Done, Error>> {
        Box::pin(async move {
            let mut done = Done::default();
            let Some(owner) = events.first().map(|first| first.tenant.clone()) else {
                return Ok(done);
            };
            match job {
                // Done for many at once.
                Job::Advance(_) => {}
                Job::Compare(generation) => {
                    done.verified = self.compare(&self.tenant(generation, &owner)?, events).await?;
                }
                Job::Mend(generation) => {
                    done.mended = u64::from(self.mend(&self.tenant(generation, &owner)?, &events).await?);
                }
            }
            Ok(done)
        })
    }

    /// The stored events of the next aggregates, each with all of its events in order.
    async fn groups(
        &self,
        follower: &Follower,
        tenant: Option<&str>,
        reading: &mut Reading,
    ) -> Result<Vec<Group>, Error> {
        let page = follower.scan((0, 1), reading.after.take(), Some(PAGE)).await?;
        let mut whole = Vec::new();
        for (owner, record) in page.records {
            if tenant.is_some_and(|one| one != owner) {
                continue;
            }
            // All events of an aggregate lie together: the first of another one ends it.
            let id = &self.layout.id;
            if reading.open.last().is_some_and(|(_, last)| last.text(id) != record.text(id)) {
                whole.push(std::mem::take(&mut reading.open));
            }
            reading.open.push((owner, record));
        }
        reading.after = page.next;
        if reading.after.is_none() {
            reading.ended = true;
            whole.push(std::mem::take(&mut reading.open));
        }
        Ok(whole)
    }
}
