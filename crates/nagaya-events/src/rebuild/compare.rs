//! Comparing items with their events, and repairing those that differ.

use futures_util::{StreamExt as _, stream};
use nagaya_tenancy::{List, Record, Retry, Tenant};
use serde_json::{Map, Value as Json};
use tokio::time::{Duration, Instant, sleep};

use super::{
    PAGE_SIZE, Progress, ProgressCallback, VerificationReport,
    pass::{Behind, Check, Job},
};
use crate::{
    Error, ErrorKind, Inspector, Item, Processor, RecordedEvent, chain, error::is_lost_race, event_id,
    events::read_events_to_apply, generation::Generations, seal,
};

/// How often it is asked whether the processor has caught up.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An aggregate's events as far as they are complete.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) events: Vec<RecordedEvent>,
    /// The version after them, and after those that are skipped because they are missing or unreadable.
    pub(crate) version: u64,
    /// The event with that version, or the last one before it.
    pub(crate) last: Option<String>,
    /// Why there are no more.
    pub(crate) problem: Option<&'static str>,
}

impl History {
    fn push(&mut self, event: RecordedEvent) {
        (self.version, self.last) = (event.version, Some(event.id.clone()));
        self.events.push(event);
    }

    /// Leaves the events up to a version.
    pub(crate) fn truncate(&mut self, version: u64) {
        if version < self.version {
            self.events.retain(|event| event.version <= version);
            (self.version, self.last) = (version, self.events.last().map(|last| last.id.clone()));
        }
    }
}

/// An item that no event gives.
pub(super) struct Stray {
    pub(super) owner: String,
    pub(super) id: String,
    pub(super) record: Record,
    /// Whether it had events: its checkpoint is still there.
    pub(super) had_events: bool,
}

impl Processor {
    /// The item that events give.
    pub(crate) fn expected_item(&self, events: &[RecordedEvent]) -> Result<Item, Error> {
        let mut item = None;
        for event in events {
            item = self.apply(item, event)?;
        }
        Ok(item)
    }

    /// Compares a generation with the events of one tenant, or of all. Unless it was `built` just now, the aggregates whose
    /// events are lost are looked for as well, and the processor is waited for, for as long as `patience`.
    pub(super) async fn verify_generation(
        &self,
        generation: u32,
        tenant: Option<&str>,
        (built, patience): (bool, Duration),
        tell: ProgressCallback<'_>,
    ) -> Result<VerificationReport, Error> {
        let check = if built { Check::Built } else { Check::Stored };
        let checked = self
            .run_pass(tenant, &|progress| tell(Progress { checking: true, ..progress }), Job::Check(generation, check))
            .await?;
        let mut verified = VerificationReport { generation, ..checked.verified };
        if !checked.behind.is_empty() {
            let progress = Progress { checking: true, waiting: checked.behind.len(), ..checked.progress };
            self.wait_for_processor(generation, &checked.behind, patience, &|| tell(progress)).await?;
            let compare = |behind: &Behind| {
                let (processor, behind) = (self.clone(), behind.clone());
                async move {
                    let tenant = processor.tenant(generation, &behind.tenant)?;
                    processor.compare_item(&tenant, &behind.id, &[], behind.version).await
                }
            };
            let work: Vec<_> = checked.behind.iter().map(compare).collect();
            let mut reports = stream::iter(work).buffer_unordered(self.options.at_once);
            while let Some(report) = reports.next().await {
                // They were counted when they were found.
                verified.merge(VerificationReport { events: 0, aggregates: 0, ..report? });
            }
        }
        for Stray { owner, id, record, had_events } in self.strays(generation, tenant).await? {
            verified.found.add(&owner, &id, Some(&self.own_fields(&record)));
            let why = if had_events { "has an item, and no events any more" } else { "comes from no event" };
            verified.add_mismatch(&owner, &id, why);
        }
        if !built {
            self.add_lost_aggregates(generation, tenant, &mut verified).await?;
        }
        verified.mismatches.sort();
        Ok(verified)
    }

    /// Adds the aggregates of which neither events nor an item are left, but a head.
    async fn add_lost_aggregates(
        &self,
        generation: u32,
        tenant: Option<&str>,
        verified: &mut VerificationReport,
    ) -> Result<(), Error> {
        let inspector = Inspector::new(&self.nagaya, &self.layout.aggregate)?;
        let heads = self.operator.change_source(&self.layout.head.name).await?;
        for head in inspector.find_heads_without_events(&heads).await? {
            if tenant.is_some_and(|one| one != head.tenant) {
                continue;
            }
            // One that has an item is named as such.
            if self.read_item(&self.tenant(generation, &head.tenant)?, &head.aggregate).await?.is_none() {
                verified.add_mismatch(&head.tenant, &head.aggregate, "has a head, and no events");
            }
        }
        Ok(())
    }

    /// Waits until aggregates are up to date or parked, but not for longer than `patience` in all. `tell` says that it waits.
    async fn wait_for_processor(
        &self,
        generation: u32,
        behind: &[Behind],
        patience: Duration,
        tell: &(dyn Fn() + Send + Sync),
    ) -> Result<(), Error> {
        if patience.is_zero() {
            return Ok(());
        }
        tell();
        let end = Instant::now() + patience;
        for each in behind {
            let tenant = self.tenant(generation, &each.tenant)?;
            loop {
                let checkpoint = self.read_checkpoint(&tenant, &each.id).await?;
                if checkpoint.version >= each.version || checkpoint.parked.is_some() {
                    break;
                }
                if Instant::now() >= end {
                    return Ok(());
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Compares an aggregate's item with its events, at the version of the item. Some of the events may be given, as they are
    /// stored; if those up to the version `latest` are not applied yet, it is behind.
    pub(super) async fn compare_item(
        &self,
        tenant: &Tenant,
        id: &str,
        given: &[RecordedEvent],
        latest: u64,
    ) -> Result<VerificationReport, Error> {
        let owner = tenant.principal().tenant.to_string();
        loop {
            let (checkpoint, skips) = (self.read_checkpoint(tenant, id).await?, self.skips_revision());
            let (item, unfit) = match self.read_item(tenant, id).await {
                Err(error) if error.is_damage() => (None, true),
                item => (item?, false),
            };
            let again = self.read_checkpoint(tenant, id).await?;
            if again.version != checkpoint.version || again.parked != checkpoint.parked {
                continue;
            }
            let mut history = match self.given_history(tenant, given, checkpoint.version).await? {
                Some(history) => history,
                None => self.read_history(tenant, id, Some((checkpoint.version, checkpoint.last.as_deref()))).await?,
            };
            history.truncate(checkpoint.version);
            if history.version < checkpoint.version {
                history.problem.get_or_insert("lacks an event");
            }
            let mut verified =
                VerificationReport { events: given.len() as u64, aggregates: 1, ..VerificationReport::default() };
            verified.parked = u64::from(checkpoint.parked.is_some());
            verified.behind = u64::from(checkpoint.parked.is_none() && checkpoint.version < latest);
            let found = item.as_ref().map(|record| self.own_fields(record));
            verified.found.add(&owner, id, found.as_ref());
            let expected = self.expected_item(&history.events);
            let why = match (history.problem, &expected, &found) {
                _ if unfit => Some("has an item whose fields do not fit its key"),
                (Some(problem), ..) => Some(problem),
                (_, Err(_), _) => Some("has an event that cannot be applied"),
                (_, Ok(Some(_)), None) => Some("is missing"),
                (_, Ok(None), Some(_)) => Some("should not be there"),
                (_, Ok(expected), found) if !is_equal(expected.as_ref(), found.as_ref()) => {
                    Some("is not what its events give")
                }
                _ => None,
            };
            if why.is_some() {
                // An operator may have changed the skip list meanwhile.
                Generations::read(self).await?;
                if self.skips_revision() != skips {
                    continue;
                }
            }
            // Where the correct item is unknown, the stored one counts as correct.
            let known = expected.as_ref().ok().filter(|_| history.problem.is_none());
            verified.expected.add(&owner, id, known.map_or(found.as_ref(), Option::as_ref));
            if let Some(why) = why.or((verified.behind > 0).then_some("is behind its events")) {
                verified.add_mismatch(&owner, id, why);
            }
            return Ok(verified);
        }
    }

    /// Events as a history, if they are all of them up to a version.
    async fn given_history(
        &self,
        tenant: &Tenant,
        given: &[RecordedEvent],
        version: u64,
    ) -> Result<Option<History>, Error> {
        let count = usize::try_from(version).unwrap_or(usize::MAX);
        let Some(given) = given.get(..count) else { return Ok(None) };
        if !given.iter().zip(1..).all(|(event, version)| event.version == version) {
            return Ok(None);
        }
        let mut events = given.to_vec();
        match seal::open_if_possible(&self.layout, tenant, &mut events).await {
            Err(error) if error.is_damage() => return Ok(None),
            opened => opened?,
        }
        let mut history = History::default();
        events.into_iter().for_each(|event| history.push(event));
        Ok(Some(history))
    }

    /// Reads the events of an aggregate: up to a version and its last event, or all.
    pub(crate) async fn read_history(
        &self,
        tenant: &Tenant,
        id: &str,
        until: Option<(u64, Option<&str>)>,
    ) -> Result<History, Error> {
        let (end, last) = match until {
            Some((0, _)) => return Ok(History::default()),
            Some((version, last)) => (version, last),
            None => (u64::MAX, None),
        };
        let (mut history, mut from) = (History::default(), None);
        let owner = &tenant.principal().tenant;
        // Goes past events that are missing and were dropped.
        let skip_missing = |history: &mut History, before: u64| {
            while history.version < before && self.is_skipped(owner, id, history.version + 1, "") {
                history.version += 1;
            }
        };
        loop {
            let range = (from.as_deref(), last);
            let read = read_events_to_apply(&self.layout, tenant, id, range, |event| {
                if history.problem.is_none() && event.version > history.version {
                    skip_missing(&mut history, event.version - 1);
                    match event.version == history.version + 1 {
                        true => history.push(event),
                        false => history.problem = Some("lacks an event"),
                    }
                }
                Ok(())
            });
            let error = match read.await {
                Err(error) if error.is_damage() => error,
                read => {
                    read?;
                    break;
                }
            };
            skip_missing(&mut history, end);
            match error.kind() {
                // It was dropped: go on after it.
                ErrorKind::UnknownEvent { event, .. } if self.is_skipped(owner, id, history.version + 1, event) => {
                    (history.version, history.last) = (history.version + 1, Some(event.clone()));
                    from = Some(event_id::after(event));
                }
                _ => {
                    history.problem = Some("has an event that cannot be read");
                    break;
                }
            }
        }
        if history.problem.is_none() {
            skip_missing(&mut history, end);
        }
        Ok(history)
    }

    /// Replaces an item that differs from its events; whether it did. One that is parked becomes what its events give up to
    /// there.
    pub(super) async fn repair_item(&self, tenant: &Tenant, id: &str) -> Result<bool, Error> {
        let mut retry = Retry::new(100);
        loop {
            retry.attempt().await?;
            let checkpoint = self.read_checkpoint(tenant, id).await?;
            let until = checkpoint.parked.as_ref().map(|_| (checkpoint.version, checkpoint.last.as_deref()));
            let history = self.read_history(tenant, id, until).await?;
            // Without all of its events, or with one that cannot be applied, the correct item is unknown.
            let (None, Ok(expected)) = (history.problem, self.expected_item(&history.events)) else { return Ok(false) };
            if history.version < checkpoint.version || history.version == 0 {
                return Ok(false);
            }
            let before = self.read_item(tenant, id).await?;
            let found = before.as_ref().map(|record| self.own_fields(record));
            if checkpoint.version == history.version && is_equal(expected.as_ref(), found.as_ref()) {
                return Ok(false);
            }
            let moved = match &checkpoint.parked {
                Some(_) => checkpoint.clone(),
                None => checkpoint.moved_to(history.version, history.last),
            };
            let set = self.add_item_write(tenant.change_set(), id, before.as_ref(), expected);
            match self.add_checkpoint_write(set, id, &moved).commit().await {
                Ok(_) => return Ok(true),
                Err(error) if is_lost_race(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The items of a generation that come from no stored event. An event is written before its item, so none is found because
    /// of writes that go on meanwhile.
    pub(super) async fn strays(&self, generation: u32, tenant: Option<&str>) -> Result<Vec<Stray>, Error> {
        let items = self.item_source(generation).await?;
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = items.scan((0, 1), after, Some(PAGE_SIZE)).await?;
            let of_tenant = page.records.into_iter().filter(|(owner, _)| tenant.is_none_or(|one| one == owner));
            let look = |(owner, record): (String, Record)| async move {
                let (handle, id) = (self.tenant(generation, &owner)?, record.id().concat());
                if self.has_events(&handle, &id).await? {
                    return Ok::<_, Error>(None);
                }
                let had_events = self.read_checkpoint(&handle, &id).await?.version > 0;
                Ok(Some(Stray { owner, id, record, had_events }))
            };
            let work: Vec<_> = of_tenant.map(look).collect();
            let mut looked = stream::iter(work).buffer_unordered(self.options.at_once);
            while let Some(stray) = looked.next().await {
                found.extend(stray?);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Whether any event of an aggregate is stored.
    async fn has_events(&self, tenant: &Tenant, id: &str) -> Result<bool, Error> {
        let mut list = List::by(&self.layout.history).with(&self.layout.id, id).limit(1);
        loop {
            let page = tenant.list(&list).await?;
            match page.next {
                _ if !page.records.is_empty() => return Ok(true),
                Some(next) => list = list.cursor(next),
                None => return Ok(false),
            }
        }
    }
}

fn is_equal(one: Option<&Map<String, Json>>, other: Option<&Map<String, Json>>) -> bool {
    one.map(chain::canonical) == other.map(chain::canonical)
}
