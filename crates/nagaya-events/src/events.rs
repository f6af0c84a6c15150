//! The events of one kind of aggregate: loading its state, and executing commands on it.

mod append;
mod build;
mod idempotency;
mod load;
mod snapshot;

use self::idempotency::IdempotentRequest;
pub(crate) use self::load::{read_events, read_events_to_apply, read_stored};

use std::{marker::PhantomData, sync::Arc};

use nagaya_design::Design;
use nagaya_tenancy::{ErrorKind as Kind, List, Record, Retry, Tenant};
use tokio::sync::Mutex;

use crate::{Context, Decide, Error, Evolve, Failure, RecordedEvent, layout::Layout, seal};

/// The events of one kind of aggregate.
#[derive(Debug)]
pub struct Events<S> {
    layout: Arc<Layout>,
    options: EventsOptions,
    /// Commands of this process that have lost a race take a lock, so that they run one after the other.
    locks: Arc<[Mutex<()>]>,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for Events<S> {
    fn clone(&self) -> Self {
        let (layout, locks) = (Arc::clone(&self.layout), Arc::clone(&self.locks));
        Events { layout, options: self.options.clone(), locks, state: PhantomData }
    }
}

/// How commands are executed.
#[derive(Debug, Clone)]
pub struct EventsOptions {
    /// How often a command is tried that loses the race against others.
    pub attempts: usize,
    /// After how many events a snapshot is stored, if the design has an entity for it; 0: never.
    pub snapshot_every: u64,
}

impl Default for EventsOptions {
    fn default() -> Self {
        EventsOptions { attempts: 100, snapshot_every: 100 }
    }
}

/// The state of an aggregate.
#[derive(Debug, Clone)]
pub struct LoadedAggregate<S> {
    /// The state after its events.
    pub state: S,
    /// Its version: how many events it has.
    pub version: u64,
    /// Its last event.
    pub latest: Option<RecordedEvent>,
    head: Option<Record>,
}

/// What comes with a command.
#[derive(Debug, Clone)]
pub struct CommandRequest<'r> {
    /// What the decision knows besides the state.
    pub context: Context,
    /// The version that the aggregate must have; `None`: any, and a lost race is retried.
    pub expected: Option<u64>,
    /// The idempotency key and the request that it stands for: a repeated request is executed once and gets the same answer.
    pub idempotency: Option<(&'r str, &'r [u8])>,
}

/// The result of a command.
#[derive(Debug, Clone)]
pub struct Executed<S, R> {
    /// The answer to the caller.
    pub reply: R,
    /// The aggregate's id.
    pub aggregate: String,
    /// The state after it.
    pub state: S,
    /// The version after it.
    pub version: u64,
    /// The last event of the aggregate then.
    pub latest: Option<RecordedEvent>,
    /// The events that were appended; none if nothing had to change, or if the request is a repeated one.
    pub events: Vec<RecordedEvent>,
}

/// How many locks there are. Aggregates that share one wait for each other without need.
const LOCK_COUNT: usize = 1024;

impl<S: Evolve> Events<S> {
    /// The events of an aggregate of a design.
    pub fn new(design: &Design, aggregate: &str, options: EventsOptions) -> Result<Self, Error> {
        let layout = Arc::new(Layout::from_design(design, aggregate)?);
        let locks = (0..LOCK_COUNT).map(|_| Mutex::new(())).collect();
        Ok(Events { layout, options, locks, state: PhantomData })
    }

    /// Executes a command on an aggregate; one that does not exist yet is in its default state.
    pub async fn execute<C>(
        &self,
        tenant: &Tenant,
        id: &str,
        command: &C,
        request: &CommandRequest<'_>,
    ) -> Result<Executed<S, S::Reply>, Failure<S::Refusal>>
    where
        S: Decide<C>,
    {
        let (mut lock, mut taken) = (None, 0);
        let once = request.idempotency.map(|once| IdempotentRequest::new(tenant, once));
        let mut retry = Retry::new(self.options.attempts);
        loop {
            retry.attempt().await?;
            if let Some(once) = &once
                && let Some((aggregate, loaded)) = self.find_recorded_answer(tenant, once).await?
            {
                let LoadedAggregate { state, version, latest, .. } = loaded;
                let reply = state.reply(command);
                return Ok(Executed { reply, aggregate, state, version, latest, events: Vec::new() });
            }
            let loaded = self.load(tenant, id).await?;
            if request.expected.is_some_and(|expected| expected != loaded.version) {
                return Err(Failure::Conflict { version: loaded.version });
            }
            let decided = loaded.state.decide(command, &request.context).map_err(Failure::Refused)?;
            let is_new = loaded.head.is_none();
            let conflict = match self.append(tenant, id, loaded, decided, &request.context, once.as_ref()).await? {
                Ok(Appended { state, version, latest, events }) => {
                    let reply = state.reply(command);
                    return Ok(Executed { reply, aggregate: id.to_owned(), state, version, latest, events });
                }
                Err(conflict) => conflict,
            };
            // An id that is taken, and still does not exist for this tenant, is another tenant's.
            if is_new && matches!(conflict.kind(), Kind::NotUnique { .. }) {
                taken += 1;
                if taken > 2 {
                    return Err(conflict.into());
                }
            }
            // Another writer was faster. The losers of this process run one after the other from now on.
            if lock.is_none() {
                lock = Some(self.locks[lock_of(id)].lock().await);
            }
        }
    }

    /// A page of an aggregate's events, in order, and the cursor of the next one. An aggregate that does not exist for the tenant has
    /// none.
    pub async fn history(
        &self,
        tenant: &Tenant,
        id: &str,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<(Vec<RecordedEvent>, Option<String>), Error> {
        // Another tenant's events are not read to leave them out: that takes the longer the more there are.
        match tenant.get(&self.layout.head.name, &[id]).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => return Ok((Vec::new(), None)),
            Err(error) => return Err(error.into()),
        }
        let mut list = List::by(&self.layout.history).with(&self.layout.id, id);
        if let Some(limit) = limit {
            list = list.limit(limit);
        }
        if let Some(cursor) = cursor {
            list = list.cursor(cursor);
        }
        let page = tenant.list(&list).await?;
        let name = &tenant.principal().tenant;
        let events = page.records.into_iter().map(|record| RecordedEvent::read(&self.layout, name, record));
        let mut events: Vec<_> = events.collect::<Result<_, _>>()?;
        seal::open(&self.layout, tenant, &mut events).await?;
        Ok((events, page.next))
    }
}

/// Appended events, and the state after them.
struct Appended<S> {
    state: S,
    version: u64,
    latest: Option<RecordedEvent>,
    events: Vec<RecordedEvent>,
}

fn lock_of(id: &str) -> usize {
    let hash = blake3::hash(id.as_bytes());
    usize::from(u16::from_be_bytes([hash.as_bytes()[0], hash.as_bytes()[1]])) % LOCK_COUNT
}
