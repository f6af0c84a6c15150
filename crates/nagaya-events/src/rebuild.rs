//! Building a projection anew beside the one that is read, and checking it against its events.
//!
//! A new generation is fed by what happens from the moment that it is named, and by what has happened before. Both go by the
//! same checkpoints, so it does not matter which of them comes first, or how often, or whether the process is killed between.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use nagaya_store::Position;
use nagaya_tenancy::{Follower, Record};
use tokio::{
    sync::Mutex,
    task::{JoinError, JoinSet},
};

use crate::{
    Content, Error, ErrorKind, Processor, Recorded, Verified,
    generation::Generations,
    processor::{Advanced, Aggregate, Became, Gathered},
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

    /// Takes in what became of aggregates that were brought to the last of their events.
    fn built(&self, became: impl IntoIterator<Item = Became>, all: &mut Done) {
        for one in became {
            let parked = usize::from(one.advanced == Advanced::Parked);
            self.aggregates.fetch_add(1, Ordering::Relaxed);
            self.parked.fetch_add(parked, Ordering::Relaxed);
            all.parked += parked;
            match one.built {
                Some(item) => all.built.merge(&item),
                None => all.unsure = true,
            }
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

/// A part of the stored events, which two tasks read by turns.
struct Reading {
    follower: Follower,
    /// Which part of how many.
    segment: (u32, u32),
    /// Whose events are read; `None`: all.
    tenant: Option<String>,
    /// How many are read at once.
    limit: usize,
    after: Option<Position>,
    ended: bool,
    /// What has been read of an aggregate that may go on.
    open: Vec<(String, Record)>,
}

impl Reading {
    /// The stored events of the next aggregates and whose they are, each with all of its events in order; `None`: there are
    /// no more. `id` is the field that tells aggregates apart.
    async fn next(&mut self, id: &str) -> Result<Option<Vec<(String, Record)>>, Error> {
        if self.ended {
            return Ok(None);
        }
        // If this fails, it has ended for all.
        self.ended = true;
        let page = self.follower.scan(self.segment, self.after.take(), Some(self.limit)).await?;
        let mut events = std::mem::take(&mut self.open);
        let before = events.len();
        let tenant = self.tenant.as_deref();
        events.extend(page.records.into_iter().filter(|(owner, _)| tenant.is_none_or(|one| one == owner)));
        if let Some(next) = page.next {
            (self.after, self.ended) = (Some(next), false);
            // All events of an aggregate lie together: only the last one may go on.
            let last = events.last().map(|(_, last)| last.text(id));
            let is_last = |(_, event): &&(String, Record)| Some(event.text(id)) == last;
            let (known, new) = events.split_at(before);
            let mut open = new.iter().rev().take_while(is_last).count();
            if open == new.len() && known.last().is_some_and(|event| is_last(&event)) {
                open = events.len();
            }
            self.open = events.split_off(events.len() - open);
        }
        Ok(Some(events))
    }
}

/// What came of a task; one that panics panics here.
fn ended<T: Default>(task: Option<Result<Result<T, Error>, JoinError>>) -> Result<T, Error> {
    match task {
        None => Ok(T::default()),
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
/// Events of a page that are worked on at once, while they are at hand.
const EVENTS: usize = 500;

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
        let mut parts: JoinSet<Result<Content, Error>> = JoinSet::new();
        for segment in 0..self.segments() {
            let (processor, items, segment) = (self.clone(), items.clone(), (segment, self.segments()));
            parts.spawn(async move { processor.content_of(&items, segment).await }.boxed());
        }
        let mut content = Content::default();
        while !parts.is_empty() {
            content.merge(&ended(parts.join_next().await)?);
        }
        Ok(content)
    }

    /// How many parts are read side by side.
    fn segments(&self) -> u32 {
        u32::try_from(self.options.tasks).unwrap_or(1).max(1)
    }

    /// The items of one part of a generation.
    async fn content_of(&self, items: &Follower, segment: (u32, u32)) -> Result<Content, Error> {
        let (mut content, mut after) = (Content::default(), None);
        loop {
            let page = items.scan(segment, after, Some(PAGE)).await?;
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
    /// more of them in memory. Each part of the events is read by two tasks in turns; each works on what it has read itself,
    /// where that is at hand.
    pub(crate) async fn each_aggregate(
        &self,
        follower: &Follower,
        tenant: Option<&str>,
        tell: Tell<'_>,
        job: Job,
    ) -> Result<(Progress, Done), Error> {
        let (follower, tenant) = (follower.clone(), tenant.map(str::to_owned));
        let limit = if matches!(job, Job::Advance(_)) { EVENTS } else { PAGE };
        let count = Arc::new(Count::default());
        let mut parts: JoinSet<Result<Done, Error>> = JoinSet::new();
        for segment in 0..self.segments() {
            let (follower, tenant, segment) = (follower.clone(), tenant.clone(), (segment, self.segments()));
            let reading = Reading { follower, segment, tenant, limit, after: None, ended: false, open: Vec::new() };
            let reading = Arc::new(Mutex::new(reading));
            // While one waits for the store, the other works.
            for _ in 0..2 {
                let (processor, reading, count) = (self.clone(), Arc::clone(&reading), Arc::clone(&count));
                parts.spawn(async move { processor.part(job, &reading, &count).await }.boxed());
            }
        }
        let mut all = Done::default();
        while !parts.is_empty() {
            tokio::select! {
                part = parts.join_next() => all.merge(ended(part)?),
                () = tokio::time::sleep(TELLING) => tell(count.progress()),
            }
        }
        let progress = count.progress();
        tell(progress);
        Ok((progress, all))
    }

    /// Does it with some aggregates after others, until there are no more.
    async fn part(&self, job: Job, reading: &Mutex<Reading>, count: &Count) -> Result<Done, Error> {
        let (mut all, mut gathered) = (Done::default(), Gathered::default());
        loop {
            let next = reading.lock().await.next(&self.layout.id).await?;
            let Some(events) = next else { break };
            let aggregates = self.by_aggregate(events, count);
            match job {
                Job::Advance(generation) => {
                    count.built(self.gather(generation, aggregates, &mut gathered).await?, &mut all);
                    if gathered.is_full() {
                        count.built(self.advance_gathered(&mut gathered).await?, &mut all);
                    }
                }
                Job::Compare(_) | Job::Mend(_) => all.merge(self.each(job, aggregates, count).await?),
            }
        }
        count.built(self.advance_gathered(&mut gathered).await?, &mut all);
        Ok(all)
    }

    /// Does it with each of some aggregates.
    async fn each(&self, job: Job, aggregates: Vec<Aggregate>, count: &Count) -> Result<Done, Error> {
        let mut under_way: FuturesUnordered<BoxFuture<'_, Result<Done, Error>>> = FuturesUnordered::new();
        let mut all = Done::default();
        for (_, events) in aggregates {
            under_way.push(self.work(job, events));
            while under_way.len() >= self.options.at_once {
                count.one(under_way.next().await, &mut all)?;
            }
        }
        while !under_way.is_empty() {
            count.one(under_way.next().await, &mut all)?;
        }
        Ok(all)
    }

    /// Stored events by whose they are and what they happened to.
    fn by_aggregate(&self, stored: Vec<(String, Record)>, count: &Count) -> Vec<Aggregate> {
        let (mut aggregates, mut events): (Vec<Aggregate>, u64) = (Vec::new(), 0);
        for (owner, record) in stored {
            let event = match Recorded::read(&self.layout, &owner, record) {
                Ok(event) => event,
                // Who brings the aggregate in step finds a hole there, and looks.
                Err(error) => {
                    tracing::error!(%error, tenant = owner, "what is no event lies among events");
                    continue;
                }
            };
            events += 1;
            // The events of an aggregate are one's, unless somebody has put in others.
            let mut same = aggregates.iter_mut().rev().take_while(|((_, id), _)| *id == event.aggregate);
            if let Some((_, known)) = same.find(|((tenant, _), _)| *tenant == event.tenant) {
                known.push(event);
                continue;
            }
            // Most have about as many as the one before.
            let mut first = Vec::with_capacity(aggregates.last().map_or(1, |(_, before)| before.len()));
            let aggregate = (event.tenant.clone(), event.aggregate.clone());
            first.push(event);
            aggregates.push((aggregate, first));
        }
        count.events.fetch_add(events, Ordering::Relaxed);
        aggregates
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
}
