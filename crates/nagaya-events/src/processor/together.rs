//! Many aggregates by one write: a commit costs about the same for one as for thirty.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt as _, future::BoxFuture, stream};
use nagaya_tenancy::{Record, Tenant};

use super::{Advanced, Checkpoint, Processor, advance::is_lasting, overtaken};
use crate::{Content, Error, Item, Recorded, seal};

/// How many aggregates one write takes: each is an item and a checkpoint, and a store takes a hundred writes at once.
const TOGETHER: usize = 32;
/// How many aggregates are gathered before they are written.
const FULL: usize = 1_000;

/// An aggregate of a tenant, and events of it.
pub(crate) type Aggregate = ((String, String), Vec<Recorded>);

/// What became of an aggregate.
#[derive(Debug)]
pub(crate) struct Became {
    pub(crate) advanced: Advanced,
    /// Its item, if this has made it from its first event on.
    pub(crate) built: Option<Content>,
}

/// An aggregate that is ready to be written.
struct Ready {
    id: String,
    before: Option<Record>,
    item: Item,
    moved: Checkpoint,
    /// Whether there was nothing of it before.
    fresh: bool,
    /// Its events, for when it has to be done again by itself; or the last one: those before it can be read again.
    events: Vec<Recorded>,
}

/// Aggregates that are ready to be written together, by whose they are.
#[derive(Default)]
pub(crate) struct Gathered {
    tenants: BTreeMap<Arc<str>, (Tenant, Vec<Ready>)>,
    count: usize,
}

/// An aggregate that can be written beside others of its tenant, or what became of it by itself.
type Prepared = Result<(Tenant, Ready), Became>;

impl Gathered {
    fn add(&mut self, tenant: Tenant, one: Ready) {
        let name = Arc::clone(&tenant.principal().tenant);
        self.tenants.entry(name).or_insert_with(|| (tenant, Vec::new())).1.push(one);
        self.count += 1;
    }

    /// Whether there are enough of them for whole writes, also of many tenants; and as many as should be in memory.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= FULL
    }
}

impl Processor {
    /// Brings aggregates in a generation to the last of their events.
    pub(crate) async fn advance_all(&self, generation: u32, all: Vec<Aggregate>) -> Result<Vec<Became>, Error> {
        let mut tenants: BTreeMap<String, Vec<(String, Vec<Recorded>)>> = BTreeMap::new();
        for ((tenant, id), events) in all {
            tenants.entry(tenant).or_default().push((id, events));
        }
        let mut work: Vec<BoxFuture<'_, Result<Vec<Became>, Error>>> = Vec::new();
        for (name, mut aggregates) in tenants {
            let tenant = self.tenant(generation, &name)?;
            while !aggregates.is_empty() {
                let some = aggregates.split_off(aggregates.len().saturating_sub(TOGETHER));
                work.push(Box::pin(self.advance_some(tenant.clone(), some)));
            }
        }
        self.all_of(work).await
    }

    async fn all_of(&self, work: Vec<BoxFuture<'_, Result<Vec<Became>, Error>>>) -> Result<Vec<Became>, Error> {
        let mut done = stream::iter(work).buffer_unordered(self.options.at_once);
        let mut became = Vec::new();
        while let Some(some) = done.next().await {
            became.extend(some?);
        }
        Ok(became)
    }

    /// Makes aggregates ready to be written beside others; what became of those that had to be done by themselves.
    pub(crate) async fn gather(
        &self,
        generation: u32,
        all: Vec<Aggregate>,
        gathered: &mut Gathered,
    ) -> Result<Vec<Became>, Error> {
        let mut work: Vec<BoxFuture<'_, Result<Prepared, Error>>> = Vec::with_capacity(all.len());
        for ((name, id), events) in all {
            let tenant = match gathered.tenants.get(name.as_str()) {
                Some((tenant, _)) => tenant.clone(),
                None => self.tenant(generation, &name)?,
            };
            work.push(Box::pin(self.prepare(tenant, id, events)));
        }
        let mut done = stream::iter(work).buffer_unordered(self.options.at_once);
        let mut became = Vec::new();
        while let Some(one) = done.next().await {
            match one? {
                Err(alone) => became.push(alone),
                Ok((tenant, ready)) => gathered.add(tenant, ready),
            }
        }
        Ok(became)
    }

    async fn prepare(&self, tenant: Tenant, id: String, events: Vec<Recorded>) -> Result<Prepared, Error> {
        match self.ready(&tenant, &id, events).await? {
            Ok(mut one) => {
                one.events = Vec::from_iter(one.events.pop());
                Ok(Ok((tenant, one)))
            }
            Err(events) => Ok(Err(self.advance_alone(&tenant, id, events).await?)),
        }
    }

    /// Writes the aggregates that have been gathered.
    pub(crate) async fn advance_gathered(&self, gathered: &mut Gathered) -> Result<Vec<Became>, Error> {
        let mut work: Vec<BoxFuture<'_, Result<Vec<Became>, Error>>> = Vec::new();
        for (tenant, mut ready) in std::mem::take(gathered).tenants.into_values() {
            while !ready.is_empty() {
                let some = ready.split_off(ready.len().saturating_sub(TOGETHER));
                work.push(Box::pin(self.advance_ready(tenant.clone(), some)));
            }
        }
        self.all_of(work).await
    }

    /// Brings some aggregates of a tenant in step: together as far as nothing is in the way, the others by themselves.
    async fn advance_some(&self, tenant: Tenant, some: Vec<(String, Vec<Recorded>)>) -> Result<Vec<Became>, Error> {
        let (mut ready, mut alone) = (Vec::with_capacity(some.len()), Vec::new());
        for (id, events) in some {
            match self.ready(&tenant, &id, events).await? {
                Ok(one) => ready.push(one),
                Err(events) => alone.push((id, events)),
            }
        }
        let mut became = self.advance_ready(tenant.clone(), ready).await?;
        for (id, events) in alone {
            became.push(self.advance_alone(&tenant, id, events).await?);
        }
        Ok(became)
    }

    /// Writes aggregates of a tenant together, or if something is in the way each by itself.
    async fn advance_ready(&self, tenant: Tenant, ready: Vec<Ready>) -> Result<Vec<Became>, Error> {
        let (mut became, mut events) = (Vec::with_capacity(ready.len()), Vec::with_capacity(ready.len()));
        let mut set = tenant.set();
        for one in ready {
            let built = one.fresh.then(|| Content::of(&tenant.principal().tenant, &one.id, one.item.as_ref()));
            became.push(Became { advanced: Advanced::Done, built });
            set = self.change(set, &one.id, one.before.as_ref(), one.item);
            set = self.move_to(set, &one.id, &one.moved);
            events.push((one.id, one.events));
        }
        let written = if events.is_empty() { Ok(Vec::new()) } else { set.commit().await };
        match written {
            Ok(_) => return Ok(became),
            // Which of them is in the way they find out by themselves.
            Err(error) if overtaken(&error) || is_lasting(&error) || events.len() > 1 => became.clear(),
            Err(error) => return Err(error.into()),
        }
        for (id, events) in events {
            became.push(self.advance_alone(&tenant, id, events).await?);
        }
        Ok(became)
    }

    async fn advance_alone(&self, tenant: &Tenant, id: String, events: Vec<Recorded>) -> Result<Became, Error> {
        let (advanced, built) = self.advance_freeing(tenant, &id, events, None).await?;
        let built = built.map(|item| Content::of(&tenant.principal().tenant, &id, item.as_ref()));
        Ok(Became { advanced, built })
    }

    /// What an aggregate's events come to, if they are all here and nothing is in the way; its events otherwise.
    async fn ready(
        &self,
        tenant: &Tenant,
        id: &str,
        events: Vec<Recorded>,
    ) -> Result<Result<Ready, Vec<Recorded>>, Error> {
        let checkpoint = self.checkpoint(tenant, id).await?;
        let next = events.iter().zip(checkpoint.version + 1..).all(|(event, version)| event.version == version);
        let Some(last) = events.last().filter(|_| next && checkpoint.parked.is_none()) else { return Ok(Err(events)) };
        let moved = checkpoint.moved(last.version, &last.id);
        let before = if checkpoint.is_new() { None } else { self.item(tenant, id).await? };
        let mut opened = Cow::Borrowed(events.as_slice());
        if self.layout.keys.is_some() {
            seal::open(&self.layout, tenant, opened.to_mut()).await?;
        }
        let mut item = before.as_ref().map(|record| self.own_fields(record));
        for event in &*opened {
            match self.apply(item, event) {
                Ok(after) => item = after,
                Err(_) => return Ok(Err(events)),
            }
        }
        let fresh = checkpoint.is_new();
        Ok(Ok(Ready { id: id.to_owned(), before, item, moved, fresh, events }))
    }
}
