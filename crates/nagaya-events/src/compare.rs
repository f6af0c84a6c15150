//! Items beside what their events give: comparing them, and making them agree.

use nagaya_tenancy::{Follower, Record, Tenant};
use serde_json::{Map, Value as Json};

use crate::{
    Error, ErrorKind, Item, Processor, Progress, Recorded, Tell, Verified, chain,
    events::read,
    processor::Advanced,
    rebuild::{Job, PAGE},
    seal,
};

impl Processor {
    /// What events give.
    fn expected(&self, events: &[Recorded]) -> Result<Item, Error> {
        let mut item = None;
        for event in events {
            item = self.apply(item, event)?;
        }
        Ok(item)
    }

    pub(crate) async fn verify_generation(
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
    pub(crate) async fn compare(&self, tenant: &Tenant, mut events: Vec<Recorded>) -> Result<Verified, Error> {
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
                verified.behind = u64::from(!parked);
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
    pub(crate) async fn mend(&self, tenant: &Tenant, events: &[Recorded]) -> Result<bool, Error> {
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
    pub(crate) async fn strays(
        &self,
        generation: u32,
        tenant: Option<&str>,
    ) -> Result<Vec<(String, String, Record)>, Error> {
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
