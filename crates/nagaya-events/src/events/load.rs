//! Loading a state from its events.

use nagaya_tenancy::{List, Record, Tenant};
use serde_json::Value as Json;

use super::{Events, LoadedAggregate};
use crate::{Error, Evolve, RecordedEvent, event_id, layout::Layout, seal};

/// Events that are read per page.
const PAGE_SIZE: usize = nagaya_design::MAX_PAGE;

impl<S: Evolve> Events<S> {
    /// The state of an aggregate, from all of its events.
    pub async fn load(&self, tenant: &Tenant, id: &str) -> Result<LoadedAggregate<S>, Error> {
        self.load_until(tenant, id, None).await
    }

    /// The state of an aggregate after one of its events; `None`: after all of them.
    pub(crate) async fn load_until(
        &self,
        tenant: &Tenant,
        id: &str,
        until: Option<&str>,
    ) -> Result<LoadedAggregate<S>, Error> {
        let head = match tenant.get(&self.layout.head.name, &[id]).await {
            Ok(head) => head,
            Err(error) if error.is_not_found() => return Ok(initial_aggregate(None)),
            Err(error) => return Err(error.into()),
        };
        let (version, last) = self.position_of(&head)?;
        if until.is_none()
            && let Some((from, snapshot)) = self.load_snapshot(tenant, id, version).await?
        {
            let start = LoadedAggregate { head: Some(head.clone()), ..snapshot };
            match self.replay(tenant, id, start, Some(&from), (Some(version), &last)).await {
                // The snapshot does not fit the events. It is only a cache: read all events instead.
                Err(error) if error.is_damage() => {
                    tracing::warn!(%error, aggregate = self.layout.aggregate, "a snapshot does not fit its events and is not used");
                }
                replayed => return replayed,
            }
        }
        let version = until.is_none().then_some(version);
        let last = until.map_or(last, str::to_owned);
        self.replay(tenant, id, initial_aggregate(Some(head)), None, (version, &last)).await
    }

    /// Applies the events after a state, up to and including `last`, which must have that version.
    async fn replay(
        &self,
        tenant: &Tenant,
        id: &str,
        mut loaded: LoadedAggregate<S>,
        from: Option<&str>,
        (version, last): (Option<u64>, &str),
    ) -> Result<LoadedAggregate<S>, Error> {
        // Up to the head that was read: later events are not part of this state.
        read_events(&self.layout, tenant, id, (from, Some(last)), |event| {
            // The last event of the snapshot.
            if loaded.latest.is_none() && from == Some(event.id.as_str()) && event.version == loaded.version {
                loaded.latest = Some(event);
                return Ok(());
            }
            if loaded.latest.is_none() && from.is_some() {
                return Err(Error::damaged(id, "its snapshot ends with an event that does not exist"));
            }
            if event.version != loaded.version + 1 {
                let why = format!("version {} follows version {}", event.version, loaded.version);
                return Err(Error::damaged(id, why));
            }
            loaded.state.evolve(&event.event::<S>()?);
            loaded.version = event.version;
            loaded.latest = Some(event);
            Ok(())
        })
        .await?;
        if let Some(version) = version
            && (loaded.version != version || loaded.latest.as_ref().is_none_or(|event| event.id != last))
        {
            let why = format!("the last one is version {} instead of {version}", loaded.version);
            return Err(Error::damaged(id, why));
        }
        Ok(loaded)
    }

    /// The version and the last event that a head names.
    fn position_of(&self, head: &Record) -> Result<(u64, String), Error> {
        let damaged = || Error::damaged(&head.id().concat(), "its head cannot be read");
        let version = head.to_json().get("aggregateVersion").and_then(Json::as_u64).ok_or_else(damaged)?;
        Ok((version, head.text("lastEventId").ok_or_else(damaged)?.to_owned()))
    }
}

/// The state before the first event.
fn initial_aggregate<S: Evolve>(head: Option<Record>) -> LoadedAggregate<S> {
    LoadedAggregate { state: S::default(), version: 0, latest: None, head }
}

/// Reads the events of an aggregate from one id up to and including another, page by page.
pub(crate) async fn read_events(
    layout: &Layout,
    tenant: &Tenant,
    id: &str,
    range: (Option<&str>, Option<&str>),
    mut on_event: impl FnMut(RecordedEvent) -> Result<(), Error> + Send,
) -> Result<(), Error> {
    let on_event = |event: RecordedEvent| {
        event.check_decrypted()?;
        on_event(event)
    };
    read_pages(layout, tenant, id, range, true, on_event).await
}

/// The same for projections: an event that cannot be decrypted is an event that they cannot apply.
pub(crate) async fn read_events_to_apply(
    layout: &Layout,
    tenant: &Tenant,
    id: &str,
    range: (Option<&str>, Option<&str>),
    on_event: impl FnMut(RecordedEvent) -> Result<(), Error> + Send,
) -> Result<(), Error> {
    read_pages(layout, tenant, id, range, true, on_event).await
}

/// The same as they are stored, with encrypted personal fields.
pub(crate) async fn read_stored(
    layout: &Layout,
    tenant: &Tenant,
    id: &str,
    on_event: impl FnMut(RecordedEvent) -> Result<(), Error> + Send,
) -> Result<(), Error> {
    read_pages(layout, tenant, id, (None, None), false, on_event).await
}

async fn read_pages(
    layout: &Layout,
    tenant: &Tenant,
    id: &str,
    (from, until): (Option<&str>, Option<&str>),
    decrypt: bool,
    mut on_event: impl FnMut(RecordedEvent) -> Result<(), Error> + Send,
) -> Result<(), Error> {
    let mut list = List::by(&layout.history).with(&layout.id, id).limit(PAGE_SIZE);
    if let Some(from) = from {
        list = list.with("from", from);
    }
    if let Some(until) = until {
        list = list.with("to", event_id::after(until));
    }
    if from.zip(until).is_some_and(|(from, until)| from > until) {
        return Ok(());
    }
    let name = std::sync::Arc::clone(&tenant.principal().tenant);
    loop {
        let page = tenant.list(&list).await?;
        let (mut events, mut unreadable) = (Vec::with_capacity(page.records.len()), None);
        for record in page.records {
            match RecordedEvent::read(layout, &name, record) {
                Ok(event) => events.push(event),
                Err(error) => {
                    unreadable = Some(error);
                    break;
                }
            }
        }
        if decrypt && layout.keys.is_some() {
            seal::open_if_possible(layout, tenant, &mut events).await?;
        }
        // The events before an unreadable one are valid.
        events.into_iter().try_for_each(&mut on_event)?;
        if let Some(error) = unreadable {
            return Err(error);
        }
        match page.next {
            Some(next) => list = list.cursor(next),
            None => return Ok(()),
        }
    }
}
