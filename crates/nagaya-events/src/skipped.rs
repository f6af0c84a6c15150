//! The skip list of a projection: the events that operators have dropped from it.
//!
//! It belongs to the projection, and not to one of its generations: it is stored beside the record about the generations. That
//! record says how often the list has changed, and each step reads it, so that every process knows a change with its next step.
//! An entry says who dropped the event, when and why, and nothing of what is in the event.

use std::{collections::BTreeMap, sync::PoisonError};

use nagaya_tenancy::{Operator, RecordOwner, Retry, SideRecord, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::{
    DeadLetter, Error, ErrorKind, Processor, UnparkOutcome,
    error::is_lost_race,
    generation::Generations,
    processor::{AdvanceState, Unpark},
};

/// An event that was dropped from a projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedEvent {
    /// The tenant that owns it.
    pub tenant: String,
    /// Its aggregate.
    pub aggregate: String,
    /// Its version.
    pub version: u64,
    /// Its id; empty if it is missing.
    pub event: String,
    /// Its type; empty if it is missing or unreadable.
    pub event_type: String,
    /// The operator who dropped it.
    pub by: String,
    /// The operator's reason.
    pub reason: String,
    /// When it was dropped, in milliseconds since 1970.
    pub at: i64,
}

/// The skip list as a process knows it.
#[derive(Debug, Default)]
pub(crate) struct SkipList {
    /// How often the stored list had changed when it was read.
    revision: u64,
    /// By tenant, aggregate and version, the id of the event.
    events: BTreeMap<String, BTreeMap<String, BTreeMap<u64, String>>>,
}

impl SkipList {
    fn contains(&self, tenant: &str, aggregate: &str, version: u64, event: &str) -> bool {
        let found = self.events.get(tenant).and_then(|of_tenant| of_tenant.get(aggregate)?.get(&version));
        found.is_some_and(|listed| listed == event)
    }
}

impl SkippedEvent {
    fn read(note: &SideRecord) -> Self {
        let text = |name: &str| note.text(name).unwrap_or_default().to_owned();
        SkippedEvent {
            tenant: text("tenant"),
            aggregate: text("aggregateId"),
            version: note.number("version").unwrap_or_default(),
            event: text("eventId"),
            event_type: text("eventType"),
            by: text("by"),
            reason: text("reason"),
            at: note.fields.get("at").and_then(Json::as_i64).unwrap_or_default(),
        }
    }

    fn fields(&self) -> Map<String, Json> {
        let fields = json!({
            "tenant": self.tenant, "aggregateId": self.aggregate, "version": self.version, "eventId": self.event,
            "eventType": self.event_type, "by": self.by, "reason": self.reason, "at": self.at,
        });
        fields.as_object().cloned().unwrap_or_default()
    }
}

/// Entries of a page.
const PAGE_SIZE: usize = 100;
/// How often a change of the list is repeated that loses races.
const MAX_ATTEMPTS: usize = 100;

impl Processor {
    /// The events that were dropped from the projection.
    pub async fn skipped_events(&self) -> Result<Vec<SkippedEvent>, Error> {
        let (first, prefix) = (self.first_generation(), self.skipped_prefix());
        let (mut skipped, mut after) = (Vec::new(), None);
        loop {
            let page = first.side_records(self.projection.entity(), &prefix, after.as_deref(), PAGE_SIZE).await?;
            let Some(last) = page.last() else { return Ok(skipped) };
            after = Some(last.name.clone());
            skipped.extend(page.iter().map(SkippedEvent::read));
        }
    }

    /// Drops the event of a dead letter from the projection, and applies those after it, in all generations. The event stays
    /// stored, and is on the skip list until it is [taken back](Processor::take_back). The list has the operator's user and
    /// reason.
    pub async fn drop_event(&self, letter: &DeadLetter, operator: &Operator) -> Result<UnparkOutcome, Error> {
        self.parked_at(letter).await?;
        self.log_intent(operator, &letter.tenant, &letter.aggregate).await?;
        let skipped = SkippedEvent {
            tenant: letter.tenant.clone(),
            aggregate: letter.aggregate.clone(),
            version: letter.version,
            event: letter.event.clone(),
            event_type: letter.event_type.clone(),
            by: operator.principal().user.to_string(),
            reason: operator.reason().to_owned(),
            at: self.nagaya.clock().millis(),
        };
        self.change_list(&skipped, true).await?;
        self.apply_change(&skipped).await
    }

    /// Takes an event off the skip list. In all generations, the item of its aggregate becomes what its events give with it: the
    /// event is applied, and if that fails, the item goes back to the state before it and the aggregate is parked.
    pub async fn take_back(&self, skipped: &SkippedEvent, operator: &Operator) -> Result<UnparkOutcome, Error> {
        self.log_intent(operator, &skipped.tenant, &skipped.aggregate).await?;
        self.change_list(skipped, false).await?;
        self.apply_change(skipped).await
    }

    /// Whether an event is on the skip list. A missing event has no id.
    pub(crate) fn is_skipped(&self, tenant: &str, aggregate: &str, version: u64, event: &str) -> bool {
        self.skips.read().unwrap_or_else(PoisonError::into_inner).contains(tenant, aggregate, version, event)
    }

    /// How often the skip list had changed when this process read it.
    pub(crate) fn skips_revision(&self) -> u64 {
        self.skips.read().unwrap_or_else(PoisonError::into_inner).revision
    }

    /// Reads the skip list, if it has changed since this process read it.
    pub(crate) async fn refresh_skips(&self, revision: u64) -> Result<(), Error> {
        if revision == self.skips_revision() {
            return Ok(());
        }
        let mut list = SkipList { revision, ..SkipList::default() };
        for SkippedEvent { tenant, aggregate, version, event, .. } in self.skipped_events().await? {
            list.events.entry(tenant).or_default().entry(aggregate).or_default().insert(version, event);
        }
        let mut known = self.skips.write().unwrap_or_else(PoisonError::into_inner);
        if known.revision < revision {
            *known = list;
        }
        Ok(())
    }

    /// Puts an event on the stored list, or removes it.
    async fn change_list(&self, skipped: &SkippedEvent, listed: bool) -> Result<(), Error> {
        let (entity, name) = (self.projection.entity(), self.skipped_name(skipped));
        let mut retry = Retry::new(MAX_ATTEMPTS);
        loop {
            retry.attempt().await?;
            let first = self.first_generation();
            let mut generations = Generations::read(self).await?;
            let found = first.side_record(entity, RecordOwner::System, &name).await?;
            // An interrupted change is finished by repeating it.
            if found.as_ref().map(|found| found.text("eventId")) == listed.then_some(Some(skipped.event.as_str())) {
                return Ok(());
            }
            generations.skips += 1;
            let fields = listed.then(|| skipped.fields());
            let set = first.change_set().side_record(entity, RecordOwner::System, &name, fields, found.as_ref());
            match generations.add_write(entity, set).commit().await {
                Ok(_) => return self.refresh_skips(generations.skips).await,
                Err(error) if is_lost_race(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Applies a change of the skip list to the items of the event's aggregate, in all generations.
    async fn apply_change(&self, skipped: &SkippedEvent) -> Result<UnparkOutcome, Error> {
        let mut outcome = UnparkOutcome::UpToDate;
        for generation in Generations::read(self).await?.all() {
            let tenant = self.tenant(generation, &skipped.tenant)?;
            if self.apply_again(&tenant, &skipped.aggregate, skipped.version).await? == AdvanceState::Parked {
                outcome = UnparkOutcome::ParkedAgain;
            }
        }
        Ok(outcome)
    }

    /// Makes an item what its events give, after it has changed whether the event of a version is skipped.
    async fn apply_again(&self, tenant: &Tenant, id: &str, version: u64) -> Result<AdvanceState, Error> {
        let (mut retry, mut all) = (Retry::new(MAX_ATTEMPTS), true);
        loop {
            retry.attempt().await?;
            let checkpoint = self.read_checkpoint(tenant, id).await?;
            match &checkpoint.parked {
                Some(parked) if parked.version < version => return Ok(AdvanceState::Parked),
                Some(parked) if parked.version == version => {
                    let unpark = Some(Unpark { version, skip: false });
                    match self.advance_or_unpark(tenant, id, Vec::new(), unpark).await {
                        // Another process knows the list as well, and was faster.
                        Err(error) if matches!(error.kind(), ErrorKind::Busy(_)) => continue,
                        done => return Ok(done?.0),
                    }
                }
                _ if checkpoint.version < version => return self.advance(tenant, id, Vec::new()).await,
                _ => {}
            }
            let mut history = self.read_history(tenant, id, None).await?;
            let mut item = self.expected_item(&history.events);
            if history.problem.is_some() || item.is_err() || !all {
                // The state before the event, from where the later ones are applied one after the other.
                history.truncate(version - 1);
                item = self.expected_item(&history.events);
            }
            // Without the events before it, the item cannot be computed, and stays as it is.
            let (Ok(item), true) = (item, history.version + 1 >= version) else { return Ok(AdvanceState::Parked) };
            let before = self.read_item(tenant, id).await?;
            let set = self.add_item_write(tenant.change_set(), id, before.as_ref(), item);
            let mut set = self.add_checkpoint_write(set, id, &checkpoint.moved_to(history.version, history.last));
            if checkpoint.parked.is_some() {
                set = self.remove_dead_letter(set, tenant, id).await?;
            }
            match set.commit().await {
                Ok(_) => return self.advance(tenant, id, Vec::new()).await,
                Err(error) if is_lost_race(&error) => {}
                // An item after the event cannot be stored.
                Err(error) if error.is_permanent() && all => all = false,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// An entry of the operator log about what happens to an aggregate, with the reason.
    async fn log_intent(&self, operator: &Operator, tenant: &str, aggregate: &str) -> Result<(), Error> {
        match operator.as_tenant(tenant)?.get(&self.layout.head.name, &[aggregate]).await {
            // The events are there, or were.
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn skipped_prefix(&self) -> String {
        format!("skipped-{}-", self.projection.entity())
    }

    /// The name of an entry. It has the tenant: two tenants may have aggregates with the same id.
    fn skipped_name(&self, skipped: &SkippedEvent) -> String {
        let SkippedEvent { tenant, aggregate, version, .. } = skipped;
        format!("{}{}:{tenant}:{aggregate}:{version:020}", self.skipped_prefix(), tenant.len())
    }
}
