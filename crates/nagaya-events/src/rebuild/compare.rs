//! Comparing items with their events, and repairing those that differ.

use nagaya_tenancy::{Record, Retry, Tenant};
use serde_json::{Map, Value as Json};

use super::{PAGE_SIZE, Progress, ProgressCallback, VerificationReport, pass::Job};
use crate::{
    Error, Item, Processor, RecordedEvent, chain, error::is_lost_race, events::read_events_to_apply,
    processor::AdvanceState, seal,
};

impl Processor {
    /// The item that events give.
    fn expected_item(&self, events: &[RecordedEvent]) -> Result<Item, Error> {
        let mut item = None;
        for event in events {
            item = self.apply(item, event)?;
        }
        Ok(item)
    }

    /// Checks a generation against its events; of one tenant, or of all.
    pub(super) async fn verify_generation(
        &self,
        generation: u32,
        tenant: Option<&str>,
        tell: ProgressCallback<'_>,
    ) -> Result<VerificationReport, Error> {
        let tell = |progress| tell(Progress { checking: true, ..progress });
        let checked = self.run_pass(tenant, &tell, Job::Check { generation, repair: false }).await?;
        let mut verified = VerificationReport { generation, ..checked.verified };
        for (owner, id, record) in self.items_without_events(generation, tenant).await? {
            verified.found.add(&owner, &id, Some(&self.own_fields(&record)));
            verified.add_mismatch(&owner, &id, "comes from no event");
        }
        Ok(verified)
    }

    /// Compares an aggregate's item with its events, at the version of the item.
    pub(super) async fn compare_item_with_events(
        &self,
        tenant: &Tenant,
        mut events: Vec<RecordedEvent>,
    ) -> Result<VerificationReport, Error> {
        let mut verified =
            VerificationReport { events: events.len() as u64, aggregates: 1, ..VerificationReport::default() };
        let Some((owner, id)) = events.first().map(|first| (first.tenant.clone(), first.aggregate.clone())) else {
            return Ok(verified);
        };
        let last = events.last().map_or(0, |last| last.version);
        let mut parked = false;
        seal::open_if_possible(&self.layout, tenant, &mut events).await?;
        loop {
            let mut checkpoint = self.read_checkpoint(tenant, &id).await?;
            // Later events may be in the item already, and earlier ones may not be in it yet.
            if checkpoint.version < last && checkpoint.parked.is_none() {
                parked = self.advance(tenant, &id, events.clone()).await? == AdvanceState::Parked;
                verified.behind = u64::from(!parked);
                checkpoint = self.read_checkpoint(tenant, &id).await?;
            }
            let item = self.read_item(tenant, &id).await?;
            let again = self.read_checkpoint(tenant, &id).await?;
            if again.version != checkpoint.version {
                continue;
            }
            parked |= checkpoint.parked.is_some();
            if events.last().is_none_or(|last| last.version < checkpoint.version) {
                events = self.read_events(tenant, &id, checkpoint.last.as_deref()).await?;
            }
            events.retain(|event| event.version <= checkpoint.version);
            let found = item.as_ref().map(|record| self.own_fields(record));
            verified.found.add(&owner, &id, found.as_ref());
            if parked {
                // The correct item is unknown: the stored one counts as correct.
                verified.parked = 1;
                verified.expected.add(&owner, &id, found.as_ref());
                return Ok(verified);
            }
            // An event that cannot be applied was dropped on purpose: the correct item is unknown.
            let Ok(expected) = self.expected_item(&events) else {
                verified.expected.add(&owner, &id, found.as_ref());
                verified.add_mismatch(&owner, &id, "leaves out an event that cannot be applied");
                return Ok(verified);
            };
            verified.expected.add(&owner, &id, expected.as_ref());
            let why = match (&expected, &found) {
                (Some(_), None) => Some("is missing"),
                (None, Some(_)) => Some("should not be there"),
                (expected, found) if !is_equal(expected.as_ref(), found.as_ref()) => {
                    Some("is not what its events give")
                }
                _ => None,
            };
            if let Some(why) = why {
                verified.add_mismatch(&owner, &id, why);
            }
            return Ok(verified);
        }
    }

    /// Replaces an item that differs from its events; whether it did.
    pub(super) async fn repair_item(&self, tenant: &Tenant, id: &str) -> Result<bool, Error> {
        let mut retry = Retry::new(100);
        loop {
            retry.attempt().await?;
            let checkpoint = self.read_checkpoint(tenant, id).await?;
            if checkpoint.parked.is_some() {
                return Ok(false);
            }
            let events = self.read_events(tenant, id, None).await?;
            // An item without an event that was dropped on purpose stays as it is.
            let Ok(expected) = self.expected_item(&events) else { return Ok(false) };
            let before = self.read_item(tenant, id).await?;
            let found = before.as_ref().map(|record| self.own_fields(record));
            let Some(last) = events.last() else { return Ok(false) };
            if checkpoint.version == last.version && is_equal(expected.as_ref(), found.as_ref()) {
                return Ok(false);
            }
            let moved = checkpoint.advanced_to(last.version, &last.id);
            let set = self.add_item_write(tenant.change_set(), id, before.as_ref(), expected);
            match self.add_checkpoint_write(set, id, &moved).commit().await {
                Ok(_) => return Ok(true),
                Err(error) if is_lost_race(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The events of an aggregate up to and including one of them; all, if there is none.
    async fn read_events(&self, tenant: &Tenant, id: &str, until: Option<&str>) -> Result<Vec<RecordedEvent>, Error> {
        let mut events = Vec::new();
        read_events_to_apply(&self.layout, tenant, id, (None, until), |event| {
            events.push(event);
            Ok(())
        })
        .await?;
        Ok(events)
    }

    /// Items that no event has created, with their tenants and aggregates.
    pub(super) async fn items_without_events(
        &self,
        generation: u32,
        tenant: Option<&str>,
    ) -> Result<Vec<(String, String, Record)>, Error> {
        let items = self.item_source(generation).await?;
        // The items of a tenant come together: one handle at a time is enough.
        let mut handle: Option<(String, Tenant)> = None;
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = items.scan((0, 1), after, Some(PAGE_SIZE)).await?;
            for (owner, record) in page.records {
                if tenant.is_some_and(|one| one != owner) {
                    continue;
                }
                let tenant = match handle.take() {
                    Some((name, tenant)) if name == owner => tenant,
                    _ => self.tenant(generation, &owner)?,
                };
                let id = record.id().concat();
                let has_events = self.read_checkpoint(&tenant, &id).await?.version > 0;
                handle = Some((owner.clone(), tenant));
                if !has_events {
                    found.push((owner, id, record));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }
}

fn is_equal(one: Option<&Map<String, Json>>, other: Option<&Map<String, Json>>) -> bool {
    one.map(chain::canonical) == other.map(chain::canonical)
}
