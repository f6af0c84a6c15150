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
use nagaya_tenancy::{Follower, Record, Tenant};
use serde_json::{Map, Value as Json};
use tokio::task::{JoinError, JoinSet};

use crate::{
    Error, ErrorKind, Item, Processor, Recorded, chain,
    events::read,
    generation::Generations,
    processor::{Advanced, Aggregate},
    seal,
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

/// What came of checking a projection against its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// The generation that was checked.
    pub generation: u32,
    /// Events.
    pub events: u64,
    /// Aggregates.
    pub aggregates: u64,
    /// Items that the events give, and a hash over all of them.
    pub expected: Content,
    /// Items that are there, and a hash over all of them.
    pub found: Content,
    /// Some of those that differ.
    pub wrong: Vec<Wrong>,
    /// How many differ.
    pub wrong_count: u64,
    /// Aggregates that are parked, and therefore not what their events give.
    pub parked: u64,
}

/// How many items there are, and a hash over all of them, in whatever order they come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Content {
    /// How many.
    pub items: u64,
    hash: [u64; 4],
}

/// An item that is not what its events give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Whose it is.
    pub tenant: String,
    /// The aggregate.
    pub aggregate: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// What is done with the events of each aggregate, in a generation.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// Its item is brought to the last of them.
    Advance(u32),
    /// Its item is compared with what they give.
    Compare(u32),
    /// Its item is made what they give.
    Mend(u32),
}

/// What came of it.
#[derive(Debug, Default)]
struct Done {
    parked: usize,
    mended: u64,
    verified: Verified,
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
/// How many that differ are named.
const NAMED: usize = 20;
/// Items of a page.
const PAGE: usize = 2_000;

impl Content {
    fn add(&mut self, tenant: &str, id: &str, item: Option<&Map<String, Json>>) {
        let Some(item) = item else { return };
        self.items += 1;
        let text = [tenant, id, &chain::canonical(item)].map(|part| format!("{}:{part}", part.len())).concat();
        let hash = blake3::hash(text.as_bytes());
        // A sum does not depend on the order, and unlike exclusive or does not lose what is there twice.
        for (sum, part) in self.hash.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let part = part.try_into().map(u64::from_be_bytes).unwrap_or_default();
            *sum = sum.wrapping_add(part);
        }
    }

    fn merge(&mut self, other: &Content) {
        self.items += other.items;
        for (sum, part) in self.hash.iter_mut().zip(other.hash) {
            *sum = sum.wrapping_add(part);
        }
    }

    /// The hash as text.
    pub fn hash(&self) -> String {
        self.hash.iter().map(|part| format!("{part:016x}")).collect()
    }
}

impl Verified {
    /// Whether the projection is what its events give.
    pub fn holds(&self) -> bool {
        self.expected == self.found && self.wrong_count == 0 && self.parked == 0
    }

    fn merge(&mut self, other: Verified) {
        self.events += other.events;
        self.aggregates += other.aggregates;
        self.expected.merge(&other.expected);
        self.found.merge(&other.found);
        self.wrong_count += other.wrong_count;
        self.parked += other.parked;
        let room = NAMED.saturating_sub(self.wrong.len());
        self.wrong.extend(other.wrong.into_iter().take(room));
    }

    fn differs(&mut self, tenant: &str, aggregate: &str, why: &'static str) {
        self.wrong_count += 1;
        if self.wrong.len() < NAMED {
            self.wrong.push(Wrong { tenant: tenant.to_owned(), aggregate: aggregate.to_owned(), why });
        }
    }
}

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
    async fn each_aggregate(
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

    /// What events give.
    fn expected(&self, events: &[Recorded]) -> Result<Item, Error> {
        let mut item = None;
        for event in events {
            item = self.apply(item, event)?;
        }
        Ok(item)
    }

    async fn verify_generation(
        &self,
        follower: &Follower,
        generation: u32,
        tenant: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<Verified, Error> {
        let told = |progress| tell(Progress { checking: true, ..progress });
        let (_, done) = self.each_aggregate(follower, tenant, &told, Job::Compare(generation)).await?;
        let mut verified = Verified { generation, ..done.verified };
        for (owner, id, record) in self.strays(generation, tenant).await? {
            verified.found.add(&owner, &id, Some(&self.own_fields(&record)));
            verified.differs(&owner, &id, "comes from no event");
        }
        Ok(verified)
    }

    /// Compares an aggregate's item with what its events give, at the version that the item has.
    async fn compare(&self, tenant: &Tenant, mut events: Vec<Recorded>) -> Result<Verified, Error> {
        let mut verified = Verified { events: events.len() as u64, aggregates: 1, ..Verified::default() };
        let Some((owner, id)) = events.first().map(|first| (first.tenant.clone(), first.aggregate.clone())) else {
            return Ok(verified);
        };
        let last = events.last().map_or(0, |last| last.version);
        let mut parked = false;
        seal::open(&self.layout, tenant, &mut events).await?;
        loop {
            let mut checkpoint = self.checkpoint(tenant, &id).await?;
            // What has happened since the events were read may be in the item, and what has happened before may not be yet.
            if checkpoint.version < last && checkpoint.parked.is_none() {
                parked = self.advance(tenant, &id, events.clone()).await? == Advanced::Parked;
                checkpoint = self.checkpoint(tenant, &id).await?;
            }
            let item = self.item(tenant, &id).await?;
            let again = self.checkpoint(tenant, &id).await?;
            if again.version != checkpoint.version {
                continue;
            }
            parked |= checkpoint.parked.is_some();
            if events.last().is_none_or(|last| last.version < checkpoint.version) {
                events.clear();
                let mut all = Vec::new();
                read(&self.layout, tenant, &id, (None, checkpoint.last.as_deref()), |event| {
                    all.push(event);
                    Ok(())
                })
                .await?;
                events = all;
            }
            events.retain(|event| event.version <= checkpoint.version);
            let found = item.as_ref().map(|record| self.own_fields(record));
            verified.found.add(&owner, &id, found.as_ref());
            if parked {
                // What it should be nobody can say: it counts as it is.
                verified.parked = 1;
                verified.expected.add(&owner, &id, found.as_ref());
                return Ok(verified);
            }
            // An event that cannot be applied has been left out on purpose: what the item should be nobody can say.
            let Ok(expected) = self.expected(&events) else {
                verified.expected.add(&owner, &id, found.as_ref());
                verified.differs(&owner, &id, "leaves out an event that cannot be applied");
                return Ok(verified);
            };
            verified.expected.add(&owner, &id, expected.as_ref());
            let why = match (&expected, &found) {
                (Some(_), None) => Some("is missing"),
                (None, Some(_)) => Some("should not be there"),
                (expected, found) if !same(expected.as_ref(), found.as_ref()) => Some("is not what its events give"),
                _ => None,
            };
            if let Some(why) = why {
                verified.differs(&owner, &id, why);
            }
            return Ok(verified);
        }
    }

    /// Makes an item what its events give, whatever it is; whether it was something else.
    async fn mend(&self, tenant: &Tenant, events: &[Recorded]) -> Result<bool, Error> {
        let Some(id) = events.first().map(|first| first.aggregate.clone()) else { return Ok(false) };
        for _ in 0..100 {
            let checkpoint = self.checkpoint(tenant, &id).await?;
            if checkpoint.parked.is_some() {
                return Ok(false);
            }
            let mut all = Vec::new();
            read(&self.layout, tenant, &id, (None, None), |event| {
                all.push(event);
                Ok(())
            })
            .await?;
            // What leaves out an event on purpose stays as it is.
            let Ok(expected) = self.expected(&all) else { return Ok(false) };
            let before = self.item(tenant, &id).await?;
            let found = before.as_ref().map(|record| self.own_fields(record));
            let Some(last) = all.last() else { return Ok(false) };
            if checkpoint.version == last.version && same(expected.as_ref(), found.as_ref()) {
                return Ok(false);
            }
            let moved = checkpoint.moved(last.version, &last.id);
            let set = self.change(tenant.set(), &id, before.as_ref(), expected);
            match self.move_to(set, &id, &moved).commit().await {
                Ok(_) => return Ok(true),
                Err(error) if crate::processor::overtaken(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(ErrorKind::Contended.into())
    }

    /// Items that no events have given, with whose they are and their aggregates.
    async fn strays(&self, generation: u32, tenant: Option<&str>) -> Result<Vec<(String, String, Record)>, Error> {
        let house = self.house(generation);
        let operator = house.operator("verifies a projection", self.operator.principal());
        let items = operator.follow(self.projection.entity()).await?;
        // A bounded number of handles: tenants come one after the other.
        let mut handle: Option<(String, Tenant)> = None;
        let (mut strays, mut after) = (Vec::new(), None);
        loop {
            let page = items.scan((0, 1), after, Some(PAGE)).await?;
            for (owner, record) in page.records {
                if tenant.is_some_and(|one| one != owner) {
                    continue;
                }
                let tenant = match handle.take() {
                    Some((name, tenant)) if name == owner => tenant,
                    _ => self.tenant(generation, &owner)?,
                };
                let id = record.id().concat();
                let is_stray = self.checkpoint(&tenant, &id).await?.version == 0;
                handle = Some((owner.clone(), tenant));
                if is_stray {
                    strays.push((owner, id, record));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(strays),
            }
        }
    }
}

fn same(one: Option<&Map<String, Json>>, other: Option<&Map<String, Json>>) -> bool {
    one.map(chain::canonical) == other.map(chain::canonical)
}
