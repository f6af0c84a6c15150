//! Looking at events: whether they are whole, and what led to what.

use std::collections::BTreeSet;

use nagaya_tenancy::{ErrorKind as Kind, Follower, List, Nagaya, Tenant};
use serde_json::Value as Json;

use crate::{
    Error, Recorded, chain,
    events::{read, read_stored},
    layout::Layout,
    seal,
};

/// What came of checking the chains of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chains {
    /// Aggregates that were checked.
    pub aggregates: u64,
    /// Their events.
    pub events: u64,
    /// What is wrong.
    pub broken: Vec<Broken>,
}

/// An aggregate whose events are not what they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Whose it is.
    pub tenant: String,
    /// The aggregate.
    pub aggregate: String,
    /// What is wrong.
    pub why: String,
}

/// Looks at the events of an aggregate.
#[derive(Debug, Clone)]
pub struct Inspector {
    nagaya: Nagaya,
    layout: Layout,
}

impl Inspector {
    /// Looks at the events of one kind of aggregate.
    pub fn new(nagaya: &Nagaya, aggregate: &str) -> Result<Self, Error> {
        Ok(Inspector { nagaya: nagaya.clone(), layout: Layout::of(nagaya.design(), aggregate)? })
    }

    /// The entity of the events.
    pub fn entity(&self) -> &str {
        &self.layout.events.name
    }

    /// The entity of the heads.
    pub fn head_entity(&self) -> &str {
        &self.layout.head.name
    }

    /// All events of an aggregate, in order.
    pub async fn events(&self, tenant: &Tenant, id: &str) -> Result<Vec<Recorded>, Error> {
        let mut events = Vec::new();
        read(&self.layout, tenant, id, (None, None), |event| {
            events.push(event);
            Ok(())
        })
        .await?;
        Ok(events)
    }

    /// An event that came with a change of the store.
    pub fn recorded(&self, tenant: &str, record: &nagaya_tenancy::Record) -> Result<Recorded, Error> {
        Recorded::read(&self.layout, tenant, record.clone())
    }

    /// Events of a tenant with what is sealed in them opened, as far as the keys are there.
    pub async fn opened(&self, tenant: &Tenant, mut events: Vec<Recorded>) -> Result<Vec<Recorded>, Error> {
        seal::open(&self.layout, tenant, &mut events).await?;
        Ok(events)
    }

    /// Destroys the key that a user's personal fields are sealed with: they are erased for good, once the store's own past
    /// is gone too. Whether there was one. What has been built from them has to be brought in step
    /// ([`Processor::repair`](crate::Processor::repair)).
    pub async fn erase(&self, tenant: &Tenant, user: &str) -> Result<bool, Error> {
        seal::destroy(&self.layout, tenant, user).await
    }

    /// Checks the events of an aggregate: none is missing, changed or in the wrong place. What is wrong; and the end of its
    /// chain, which somebody who does not trust the store can keep elsewhere.
    pub async fn verify(&self, tenant: &Tenant, id: &str) -> Result<(u64, Result<String, String>), Error> {
        match self.check(tenant, id).await {
            // What cannot even be read has been changed by somebody else.
            Err(error) if error.is_damage() => Ok((0, Err(error.to_string()))),
            checked => checked,
        }
    }

    async fn check(&self, tenant: &Tenant, id: &str) -> Result<(u64, Result<String, String>), Error> {
        let mut events = Vec::new();
        read_stored(&self.layout, tenant, id, |event| {
            events.push(event);
            Ok(())
        })
        .await?;
        let mut end = chain::START.to_owned();
        for (event, at) in events.iter().zip(1..) {
            if event.version != at {
                let why = format!("version {at} is missing: {} is version {}", event.id, event.version);
                return Ok((events.len() as u64, Err(why)));
            }
            end = chain::link(&end, event);
        }
        let head = match tenant.get(&self.layout.head.name, &[id]).await {
            Ok(head) => head.to_json(),
            Err(error) if matches!(error.kind(), Kind::NotFound { .. }) => {
                let found = if events.is_empty() { Ok(end) } else { Err("it has events, and no head".to_owned()) };
                return Ok((events.len() as u64, found));
            }
            Err(error) => return Err(error.into()),
        };
        let count = events.len() as u64;
        if head.get("aggregateVersion").and_then(Json::as_u64) != Some(count) {
            return Ok((count, Err(format!("its head says another version than {count}"))));
        }
        match head.get("hash").and_then(Json::as_str) {
            Some(hash) if hash != end => Ok((count, Err("an event has been changed after it was written".to_owned()))),
            None if self.layout.head.field("hash").is_some() => {
                Ok((count, Err("its head does not say how its chain ends".to_owned())))
            }
            _ => Ok((count, Ok(end))),
        }
    }

    /// Checks the events of all aggregates.
    pub async fn verify_all(&self, follower: &Follower, tell: &(dyn Fn(u64) + Sync)) -> Result<Chains, Error> {
        let (mut chains, mut after, mut last) = (Chains::default(), None, String::new());
        // Whose the events of the last aggregate are: one, unless somebody has put in others.
        let mut owners = BTreeSet::new();
        loop {
            let page = follower.scan((0, 1), after, Some(1_000)).await?;
            for (tenant, record) in &page.records {
                let aggregate = record.text(&self.layout.id).unwrap_or_default().to_owned();
                if last != aggregate {
                    owners.clear();
                    last.clone_from(&aggregate);
                }
                if !owners.insert(tenant.clone()) {
                    continue;
                }
                let principal = nagaya_tenancy::Principal::new(tenant.as_str(), crate::processor::USER);
                let (events, found) = self.verify(&self.nagaya.tenant(&principal)?, &aggregate).await?;
                chains.events += events;
                chains.aggregates += 1;
                if let Err(why) = found {
                    chains.broken.push(Broken { tenant: tenant.clone(), aggregate, why });
                }
                tell(chains.aggregates);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(chains),
            }
        }
    }

    /// Aggregates with a head, and none of the events that it speaks of.
    pub async fn find_hollow(&self, heads: &Follower) -> Result<Vec<Broken>, Error> {
        let (mut hollow, mut after) = (Vec::new(), None);
        loop {
            let page = heads.scan((0, 1), after, Some(1_000)).await?;
            for (owner, record) in &page.records {
                let aggregate = record.text(&self.layout.id).unwrap_or_default().to_owned();
                let principal = nagaya_tenancy::Principal::new(owner.as_str(), crate::processor::USER);
                let list = List::by(&self.layout.history).with(&self.layout.id, aggregate.as_str()).limit(1);
                if self.nagaya.tenant(&principal)?.list(&list).await?.records.is_empty() {
                    let why = "it has a head, and no events".to_owned();
                    hollow.push(Broken { tenant: owner.clone(), aggregate, why });
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(hollow),
            }
        }
    }
}
