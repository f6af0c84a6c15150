//! One aggregate's events into its item.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nagaya_store::ErrorKind as StoreKind;
use nagaya_tenancy::{ErrorKind as Kind, Keeper, Record, Set, Tenant};
use serde_json::{Map, Value as Json};

use super::{Checkpoint, Processor, checkpoint::InTheWay};
use crate::{Error, ErrorKind, Item, Recorded, events::read, order, seal};

/// How often a write is tried that others were faster than.
const RACES: usize = 100;

/// What became of an aggregate's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advanced {
    /// The item is as they say.
    Done,
    /// One of them cannot be applied; it and those after it wait.
    Parked,
}

/// How a parked aggregate is freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freeing {
    /// The version that it is parked at.
    pub(crate) version: u64,
    /// Whether the event is left out.
    pub(crate) skip: bool,
}

/// Events that come after a checkpoint.
struct Ahead {
    /// In order and without a gap.
    events: Vec<Recorded>,
    /// What comes after them and is no event, and why.
    stuck: Option<(InTheWay, Error)>,
}

/// How far events could be applied.
struct Folded {
    item: Item,
    /// The last one that is in it.
    reached: Option<Recorded>,
    /// The first one that is not, and why.
    stuck: Option<(InTheWay, Error)>,
}

impl Processor {
    /// Brings an aggregate's item to the last of these events, whatever of them it has already and whatever is missing
    /// between.
    pub(crate) async fn advance(&self, tenant: &Tenant, id: &str, arrived: Vec<Recorded>) -> Result<Advanced, Error> {
        Ok(self.advance_freeing(tenant, id, arrived, None).await?.0)
    }

    /// The same for an aggregate that may be parked and is to be freed: in one write with what comes after, so that it is
    /// parked or in step and never neither. Also gives the item, if this has made it from its first event on.
    pub(crate) async fn advance_freeing(
        &self,
        tenant: &Tenant,
        id: &str,
        mut arrived: Vec<Recorded>,
        mut freeing: Option<Freeing>,
    ) -> Result<(Advanced, Option<Item>), Error> {
        let (mut failures, mut races, mut at_most) = (0, 0, usize::MAX);
        while races < RACES {
            let checkpoint = self.checkpoint(tenant, id).await?;
            let checkpoint = match (&checkpoint.parked, freeing) {
                (None, None) => checkpoint,
                // They line up: whoever frees the aggregate reads them all.
                (Some(_), None) => return Ok((Advanced::Parked, None)),
                (None, Some(_)) => return Err(ErrorKind::Busy(format!("{id} is not parked any more")).into()),
                (Some(parked), Some(freeing)) if parked.version != freeing.version => {
                    return Err(ErrorKind::Busy(format!("{id} is parked at another event by now; look again")).into());
                }
                (Some(_), Some(Freeing { skip: true, .. })) => checkpoint.passed(),
                (Some(_), Some(_)) => checkpoint.freed(),
            };
            let Ahead { mut events, mut stuck } = self.ahead(tenant, id, &checkpoint, &mut arrived).await?;
            if events.is_empty() && stuck.is_none() && freeing.is_none() {
                return Ok((Advanced::Done, None));
            }
            let all = events.len() <= at_most;
            if !all {
                events.truncate(at_most);
                stuck = None;
            }
            let many = events.len();
            // What has no checkpoint has no item either; one that has been put there all the same is found in the way.
            let fresh = checkpoint.is_new() && races == 0;
            let before = if fresh { None } else { self.item(tenant, id).await? };
            let folded = self.fold(before.as_ref(), events);
            stuck = folded.stuck.or(stuck);
            // What is to be freed moves also where nothing comes after it; unless it is still what is in the way.
            let moves = freeing.is_some_and(|freeing| freeing.skip || stuck.is_none());
            if moves || folded.reached.is_some() {
                let moved = folded.reached.as_ref().map(|last| checkpoint.moved(last.version, &last.id));
                let built = (fresh && all && stuck.is_none()).then(|| folded.item.clone());
                let set = self.change(tenant.set(), id, before.as_ref(), folded.item);
                let mut set = self.move_to(set, id, moved.as_ref().unwrap_or(&checkpoint));
                if freeing.is_some() {
                    set = self.unlist(set, tenant, id).await?;
                }
                match set.commit().await {
                    Ok(_) => {
                        if built.is_some() {
                            return Ok((Advanced::Done, built));
                        }
                        freeing = None;
                        if stuck.is_none() && !all {
                            continue;
                        }
                    }
                    Err(error) if overtaken(&error) => {
                        races += 1;
                        continue;
                    }
                    // An item that cannot be stored: which event makes it so is found by taking fewer of them.
                    Err(error) if is_lasting(&error) && many > 1 => {
                        at_most = many / 2;
                        continue;
                    }
                    Err(error) if is_lasting(&error) => {
                        let Some(last) = &folded.reached else { return Err(error.into()) };
                        stuck = Some((InTheWay::of(last), error.into()));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let Some((way, error)) = stuck else { return Ok((Advanced::Done, None)) };
            failures += 1;
            if failures >= self.options.attempts {
                let checkpoint = self.checkpoint(tenant, id).await?;
                let free = checkpoint.parked.as_ref().is_none_or(|parked| {
                    freeing.is_some_and(|freeing| freeing.version == parked.version && parked.version == way.version)
                });
                if checkpoint.version + 1 == way.version && free {
                    match self.park(tenant, id, &checkpoint, &way, &error, failures).await {
                        Ok(()) => return Ok((Advanced::Parked, None)),
                        Err(error) if overtaken(&error) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                races += 1;
                continue;
            }
            tokio::time::sleep(self.options.backoff * (1 << (failures - 1).min(10))).await;
        }
        Err(ErrorKind::Contended.into())
    }

    /// The events that come after a checkpoint, in order and without a gap, up to the last that has arrived; all that
    /// there are, if none has.
    async fn ahead(
        &self,
        tenant: &Tenant,
        id: &str,
        checkpoint: &Checkpoint,
        arrived: &mut Vec<Recorded>,
    ) -> Result<Ahead, Error> {
        // Looked at once: whoever has to look again reads what there is by then.
        let (any, mut ahead) = (!arrived.is_empty(), std::mem::take(arrived));
        ahead.retain(|event| event.version > checkpoint.version);
        ahead.sort_by_key(|event| event.version);
        ahead.dedup_by_key(|event| event.version);
        let mut expected = checkpoint.version;
        let whole = ahead.iter().all(|event| {
            expected += 1;
            event.version == expected
        });
        if whole && any {
            seal::open(&self.layout, tenant, &mut ahead).await?;
            return Ok(Ahead { events: ahead, stuck: None });
        }
        // Some are missing: the events themselves have them.
        let from = checkpoint.last.as_deref().map(order::after);
        let until = ahead.last().map(|event| event.id.clone());
        let mut events: Vec<Recorded> = Vec::new();
        let mut hole = None;
        let range = (from.as_deref(), until.as_deref());
        let read = read(&self.layout, tenant, id, range, |event| {
            let expected = events.last().map_or(checkpoint.version, |last| last.version) + 1;
            if hole.is_none() && event.version > expected {
                hole = Some(Error::damaged(id, format!("version {} is where {expected} should be", event.version)));
            }
            // A version that has been taken in already is skipped, whatever says that it has it.
            if hole.is_none() && event.version == expected {
                events.push(event);
            }
            Ok(())
        });
        let unread = match read.await {
            Err(error) if error.is_damage() => Some(error),
            read => read.map(|()| None)?,
        };
        let version = events.last().map_or(checkpoint.version, |last| last.version) + 1;
        let gone = ahead.last().filter(|last| last.version >= version);
        let gone = gone.map(|last| Error::damaged(id, format!("version {} has gone", last.version)));
        let stuck = hole.or(unread).or(gone).map(|error| (InTheWay::damaged(version, &error), error));
        Ok(Ahead { events, stuck })
    }

    pub(crate) async fn item(&self, tenant: &Tenant, id: &str) -> Result<Option<Record>, Error> {
        match tenant.get(self.projection.entity(), &[id]).await {
            Ok(record) => Ok(Some(record)),
            Err(error) if matches!(error.kind(), Kind::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn fold(&self, before: Option<&Record>, events: Vec<Recorded>) -> Folded {
        let mut folded = Folded { item: before.map(|record| self.own_fields(record)), reached: None, stuck: None };
        for event in events {
            match self.apply(folded.item.clone(), &event) {
                Ok(item) => {
                    folded.item = item;
                    folded.reached = Some(event);
                }
                Err(error) => {
                    folded.stuck = Some((InTheWay::of(&event), error));
                    break;
                }
            }
        }
        folded
    }

    /// The item after an event. A projection that panics over one is no reason to stop for all the others.
    pub(crate) fn apply(&self, before: Item, event: &Recorded) -> Result<Item, Error> {
        let applied = catch_unwind(AssertUnwindSafe(|| self.projection.apply(before, event)));
        applied.unwrap_or_else(|_| Err(Error::unknown_event(event, "the projection panics over it")))
    }

    /// The fields of an item that its projection gives: all but the tenant.
    pub(crate) fn own_fields(&self, record: &Record) -> Map<String, Json> {
        let mut fields = record.to_json();
        let entity = self.layout.projection(self.projection.entity()).map(|(entity, _)| entity);
        if let Some(tenant) = entity.and_then(|entity| entity.tenant.as_deref()) {
            fields.remove(tenant);
        }
        fields
    }

    /// Adds to a set what makes one state of an item into another.
    pub(crate) fn change(&self, set: Set, id: &str, before: Option<&Record>, after: Item) -> Set {
        let entity = self.projection.entity();
        match (before, after) {
            (None, None) => set,
            (None, Some(fields)) => set.create(entity, fields),
            (Some(before), None) => set.delete(entity, &[id], before),
            (Some(before), Some(mut fields)) => {
                // A merge patch: what is gone is null, and what is the same is left out.
                for (name, value) in self.own_fields(before) {
                    match fields.get(&name) {
                        None => drop(fields.insert(name, Json::Null)),
                        Some(same) if *same == value => drop(fields.remove(&name)),
                        Some(_) => {}
                    }
                }
                set.update(entity, &[id], fields, before)
            }
        }
    }

    /// Takes an aggregate off the list of those that are parked.
    pub(crate) async fn unlist(&self, set: Set, tenant: &Tenant, id: &str) -> Result<Set, Error> {
        let (entity, name) = (self.projection.entity(), self.parked_name(tenant, id));
        Ok(match tenant.note(entity, Keeper::House, &name).await? {
            Some(note) => set.note(entity, Keeper::House, &name, None, Some(&note)),
            None => set,
        })
    }

    /// Puts an aggregate aside, with what is in its way.
    async fn park(
        &self,
        tenant: &Tenant,
        id: &str,
        checkpoint: &Checkpoint,
        way: &InTheWay,
        error: &Error,
        attempts: u32,
    ) -> Result<(), nagaya_tenancy::Error> {
        let parked = checkpoint.parked(way, &error.to_string(), attempts, self.nagaya.clock().millis());
        let name = self.parked_name(tenant, id);
        let read = tenant.note(self.projection.entity(), Keeper::House, &name).await?;
        let mut fields = parked.parked.as_ref().map(|parked| parked.fields.clone()).unwrap_or_default();
        fields.insert("tenant".to_owned(), (*tenant.principal().tenant).into());
        fields.insert("aggregateId".to_owned(), id.into());
        let set = self.move_to(tenant.set(), id, &parked);
        set.note(self.projection.entity(), Keeper::House, &name, Some(fields), read.as_ref()).commit().await?;
        tracing::error!(
            projection = self.projection.entity(), aggregate = id, event = way.event, %error,
            "an event cannot be applied; its aggregate is parked"
        );
        Ok(())
    }
}

/// Whether a write fails however often it is tried: what is to be written does not fit the design, or no store.
pub(super) fn is_lasting(error: &nagaya_tenancy::Error) -> bool {
    match error.kind() {
        Kind::Invalid(_) => true,
        Kind::Store(error) => matches!(error.kind(), StoreKind::Limit(_) | StoreKind::Invalid(_)),
        _ => false,
    }
}

/// Whether another processor was faster.
pub(crate) fn overtaken(error: &nagaya_tenancy::Error) -> bool {
    matches!(
        error.kind(),
        Kind::Overtaken { .. }
            | Kind::VersionConflict { .. }
            | Kind::Taken { .. }
            | Kind::NotFound { .. }
            | Kind::Contended
    )
}
