//! Many aggregates by one write: a commit costs about the same for one as for thirty.

use std::{borrow::Cow, collections::BTreeMap};

use futures_util::{StreamExt as _, future::BoxFuture, stream};
use nagaya_tenancy::{Record, Tenant};

use super::{Advanced, Checkpoint, Processor, advance::is_lasting, overtaken};
use crate::{Error, Item, Recorded, seal};

/// How many aggregates one write takes: each is an item and a checkpoint, and a store takes a hundred writes at once.
const TOGETHER: usize = 32;

/// An aggregate of a tenant, and events of it.
pub(crate) type Aggregate = ((String, String), Vec<Recorded>);

/// What became of an aggregate.
#[derive(Debug)]
pub(crate) struct Became {
    pub(crate) tenant: String,
    pub(crate) id: String,
    pub(crate) advanced: Advanced,
    /// Its item, if this has made it from its first event on.
    pub(crate) built: Option<Item>,
}

/// An aggregate that is ready to be written.
struct Ready {
    id: String,
    before: Option<Record>,
    item: Item,
    moved: Checkpoint,
    /// Whether there was nothing of it before.
    fresh: bool,
    /// Its events, for when it has to be done again by itself.
    events: Vec<Recorded>,
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
                work.push(Box::pin(self.advance_some(tenant.clone(), name.clone(), some)));
            }
        }
        let mut done = stream::iter(work).buffer_unordered(self.options.at_once);
        let mut became = Vec::new();
        while let Some(some) = done.next().await {
            became.extend(some?);
        }
        Ok(became)
    }

    /// Brings some aggregates of a tenant in step: together as far as nothing is in the way, the others by themselves.
    async fn advance_some(
        &self,
        tenant: Tenant,
        name: String,
        some: Vec<(String, Vec<Recorded>)>,
    ) -> Result<Vec<Became>, Error> {
        let (mut became, mut ready, mut alone) = (Vec::with_capacity(some.len()), Vec::new(), Vec::new());
        for (id, events) in some {
            match self.ready(&tenant, &id, events).await? {
                Ok(one) => ready.push(one),
                Err(events) => alone.push((id, events)),
            }
        }
        let is_one = ready.len() == 1;
        let set = ready.iter().fold(tenant.set(), |set, one| {
            let set = self.change(set, &one.id, one.before.as_ref(), one.item.clone());
            self.move_to(set, &one.id, &one.moved)
        });
        let written = if ready.is_empty() { Ok(Vec::new()) } else { set.commit().await };
        match written {
            Ok(_) => became.extend(ready.into_iter().map(|one| Became {
                tenant: name.clone(),
                id: one.id,
                advanced: Advanced::Done,
                built: one.fresh.then_some(one.item),
            })),
            // Which of them is in the way they find out by themselves.
            Err(error) if overtaken(&error) || is_lasting(&error) || !is_one => {
                alone.extend(ready.into_iter().map(|one| (one.id, one.events)));
            }
            Err(error) => return Err(error.into()),
        }
        for (id, events) in alone {
            let (advanced, built) = self.advance_freeing(&tenant, &id, events, None).await?;
            became.push(Became { tenant: name.clone(), id, advanced, built });
        }
        Ok(became)
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
