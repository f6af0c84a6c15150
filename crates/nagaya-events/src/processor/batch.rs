//! Many aggregates in one write: a commit costs about the same for one as for thirty.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use futures_util::{
    StreamExt as _,
    future::{BoxFuture, join, try_join_all},
    stream,
};
use nagaya_tenancy::{Record, Tenant};

use super::{AdvanceState, Checkpoint, Processor};
use crate::{Error, Item, ItemsDigest, RecordedEvent, error::is_lost_race, seal};

/// How many aggregates one write takes: each is an item and a checkpoint, and a set has at most a hundred writes.
const AGGREGATES_PER_WRITE: usize = 32;
/// How many aggregates a batch holds before it is written.
const MAX_BATCH_AGGREGATES: usize = 1_000;

/// The tenant and the id of an aggregate, and events of it.
pub(crate) type Aggregate = ((String, String), Vec<RecordedEvent>);

/// The outcome of applying events to an aggregate's item.
#[derive(Debug)]
pub(crate) struct AdvanceOutcome {
    pub(crate) state: AdvanceState,
    /// The item, if it has been built from the first event on.
    pub(crate) built: Option<ItemsDigest>,
}

/// An aggregate whose item has been computed and not written yet.
struct PreparedItem {
    id: String,
    before: Option<Record>,
    item: Item,
    checkpoint: Checkpoint,
    /// Whether the aggregate had no item before.
    is_new: bool,
    /// Its events, in case it has to be advanced alone; or only the last one: those before it can be read again.
    events: Vec<RecordedEvent>,
}

/// Items that are written together, by tenant.
#[derive(Default)]
pub(crate) struct WriteBatch {
    tenants: BTreeMap<Arc<str>, (Tenant, Vec<PreparedItem>)>,
    count: usize,
}

/// An item for the batch, or the outcome of an aggregate that had to be advanced alone.
type Prepared = Result<(Tenant, PreparedItem), AdvanceOutcome>;

impl WriteBatch {
    fn add(&mut self, tenant: Tenant, one: PreparedItem) {
        let name = Arc::clone(&tenant.principal().tenant);
        self.tenants.entry(name).or_insert_with(|| (tenant, Vec::new())).1.push(one);
        self.count += 1;
    }

    /// Whether it should be written: it fills whole writes also for many tenants, and more would take too much memory.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= MAX_BATCH_AGGREGATES
    }
}

impl Processor {
    /// Applies events of aggregates to their items, in a generation.
    pub(crate) async fn advance_all(&self, generation: u32, all: Vec<Aggregate>) -> Result<Vec<AdvanceOutcome>, Error> {
        let mut tenants: BTreeMap<String, Vec<(String, Vec<RecordedEvent>)>> = BTreeMap::new();
        for ((tenant, id), events) in all {
            tenants.entry(tenant).or_default().push((id, events));
        }
        let mut work: Vec<BoxFuture<'_, Result<Vec<AdvanceOutcome>, Error>>> = Vec::new();
        for (name, mut aggregates) in tenants {
            let tenant = self.tenant(generation, &name)?;
            while !aggregates.is_empty() {
                let some = aggregates.split_off(aggregates.len().saturating_sub(AGGREGATES_PER_WRITE));
                work.push(Box::pin(self.advance_tenant(tenant.clone(), some)));
            }
        }
        self.run_all(work).await
    }

    async fn run_all(
        &self,
        work: Vec<BoxFuture<'_, Result<Vec<AdvanceOutcome>, Error>>>,
    ) -> Result<Vec<AdvanceOutcome>, Error> {
        let mut done = stream::iter(work).buffer_unordered(self.options.at_once);
        let mut outcomes = Vec::new();
        while let Some(some) = done.next().await {
            outcomes.extend(some?);
        }
        Ok(outcomes)
    }

    /// Adds the items of aggregates to a batch; the outcomes of those that had to be advanced alone.
    pub(crate) async fn add_to_batch(
        &self,
        generation: u32,
        all: Vec<Aggregate>,
        batch: &mut WriteBatch,
    ) -> Result<Vec<AdvanceOutcome>, Error> {
        let mut work: Vec<BoxFuture<'_, Result<Prepared, Error>>> = Vec::with_capacity(all.len());
        for ((name, id), events) in all {
            let tenant = match batch.tenants.get(name.as_str()) {
                Some((tenant, _)) => tenant.clone(),
                None => self.tenant(generation, &name)?,
            };
            work.push(Box::pin(self.prepare_or_apply_alone(tenant, id, events)));
        }
        let mut done = stream::iter(work).buffer_unordered(self.options.at_once);
        let mut outcomes = Vec::new();
        while let Some(one) = done.next().await {
            match one? {
                Err(alone) => outcomes.push(alone),
                Ok((tenant, ready)) => batch.add(tenant, ready),
            }
        }
        Ok(outcomes)
    }

    async fn prepare_or_apply_alone(
        &self,
        tenant: Tenant,
        id: String,
        events: Vec<RecordedEvent>,
    ) -> Result<Prepared, Error> {
        match self.prepare_item(&tenant, &id, events).await? {
            Ok(mut one) => {
                one.events = Vec::from_iter(one.events.pop());
                Ok(Ok((tenant, one)))
            }
            Err(events) => Ok(Err(self.advance_alone(&tenant, id, events).await?)),
        }
    }

    /// Writes a batch, and leaves it empty.
    pub(crate) async fn write_batch(&self, batch: &mut WriteBatch) -> Result<Vec<AdvanceOutcome>, Error> {
        let mut work: Vec<BoxFuture<'_, Result<Vec<AdvanceOutcome>, Error>>> = Vec::new();
        for (tenant, mut ready) in std::mem::take(batch).tenants.into_values() {
            while !ready.is_empty() {
                let some = ready.split_off(ready.len().saturating_sub(AGGREGATES_PER_WRITE));
                work.push(Box::pin(self.write_prepared(tenant.clone(), some)));
            }
        }
        self.run_all(work).await
    }

    /// Advances aggregates of a tenant: in one write as far as possible, the others alone.
    async fn advance_tenant(
        &self,
        tenant: Tenant,
        some: Vec<(String, Vec<RecordedEvent>)>,
    ) -> Result<Vec<AdvanceOutcome>, Error> {
        let (mut ready, mut alone) = (Vec::with_capacity(some.len()), Vec::new());
        for (id, events) in some {
            match self.prepare_item(&tenant, &id, events).await? {
                Ok(one) => ready.push(one),
                Err(events) => alone.push((id, events)),
            }
        }
        // Those that fail do not wait for each other, and the others do not wait for them.
        let alone = alone.into_iter().map(|(id, events)| self.advance_alone(&tenant, id, events));
        let (written, alone) = join(self.write_prepared(tenant.clone(), ready), try_join_all(alone)).await;
        let mut outcomes = written?;
        outcomes.extend(alone?);
        Ok(outcomes)
    }

    /// Writes items of a tenant in one write; if that fails, advances each aggregate alone.
    async fn write_prepared(&self, tenant: Tenant, ready: Vec<PreparedItem>) -> Result<Vec<AdvanceOutcome>, Error> {
        let (mut outcomes, mut events) = (Vec::with_capacity(ready.len()), Vec::with_capacity(ready.len()));
        let mut set = tenant.change_set();
        for one in ready {
            let built =
                one.is_new.then(|| ItemsDigest::of_item(&tenant.principal().tenant, &one.id, one.item.as_ref()));
            outcomes.push(AdvanceOutcome { state: AdvanceState::UpToDate, built });
            set = self.add_item_write(set, &one.id, one.before.as_ref(), one.item);
            set = self.add_checkpoint_write(set, &one.id, &one.checkpoint);
            events.push((one.id, one.events));
        }
        let written = if events.is_empty() { Ok(Vec::new()) } else { set.commit().await };
        match written {
            Ok(_) => return Ok(outcomes),
            // Each aggregate alone shows which of them cannot be written.
            Err(error) if is_lost_race(&error) || error.is_permanent() || events.len() > 1 => outcomes.clear(),
            Err(error) => return Err(error.into()),
        }
        let alone = events.into_iter().map(|(id, events)| self.advance_alone(&tenant, id, events));
        outcomes.extend(try_join_all(alone).await?);
        Ok(outcomes)
    }

    async fn advance_alone(
        &self,
        tenant: &Tenant,
        id: String,
        events: Vec<RecordedEvent>,
    ) -> Result<AdvanceOutcome, Error> {
        let (state, built) = self.advance_or_unpark(tenant, &id, events, None).await?;
        let built = built.map(|item| ItemsDigest::of_item(&tenant.principal().tenant, &id, item.as_ref()));
        Ok(AdvanceOutcome { state, built })
    }

    /// Computes the item of an aggregate, if its events are complete and can be applied; its events otherwise.
    async fn prepare_item(
        &self,
        tenant: &Tenant,
        id: &str,
        events: Vec<RecordedEvent>,
    ) -> Result<Result<PreparedItem, Vec<RecordedEvent>>, Error> {
        let checkpoint = self.read_checkpoint(tenant, id).await?;
        let complete = events.iter().zip(checkpoint.version + 1..).all(|(event, version)| event.version == version);
        let Some(last) = events.last().filter(|_| complete && checkpoint.parked.is_none()) else {
            return Ok(Err(events));
        };
        let checkpoint = checkpoint.advanced_to(last.version, &last.id);
        let before = if checkpoint.is_new() { None } else { self.read_item(tenant, id).await? };
        let mut decrypted = Cow::Borrowed(events.as_slice());
        if self.layout.keys.is_some() {
            seal::open_if_possible(&self.layout, tenant, decrypted.to_mut()).await?;
        }
        let mut item = before.as_ref().map(|record| self.own_fields(record));
        for event in &*decrypted {
            match self.apply(item, event) {
                Ok(after) => item = after,
                Err(_) => return Ok(Err(events)),
            }
        }
        let is_new = checkpoint.is_new();
        Ok(Ok(PreparedItem { id: id.to_owned(), before, item, checkpoint, is_new, events }))
    }
}
