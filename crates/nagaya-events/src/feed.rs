//! Events as they happen, for those who listen.

use std::{sync::Arc, time::Duration};

use nagaya_store::From;
use nagaya_tenancy::{List, Nagaya, Principal, Tenant};
use tokio::sync::{broadcast, watch};

use crate::{
    Error, ErrorKind, Inspector, Recorded,
    layout::Layout,
    processor::{USER, is_lost as is_gap},
    seal,
};

/// Events that a listener may be behind before it has to begin anew.
const ROOM: usize = 4_096;
/// How far back somebody who comes back is told again: events of the same moment may become known in another order.
const OVERLAP: u64 = 10_000;
/// How long somebody who listens waits for the feed to begin.
const BEGINS: Duration = Duration::from_secs(2);
/// Changes that are read at once.
const BATCH: usize = 1_000;

/// Tells listeners of the events of their tenant, at least once each, and in order for each aggregate.
#[derive(Debug, Clone)]
pub struct Feed {
    layout: Arc<Layout>,
    /// The access pattern that gives a tenant's events in order.
    of_tenant: Option<String>,
    /// `None`: the feed has ended.
    events: broadcast::Sender<Option<Arc<Recorded>>>,
    /// Whether it follows: from then on nothing is missed.
    following: Arc<watch::Sender<bool>>,
}

/// Somebody who listens.
#[derive(Debug)]
pub struct Listening {
    layout: Arc<Layout>,
    tenant: Tenant,
    /// What is told again, last first.
    before: Vec<Recorded>,
    /// Whether more has been than is told again: it ends there, and is begun anew from what it has told.
    cut: bool,
    /// What has been heard and not told yet.
    heard: Option<Arc<Recorded>>,
    events: broadcast::Receiver<Option<Arc<Recorded>>>,
}

impl Feed {
    /// A feed of one kind of aggregate, that nothing goes into yet.
    pub fn new(design: &nagaya_design::Design, aggregate: &str) -> Result<Self, Error> {
        let layout = Layout::of(design, aggregate)?;
        let by_tenant = |access: &&nagaya_design::Access| {
            let parameters = design.parameters(access);
            access.mapping.is_some()
                && matches!(&access.bound, nagaya_design::Bound::Range(field) if field == "eventId")
                && parameters.iter().all(|parameter| parameter.from_token || !parameter.required)
        };
        let of_tenant = design.accesses_of(&layout.events).find(by_tenant).map(|access| access.name.clone());
        let (events, following) = (broadcast::channel(ROOM).0, Arc::new(watch::channel(false).0));
        Ok(Feed { layout: Arc::new(layout), of_tenant, events, following })
    }

    /// Takes in what happens, until told to stop. Every process that has listeners does this for itself.
    pub async fn run(&self, nagaya: &Nagaya, pause: Duration, stop: impl Future<Output = ()>) {
        let work = async {
            let (mut from, mut failures) = (From::Now, 0_u32);
            loop {
                if let Err(error) = self.follow(nagaya, pause, &mut from).await {
                    failures = failures.saturating_add(1);
                    if is_lost(&error) {
                        // Nobody knows what has been missed: whoever listens begins anew.
                        let _ = self.events.send(None);
                        from = From::Now;
                    }
                    if failures.is_power_of_two() {
                        tracing::warn!(%error, failures, "events cannot be followed");
                    }
                    tokio::time::sleep(pause.max(Duration::from_millis(500))).await;
                }
            }
        };
        tokio::select! {
            () = work => {}
            () = stop => {}
        }
        self.following.send_replace(false);
        // Whoever listens does so for ever otherwise.
        let _ = self.events.send(None);
    }

    /// Follows from where it was, so that a failure costs nobody an event.
    async fn follow(&self, nagaya: &Nagaya, pause: Duration, from: &mut From) -> Result<(), Error> {
        let operator = nagaya.operator("tells listeners of events", &Principal::new("", USER));
        let inspector = Inspector::new(nagaya, &self.layout.aggregate)?;
        let follower = operator.follow(inspector.entity()).await?;
        loop {
            let followed = follower.changes(from.clone(), BATCH).await?;
            for change in followed.changes {
                if let (None, Some(new)) = (change.old, change.new) {
                    match Recorded::read(&self.layout, &change.tenant, new) {
                        // Nobody listening is no failure.
                        Ok(event) => drop(self.events.send(Some(Arc::new(event)))),
                        Err(error) => tracing::error!(%error, "what is no event lies among events"),
                    }
                }
            }
            *from = From::After(followed.next);
            self.following.send_replace(true);
            if followed.read == 0 {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Begins to listen to a tenant's events: from now on, or from one that is known already.
    pub async fn listen(&self, tenant: &Tenant, after: Option<&str>) -> Result<Listening, Error> {
        // A feed that is about to begin misses what happens before; one that nobody runs is not waited for long.
        let mut following = self.following.subscribe();
        let _ = tokio::time::timeout(BEGINS, following.wait_for(|following| *following)).await;
        // Before what has been is read: nothing falls between.
        let events = self.events.subscribe();
        let name = Arc::clone(&tenant.principal().tenant);
        let (mut before, mut cut) = (Vec::new(), false);
        if let (Some(access), Some(after)) = (&self.of_tenant, after.and_then(|id| ulid::Ulid::from_string(id).ok())) {
            let known = after.to_string();
            let from = ulid::Ulid::from_parts(after.timestamp_ms().saturating_sub(OVERLAP), 0).to_string();
            let mut list = List::by(access).with("from", from).limit(nagaya_design::MAX_PAGE);
            loop {
                let page = tenant.list(&list).await?;
                for record in page.records {
                    before.push(Recorded::read(&self.layout, &name, record)?);
                }
                let missed = before.iter().filter(|event| event.id > known).count();
                match page.next {
                    Some(next) if missed < ROOM => list = list.cursor(next),
                    more => {
                        cut = more.is_some();
                        break;
                    }
                }
            }
        }
        seal::open(&self.layout, tenant, &mut before).await?;
        before.reverse();
        Ok(Listening { layout: Arc::clone(&self.layout), tenant: tenant.clone(), before, cut, heard: None, events })
    }
}

impl Listening {
    /// The next event; `None` when the listener is too far behind, or the feed has ended: to be begun anew.
    pub async fn next(&mut self) -> Option<Recorded> {
        if let Some(event) = self.before.pop() {
            return Some(event);
        }
        if self.cut {
            return None;
        }
        loop {
            // What has been heard is kept until it is told: whoever waits may have given up in between.
            let heard = match self.heard.take() {
                Some(heard) => heard,
                None => self.events.recv().await.ok()??,
            };
            if *heard.tenant == *self.tenant.principal().tenant {
                let mut event = [Recorded::clone(&heard)];
                self.heard = Some(heard);
                seal::open(&self.layout, &self.tenant, &mut event).await.ok()?;
                self.heard = None;
                let [event] = event;
                return Some(event);
            }
        }
    }
}

/// Whether the changes after a position are not kept any more.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Tenancy(error) if is_gap(error))
}
