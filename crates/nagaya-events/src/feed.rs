//! The live feed: the events of a tenant as they happen.

use std::{sync::Arc, time::Duration};

use nagaya_tenancy::{List, Nagaya, Subscription, SubscriptionOptions, Tenant};
use tokio::sync::{broadcast, watch};

use crate::{Error, RecordedEvent, layout::Layout, processor::principal, seal};

/// Events that a listener may be behind before it has to reconnect.
const LISTENER_CAPACITY: usize = 4_096;
/// Missed events that a listener holds at once.
const REPLAY_PAGE_SIZE: usize = 100;
/// How far before the last known event a replay starts, in milliseconds: events of the same time may arrive in another order.
const REPLAY_OVERLAP_MILLIS: u64 = 10_000;
/// How long a new listener waits for the feed to start.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends the events of a tenant to its listeners: each at least once, and in order for each aggregate.
#[derive(Debug, Clone)]
pub struct Feed {
    layout: Arc<Layout>,
    /// The access pattern that lists a tenant's events in order.
    of_tenant: Option<String>,
    /// `None`: listeners have to reconnect.
    events: broadcast::Sender<Option<Arc<RecordedEvent>>>,
    /// Whether it runs: from then on no event is missed.
    running: Arc<watch::Sender<bool>>,
}

/// A listener of a feed.
#[derive(Debug)]
pub struct FeedListener {
    layout: Arc<Layout>,
    tenant: Tenant,
    /// Events of the page that is replayed, the last one first.
    replay: Vec<RecordedEvent>,
    /// The next page of the replay; `None`: there is none.
    next_page: Option<List>,
    /// An event that was received and not returned yet.
    received: Option<Arc<RecordedEvent>>,
    events: broadcast::Receiver<Option<Arc<RecordedEvent>>>,
}

impl Feed {
    /// A feed of one kind of aggregate. It has no events before it [runs](Feed::run).
    pub fn new(design: &nagaya_design::Design, aggregate: &str) -> Result<Self, Error> {
        let layout = Layout::from_design(design, aggregate)?;
        let by_tenant = |access: &&nagaya_design::AccessPattern| {
            // Without an index, the id of the aggregate is required too.
            matches!(&access.bound, nagaya_design::SortBound::Range(field) if field == "eventId")
                && design.parameters(access).iter().all(|parameter| parameter.from_token || !parameter.required)
        };
        let of_tenant = design.access_patterns_of(&layout.events).find(by_tenant).map(|access| access.name.clone());
        let (events, running) = (broadcast::channel(LISTENER_CAPACITY).0, Arc::new(watch::channel(false).0));
        Ok(Feed { layout: Arc::new(layout), of_tenant, events, running })
    }

    /// Reads events until told to stop. Every process that has listeners runs it.
    pub async fn run(&self, nagaya: &Nagaya, pause: Duration, stop: impl Future<Output = ()>) {
        let operator = nagaya.operator("tells listeners of events", &principal(""));
        let options = SubscriptionOptions { pause, longest_pause: pause, ..SubscriptionOptions::default() };
        let subscription = operator.subscribe("feed", &[&self.layout.events.name], options);
        subscription.run(stop, || self.step(&subscription)).await;
        self.running.send_replace(false);
        // Listeners would wait for ever otherwise.
        let _ = self.events.send(None);
    }

    async fn step(&self, subscription: &Subscription) -> Result<usize, Error> {
        let mut page = subscription.next_page().await?;
        if page.gap {
            // It is unknown which events were missed: all listeners have to reconnect.
            let _ = self.events.send(None);
        }
        let read = page.read;
        for change in std::mem::take(&mut page.changes) {
            if let (None, Some(new)) = (change.old, change.new) {
                match RecordedEvent::read(&self.layout, &change.tenant, new) {
                    // A feed without listeners is no failure.
                    Ok(event) => drop(self.events.send(Some(Arc::new(event)))),
                    Err(error) => tracing::error!(%error, "unreadable record in the event table"),
                }
            }
        }
        subscription.acknowledge(page, false).await?;
        self.running.send_replace(true);
        Ok(read)
    }

    /// Listens to a tenant's events: from now on, or after one that is known already.
    pub async fn listen(&self, tenant: &Tenant, after: Option<&str>) -> Result<FeedListener, Error> {
        // Events before the start of the feed would be missed. A feed that is never run must not block listeners.
        let mut running = self.running.subscribe();
        let _ = tokio::time::timeout(START_TIMEOUT, running.wait_for(|running| *running)).await;
        // Before the replay is read: no event falls between.
        let events = self.events.subscribe();
        let replayed_from = |after: ulid::Ulid| {
            let from = after.timestamp_ms().saturating_sub(REPLAY_OVERLAP_MILLIS);
            let list = List::by(self.of_tenant.as_ref()?).limit(REPLAY_PAGE_SIZE);
            Some(list.with("from", ulid::Ulid::from_parts(from, 0).to_string()))
        };
        let next_page = after.and_then(|id| ulid::Ulid::from_string(id).ok()).and_then(replayed_from);
        let (layout, tenant) = (Arc::clone(&self.layout), tenant.clone());
        let mut listener = FeedListener { layout, tenant, replay: Vec::new(), next_page, received: None, events };
        // A caller whose events cannot be read is answered with the error.
        listener.read_page().await?;
        Ok(listener)
    }
}

impl FeedListener {
    /// The next event; `None` when the listener is too far behind, missed events cannot be read or the feed has ended: it has to
    /// reconnect. The future can be dropped before it is ready: no event is lost.
    pub async fn next(&mut self) -> Option<RecordedEvent> {
        loop {
            if let Some(event) = self.replay.pop() {
                return Some(event);
            }
            if self.next_page.is_none() {
                break;
            }
            if let Err(error) = self.read_page().await {
                tracing::warn!(%error, "missed events cannot be read; their listener has to reconnect");
                return None;
            }
        }
        loop {
            // A received event is kept until it is returned: the caller may drop this future before.
            let received = match self.received.take() {
                Some(received) => received,
                None => self.events.recv().await.ok()??,
            };
            if *received.tenant == *self.tenant.principal().tenant {
                let mut event = [RecordedEvent::clone(&received)];
                self.received = Some(received);
                seal::open(&self.layout, &self.tenant, &mut event).await.ok()?;
                self.received = None;
                let [event] = event;
                return Some(event);
            }
        }
    }

    /// Reads the next page of the replay, if there is one, in place of the page before it, which has been returned.
    async fn read_page(&mut self) -> Result<(), Error> {
        let Some(list) = &self.next_page else { return Ok(()) };
        let page = self.tenant.list(list).await?;
        let name = &self.tenant.principal().tenant;
        let events = page.records.into_iter().map(|record| RecordedEvent::read(&self.layout, name, record));
        let mut events: Vec<_> = events.collect::<Result<_, _>>()?;
        seal::open(&self.layout, &self.tenant, &mut events).await?;
        events.reverse();
        // All at once, after the last wait: the caller may drop this future before.
        self.next_page = page.next.map(|next| list.clone().cursor(next));
        self.replay = events;
        Ok(())
    }
}
