//! Inspecting stored events: reading them, checking their hash chains, erasing personal fields.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use nagaya_tenancy::{ChangeSource, List, Nagaya, Record, Tenant};
use serde_json::Value as Json;

use crate::{
    Error, RecordedEvent, chain,
    events::{read_events, read_stored},
    layout::Layout,
    processor::principal,
    seal,
};

/// The report of a check of hash chains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainReport {
    /// Aggregates that were checked.
    pub aggregates: u64,
    /// Their events.
    pub events: u64,
    /// The aggregates with a broken chain.
    pub broken: Vec<BrokenChain>,
}

/// An aggregate whose stored events have been changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenChain {
    /// The tenant that owns it.
    pub tenant: String,
    /// The aggregate.
    pub aggregate: String,
    /// What is wrong.
    pub why: String,
}

/// How many heads are looked at together.
const HEADS_AT_ONCE: usize = 32;

/// What the head of an aggregate says about its events.
struct Head {
    version: u64,
    /// How their chain ends.
    hash: Option<String>,
}

impl Head {
    fn other_version(&self, count: u64) -> String {
        format!("its head says version {} instead of {count}", self.version)
    }
}

/// Inspects the events of one kind of aggregate.
#[derive(Debug, Clone)]
pub struct Inspector {
    nagaya: Nagaya,
    layout: Layout,
}

impl Inspector {
    /// An inspector of one kind of aggregate.
    pub fn new(nagaya: &Nagaya, aggregate: &str) -> Result<Self, Error> {
        Ok(Inspector { nagaya: nagaya.clone(), layout: Layout::from_design(nagaya.design(), aggregate)? })
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
    pub async fn events(&self, tenant: &Tenant, id: &str) -> Result<Vec<RecordedEvent>, Error> {
        let mut events = Vec::new();
        read_events(&self.layout, tenant, id, (None, None), |event| {
            events.push(event);
            Ok(())
        })
        .await?;
        Ok(events)
    }

    /// The event in a record that came with a change of the store.
    pub fn read_event(&self, tenant: &str, record: &Record) -> Result<RecordedEvent, Error> {
        RecordedEvent::read(&self.layout, tenant, record.clone())
    }

    /// Events of a tenant with their personal fields decrypted, as far as the keys exist.
    pub async fn decrypt(&self, tenant: &Tenant, mut events: Vec<RecordedEvent>) -> Result<Vec<RecordedEvent>, Error> {
        seal::open(&self.layout, tenant, &mut events).await?;
        Ok(events)
    }

    /// Destroys the key that encrypts a user's personal fields; whether there was one. The fields are erased for good once
    /// backups and the history of the store no longer have the key. Projections have to be
    /// [repaired](crate::Processor::repair).
    pub async fn erase(&self, tenant: &Tenant, user: &str) -> Result<bool, Error> {
        seal::destroy_key(&self.layout, tenant, user).await
    }

    /// Encrypts personal fields of a user's later events with a new key; whether the user had one. What older keys have
    /// encrypted stays readable, and [`Inspector::erase`] destroys all of them.
    pub async fn rotate_key(&self, tenant: &Tenant, user: &str) -> Result<bool, Error> {
        seal::rotate_key(&self.layout, tenant, user).await
    }

    /// Checks the events of an aggregate: none is missing, changed or in the wrong place. Gives their number, and the last
    /// hash of the chain or what is wrong. Keep the hash elsewhere to detect a chain that was replaced as a whole.
    pub async fn verify(&self, tenant: &Tenant, id: &str) -> Result<(u64, Result<String, String>), Error> {
        match self.check(tenant, id).await {
            // An unreadable event was not written by this program.
            Err(error) if error.is_damage() => Ok((0, Err(error.to_string()))),
            checked => checked,
        }
    }

    async fn check(&self, tenant: &Tenant, id: &str) -> Result<(u64, Result<String, String>), Error> {
        loop {
            // The head comes first: events and head are written together, so all events up to its version are stored by now, and
            // what is written meanwhile comes after it.
            let head = self.read_head(tenant, id).await?;
            let mut events = Vec::new();
            read_stored(&self.layout, tenant, id, |event| {
                events.push(event);
                Ok(())
            })
            .await?;
            let count = events.len() as u64;
            let version = head.as_ref().map_or(0, |head| head.version);
            let (mut hash, mut end) = (chain::HASH_BEFORE_FIRST.to_owned(), None);
            for (event, at) in events.iter().zip(1..) {
                if event.version != at {
                    let why = format!("version {at} is missing: {} is version {}", event.id, event.version);
                    return Ok((count, Err(why)));
                }
                hash = chain::next_hash(&hash, event);
                if at == version {
                    end = Some(hash.clone());
                }
            }
            if count > version {
                // Events that were written meanwhile have moved the head on.
                match self.read_head(tenant, id).await? {
                    None => return Ok((count, Err("it has events, and no head".to_owned()))),
                    Some(now) if now.version < count => return Ok((count, Err(now.other_version(count)))),
                    Some(_) if head.is_none() => continue,
                    Some(_) => {}
                }
            }
            let Some(head) = head else { return Ok((count, Ok(hash))) };
            let found = match (end, head.hash.as_deref()) {
                (None, _) => Err(head.other_version(count)),
                (Some(end), Some(stored)) if stored != end => {
                    Err("an event has been changed after it was written".to_owned())
                }
                (Some(_), None) if self.layout.head.field("hash").is_some() => {
                    Err("its head does not say how its chain ends".to_owned())
                }
                (Some(end), _) => Ok(end),
            };
            return Ok((version.min(count), found));
        }
    }

    async fn read_head(&self, tenant: &Tenant, id: &str) -> Result<Option<Head>, Error> {
        let head = match tenant.get(&self.layout.head.name, &[id]).await {
            Ok(head) => head.to_json(),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let version = head.get("aggregateVersion").and_then(Json::as_u64).unwrap_or_default();
        Ok(Some(Head { version, hash: head.get("hash").and_then(Json::as_str).map(str::to_owned) }))
    }

    /// Checks the events of all aggregates.
    pub async fn verify_all(&self, follower: &ChangeSource, tell: &(dyn Fn(u64) + Sync)) -> Result<ChainReport, Error> {
        let (mut chains, mut after, mut last) = (ChainReport::default(), None, String::new());
        // The tenants with events of the last aggregate: one, unless the table was written to from outside.
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
                let handle = self.nagaya.tenant(&principal(tenant))?;
                let (events, found) = self.verify(&handle, &aggregate).await?;
                chains.events += events;
                chains.aggregates += 1;
                if let Err(why) = found {
                    chains.broken.push(BrokenChain { tenant: tenant.clone(), aggregate, why });
                }
                tell(chains.aggregates);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(chains),
            }
        }
    }

    /// Aggregates with a head and without events.
    pub async fn find_heads_without_events(&self, heads: &ChangeSource) -> Result<Vec<BrokenChain>, Error> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = heads.scan((0, 1), after, Some(1_000)).await?;
            let look = |(tenant, record): (String, Record)| async move {
                let aggregate = record.text(&self.layout.id).unwrap_or_default().to_owned();
                let list = List::by(&self.layout.history).with(&self.layout.id, aggregate.as_str()).limit(1);
                let events = self.nagaya.tenant(&principal(&tenant))?.list(&list).await?.records;
                let why = "it has a head, and no events".to_owned();
                Ok::<_, Error>(events.is_empty().then_some(BrokenChain { tenant, aggregate, why }))
            };
            let work: Vec<_> = page.records.into_iter().map(look).collect();
            let mut looked = stream::iter(work).buffered(HEADS_AT_ONCE);
            while let Some(hollow) = looked.next().await {
                found.extend(hollow?);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }
}
