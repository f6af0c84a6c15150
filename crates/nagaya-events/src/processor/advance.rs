//! Applying the events of one aggregate to its item.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nagaya_tenancy::{ChangeSet, Record, RecordOwner, Retry, Tenant};
use serde_json::{Map, Value as Json};

use super::{
    Checkpoint, Processor,
    checkpoint::{BlockedEvent, NEXT_ATTEMPT_FIELD},
};
use crate::{
    Error, ErrorKind, Item, RecordedEvent, error::is_lost_race, event_id, events::read_events_to_apply,
    generation::Generations, seal,
};

/// How often a write is repeated that loses races.
const MAX_ATTEMPTS: usize = 100;

/// The state of an aggregate's item after its events were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdvanceState {
    /// All of them are in the item.
    UpToDate,
    /// One of them cannot be applied; it and those after it wait.
    Parked,
}

/// How a parked aggregate is unparked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unpark {
    /// The version at which it is parked.
    pub(crate) version: u64,
    /// Whether the event is skipped.
    pub(crate) skip: bool,
}

/// The events after a checkpoint.
struct Pending {
    /// In order and without a gap.
    events: Vec<RecordedEvent>,
    /// The first one that is missing or unreadable, and why.
    blocked: Option<(BlockedEvent, Error)>,
}

/// How far events could be applied.
struct Folded {
    item: Item,
    /// The last event that is in the item.
    last: Option<RecordedEvent>,
    /// The first one that is not, and why.
    blocked: Option<(BlockedEvent, Error)>,
}

impl Processor {
    /// Applies an aggregate's events up to the last of these, whichever of them are in the item already, and whichever are
    /// missing between.
    pub(crate) async fn advance(
        &self,
        tenant: &Tenant,
        id: &str,
        arrived: Vec<RecordedEvent>,
    ) -> Result<AdvanceState, Error> {
        Ok(self.advance_or_unpark(tenant, id, arrived, None).await?.0)
    }

    /// The same for an aggregate that may have to be unparked: in one write with the events after that, so that it is never
    /// seen unparked and out of date. Also gives the item, if it was built from the first event on.
    pub(crate) async fn advance_or_unpark(
        &self,
        tenant: &Tenant,
        id: &str,
        mut arrived: Vec<RecordedEvent>,
        mut unpark: Option<Unpark>,
    ) -> Result<(AdvanceState, Option<Item>), Error> {
        let mut at_most = usize::MAX;
        let (mut retry, mut lost_race) = (Retry::new(MAX_ATTEMPTS), false);
        loop {
            let checkpoint = self.read_checkpoint(tenant, id).await?;
            let checkpoint = match (&checkpoint.parked, unpark) {
                (None, None) => checkpoint,
                // The events wait: unparking reads them all.
                (Some(_), None) => return Ok((AdvanceState::Parked, None)),
                (None, Some(_)) => return Err(ErrorKind::Busy(format!("{id} is not parked any more")).into()),
                (Some(parked), Some(unpark)) if parked.version != unpark.version => {
                    return Err(ErrorKind::Busy(format!("{id} is parked at another event by now; look again")).into());
                }
                (Some(_), Some(Unpark { skip: true, .. })) => checkpoint.skipped(),
                (Some(_), Some(_)) => checkpoint.unparked(),
            };
            let Pending { mut events, mut blocked } =
                self.pending_events(tenant, id, &checkpoint, &mut arrived).await?;
            if events.is_empty() && blocked.is_none() && unpark.is_none() {
                return Ok((AdvanceState::UpToDate, None));
            }
            let all = events.len() <= at_most;
            if !all {
                events.truncate(at_most);
                blocked = None;
            }
            let count = events.len();
            // An aggregate without a checkpoint has no item. If one is stored nevertheless, the write fails and the next
            // attempt reads it.
            let is_new = checkpoint.is_new() && !lost_race;
            let before = if is_new { None } else { self.read_item(tenant, id).await? };
            let folded = self.fold(before.as_ref(), events);
            blocked = folded.blocked.or(blocked);
            // Unparking is a write also without further events, unless the same event is still blocked.
            let unparks = unpark.is_some_and(|unpark| unpark.skip || blocked.is_none());
            if unparks || folded.last.is_some() {
                let moved = folded.last.as_ref().map(|last| checkpoint.advanced_to(last.version, &last.id));
                let built = (is_new && all && blocked.is_none()).then(|| folded.item.clone());
                let set = self.add_item_write(tenant.change_set(), id, before.as_ref(), folded.item);
                let mut set = self.add_checkpoint_write(set, id, moved.as_ref().unwrap_or(&checkpoint));
                if unpark.is_some() {
                    set = self.remove_dead_letter(set, tenant, id).await?;
                }
                match set.commit().await {
                    Ok(_) => {
                        if built.is_some() {
                            return Ok((AdvanceState::UpToDate, built));
                        }
                        unpark = None;
                        if blocked.is_none() && !all {
                            continue;
                        }
                    }
                    Err(error) if is_lost_race(&error) => {
                        lost_race = true;
                        retry.attempt().await?;
                        continue;
                    }
                    // The item cannot be stored: half as many events, and so on, until the one that causes it is found.
                    Err(error) if error.is_permanent() && count > 1 => {
                        at_most = count / 2;
                        continue;
                    }
                    Err(error) if error.is_permanent() => {
                        let Some(last) = &folded.last else { return Err(error.into()) };
                        blocked = Some((BlockedEvent::from_event(last), error.into()));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let Some((event, error)) = blocked else { return Ok((AdvanceState::UpToDate, None)) };
            // It may have been dropped: by now, or because it is missing or unreadable.
            Generations::read(self).await?;
            if self.is_skipped(&tenant.principal().tenant, id, event.version, &event.event) {
                lost_race = true;
                match &mut unpark {
                    Some(unpark) => unpark.skip = true,
                    None if self.skip(tenant, id, &event).await? => {}
                    None => retry.attempt().await?,
                }
                continue;
            }
            // Parked at once: what is tried again later does not hold up other aggregates.
            let checkpoint = self.read_checkpoint(tenant, id).await?;
            let may_park = checkpoint.parked.as_ref().is_none_or(|parked| {
                unpark.is_some_and(|unpark| unpark.version == parked.version && parked.version == event.version)
            });
            if checkpoint.version + 1 == event.version && may_park {
                match self.park(tenant, id, &checkpoint, &event, &error).await {
                    Ok(()) => return Ok((AdvanceState::Parked, None)),
                    Err(error) if is_lost_race(&error) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            lost_race = true;
            retry.attempt().await?;
        }
    }

    /// Moves a checkpoint past an event that is skipped; whether it was right before it.
    async fn skip(&self, tenant: &Tenant, id: &str, event: &BlockedEvent) -> Result<bool, Error> {
        let checkpoint = self.read_checkpoint(tenant, id).await?;
        if checkpoint.version + 1 != event.version || checkpoint.parked.is_some() {
            return Ok(false);
        }
        let moved = checkpoint.after_event(event.version, &event.event);
        match self.add_checkpoint_write(tenant.change_set(), id, &moved).commit().await {
            Ok(_) => Ok(true),
            Err(error) if is_lost_race(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The events after a checkpoint, in order and without a gap, up to the last that has arrived; all, if none has.
    async fn pending_events(
        &self,
        tenant: &Tenant,
        id: &str,
        checkpoint: &Checkpoint,
        arrived: &mut Vec<RecordedEvent>,
    ) -> Result<Pending, Error> {
        // They are used once: a second attempt reads what is stored by then.
        let (any, mut arrived) = (!arrived.is_empty(), std::mem::take(arrived));
        arrived.retain(|event| event.version > checkpoint.version);
        arrived.sort_by_key(|event| event.version);
        arrived.dedup_by_key(|event| event.version);
        let complete = arrived.iter().zip(checkpoint.version + 1..).all(|(event, version)| event.version == version);
        if complete && any {
            seal::open_if_possible(&self.layout, tenant, &mut arrived).await?;
            return Ok(Pending { events: arrived, blocked: None });
        }
        let from = checkpoint.last.as_deref().map(event_id::after);
        let until = arrived.last().map(|event| event.id.clone());
        let mut events: Vec<RecordedEvent> = Vec::new();
        let mut missing = None;
        let range = (from.as_deref(), until.as_deref());
        let read = read_events_to_apply(&self.layout, tenant, id, range, |event| {
            let expected = events.last().map_or(checkpoint.version, |last| last.version) + 1;
            if missing.is_none() && event.version > expected {
                missing = Some(Error::damaged(id, format!("version {} is where {expected} should be", event.version)));
            }
            // An event with a version that is in the item already is skipped.
            if missing.is_none() && event.version == expected {
                events.push(event);
            }
            Ok(())
        });
        let unreadable = match read.await {
            Err(error) if error.is_damage() => Some(error),
            read => read.map(|()| None)?,
        };
        let version = events.last().map_or(checkpoint.version, |last| last.version) + 1;
        let gone = arrived.last().filter(|last| last.version >= version);
        let gone = gone.map(|last| Error::damaged(id, format!("version {} is not stored any more", last.version)));
        let error = missing.or(unreadable).or(gone);
        let blocked = error.map(|error| (BlockedEvent::damaged(version, &error), error));
        Ok(Pending { events, blocked })
    }

    pub(crate) async fn read_item(&self, tenant: &Tenant, id: &str) -> Result<Option<Record>, Error> {
        match tenant.get(self.projection.entity(), &[id]).await {
            Ok(record) => Ok(Some(record)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn fold(&self, before: Option<&Record>, events: Vec<RecordedEvent>) -> Folded {
        let mut folded = Folded { item: before.map(|record| self.own_fields(record)), last: None, blocked: None };
        for event in events {
            match self.apply(folded.item.clone(), &event) {
                Ok(item) => {
                    folded.item = item;
                    folded.last = Some(event);
                }
                Err(error) => {
                    folded.blocked = Some((BlockedEvent::from_event(&event), error));
                    break;
                }
            }
        }
        folded
    }

    /// The item after an event; the same item, if the event is skipped. A projection that panics does not stop the other
    /// aggregates.
    pub(crate) fn apply(&self, before: Item, event: &RecordedEvent) -> Result<Item, Error> {
        if self.is_skipped(&event.tenant, &event.aggregate, event.version, &event.id) {
            return Ok(before);
        }
        event.check_decrypted()?;
        let applied = catch_unwind(AssertUnwindSafe(|| self.projection.apply(before, event)));
        let applied = applied.unwrap_or_else(|_| Err(Error::unknown_event(event, "the projection panicked")));
        applied.map_err(|error| match error.kind() {
            ErrorKind::UnreadableEvent { .. } => error,
            // The text is the projection's own, and may contain what is encrypted in the events.
            _ if self.layout.keys.is_some() => {
                let why =
                    format!("the projection failed with `{}`; the text is not kept with encrypted data", error.code());
                Error::unknown_event(event, &why)
            }
            _ => error,
        })
    }

    /// The fields of an item that come from its projection: all but the tenant.
    pub(crate) fn own_fields(&self, record: &Record) -> Map<String, Json> {
        let mut fields = record.to_json();
        let entity = self.layout.projection(self.projection.entity()).map(|(entity, _)| entity);
        if let Some(tenant) = entity.and_then(|entity| entity.tenant.as_deref()) {
            fields.remove(tenant);
        }
        fields
    }

    /// Adds to a set the write that turns one state of an item into another.
    pub(crate) fn add_item_write(&self, set: ChangeSet, id: &str, before: Option<&Record>, after: Item) -> ChangeSet {
        let entity = self.projection.entity();
        match (before, after) {
            (None, None) => set,
            (None, Some(fields)) => set.create(entity, fields),
            (Some(before), None) => set.delete(entity, &[id], before),
            (Some(before), Some(mut fields)) => {
                // A merge patch: removed fields are null, and equal ones are left out.
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

    /// Removes an aggregate from the list of those that are parked.
    pub(crate) async fn remove_dead_letter(
        &self,
        set: ChangeSet,
        tenant: &Tenant,
        id: &str,
    ) -> Result<ChangeSet, Error> {
        let (entity, name) = (self.projection.entity(), self.parked_name(tenant, id));
        Ok(match tenant.side_record(entity, RecordOwner::System, &name).await? {
            Some(note) => set.side_record(entity, RecordOwner::System, &name, None, Some(&note)),
            None => set,
        })
    }

    /// Parks an aggregate at an event.
    async fn park(
        &self,
        tenant: &Tenant,
        id: &str,
        checkpoint: &Checkpoint,
        blocked: &BlockedEvent,
        error: &Error,
    ) -> Result<(), nagaya_tenancy::Error> {
        let now = self.nagaya.clock().millis();
        let parked = checkpoint.parked(blocked, &error.to_string(), now, |attempts| self.next_attempt(attempts, now));
        let name = self.parked_name(tenant, id);
        let read = tenant.side_record(self.projection.entity(), RecordOwner::System, &name).await?;
        let mut fields = parked.parked.as_ref().map(|parked| parked.fields.clone()).unwrap_or_default();
        let is_last = !fields.contains_key(NEXT_ATTEMPT_FIELD);
        fields.insert("tenant".to_owned(), (*tenant.principal().tenant).into());
        fields.insert("aggregateId".to_owned(), id.into());
        let set = self.add_checkpoint_write(tenant.change_set(), id, &parked);
        set.side_record(self.projection.entity(), RecordOwner::System, &name, Some(fields), read.as_ref())
            .commit()
            .await?;
        self.failed_attempt();
        let projection = self.projection.entity();
        if is_last {
            tracing::error!(
                projection, aggregate = id, event = blocked.event, %error,
                "an event cannot be applied; its aggregate is parked"
            );
        } else {
            tracing::warn!(
                projection, aggregate = id, event = blocked.event, %error,
                "an event cannot be applied; it is tried again while its aggregate waits"
            );
        }
        Ok(())
    }
}
