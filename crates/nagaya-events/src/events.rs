//! The events of one kind of aggregate: loading a state, and carrying out commands on it.

mod append;
mod load;
mod once;
mod snapshot;

pub(crate) use self::load::{read, read_stored};

use std::{marker::PhantomData, sync::Arc};

use nagaya_design::Design;
use nagaya_tenancy::{ErrorKind as Kind, List, Record, Tenant};
use serde_json::{Map, Value as Json};
use tokio::sync::Mutex;

use crate::{Context, Decide, Error, ErrorKind, Evolve, Failure, Recorded, chain, layout::Layout, order, seal};

/// The events of one kind of aggregate.
#[derive(Debug)]
pub struct Events<S> {
    layout: Arc<Layout>,
    options: Options,
    /// Commands of this process that have lost a race wait for each other, one aggregate at a time.
    turns: Arc<[Mutex<()>]>,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for Events<S> {
    fn clone(&self) -> Self {
        let (layout, turns) = (Arc::clone(&self.layout), Arc::clone(&self.turns));
        Events { layout, options: self.options.clone(), turns, state: PhantomData }
    }
}

/// How commands are carried out.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often a command is decided that loses the race against others.
    pub attempts: usize,
    /// After how many events a state is kept as well, where the design has a place for it; 0: never.
    pub snapshot_every: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { attempts: 100, snapshot_every: 100 }
    }
}

/// The state of an aggregate.
#[derive(Debug, Clone)]
pub struct Loaded<S> {
    /// What its events make it.
    pub state: S,
    /// Its version: how many events it has.
    pub version: u64,
    /// Its last event.
    pub latest: Option<Recorded>,
    head: Option<Record>,
}

/// What somebody wants of an aggregate, besides the command.
#[derive(Debug, Clone)]
pub struct Request<'r> {
    /// What the decision knows.
    pub context: Context,
    /// The version that the aggregate has to have; `None`: any, and a lost race is run again.
    pub expected: Option<u64>,
    /// A key of the caller's choice and the request that it stands for: the same again gives the same and happens once.
    pub once: Option<(&'r str, &'r [u8])>,
}

/// What came of a command.
#[derive(Debug, Clone)]
pub struct Executed<S, R> {
    /// What the one who asked is told.
    pub reply: R,
    /// The aggregate's id.
    pub aggregate: String,
    /// The state after it.
    pub state: S,
    /// The version after it.
    pub version: u64,
    /// The last event of the aggregate then.
    pub latest: Option<Recorded>,
    /// What has happened; nothing if everything was as wanted, or had happened already.
    pub events: Vec<Recorded>,
}

/// How many turns there are: aggregates that share one wait for each other though they need not.
const TURNS: usize = 1024;

impl<S: Evolve> Events<S> {
    /// The events of an aggregate of a design.
    pub fn of(design: &Design, aggregate: &str, options: Options) -> Result<Self, Error> {
        let layout = Arc::new(Layout::of(design, aggregate)?);
        let turns = (0..TURNS).map(|_| Mutex::new(())).collect();
        Ok(Events { layout, options, turns, state: PhantomData })
    }

    /// Carries out a command on an aggregate; one that is not there yet is in its first state.
    pub async fn execute<C>(
        &self,
        tenant: &Tenant,
        id: &str,
        command: &C,
        request: &Request<'_>,
    ) -> Result<Executed<S, S::Reply>, Failure<S::Refusal>>
    where
        S: Decide<C>,
    {
        let (mut turn, mut taken) = (None, 0);
        for _ in 0..self.options.attempts.max(1) {
            // It may have happened already.
            if let Some(once) = request.once
                && let Some(before) = self.recall(tenant, once).await?
            {
                return Ok(self.repeated(before, command));
            }
            let loaded = self.load(tenant, id).await?;
            if request.expected.is_some_and(|expected| expected != loaded.version) {
                return Err(Failure::Conflict { version: loaded.version });
            }
            let decided = loaded.state.decide(command, &request.context).map_err(Failure::Refused)?;
            let unborn = loaded.head.is_none();
            let overtaken = match self.append(tenant, id, loaded, decided, request).await? {
                Ok(Appended { state, version, latest, events }) => {
                    let reply = state.reply(command);
                    return Ok(Executed { reply, aggregate: id.to_owned(), state, version, latest, events });
                }
                Err(overtaken) => overtaken,
            };
            // What is taken, and still not there for this tenant, is another's.
            if unborn && matches!(overtaken.kind(), Kind::Taken { .. }) {
                taken += 1;
                if taken > 2 {
                    return Err(overtaken.into());
                }
            }
            // Somebody was faster. Those of this process who lost, too, come one after the other from now on.
            if turn.is_none() {
                turn = Some(self.turns[turn_of(id)].lock().await);
            }
        }
        Err(Error::from(ErrorKind::Contended).into())
    }

    fn repeated<C>(&self, before: once::Before<S>, command: &C) -> Executed<S, S::Reply>
    where
        S: Decide<C>,
    {
        let once::Before { aggregate, loaded } = before;
        let Loaded { state, version, latest, .. } = loaded;
        Executed { reply: state.reply(command), aggregate, state, version, latest, events: Vec::new() }
    }

    /// A page of an aggregate's events, in order, and the cursor of the next one.
    pub async fn history(
        &self,
        tenant: &Tenant,
        id: &str,
        limit: Option<usize>,
        cursor: Option<&str>,
    ) -> Result<(Vec<Recorded>, Option<String>), Error> {
        let mut list = List::by(&self.layout.history).with(&self.layout.id, id);
        if let Some(limit) = limit {
            list = list.limit(limit);
        }
        if let Some(cursor) = cursor {
            list = list.cursor(cursor);
        }
        let page = tenant.list(&list).await?;
        let name = &tenant.principal().tenant;
        let events = page.records.into_iter().map(|record| Recorded::read(&self.layout, name, record));
        let mut events: Vec<_> = events.collect::<Result<_, _>>()?;
        seal::open(&self.layout, tenant, &mut events).await?;
        Ok((events, page.next))
    }
}

/// What was appended, and what it made.
struct Appended<S> {
    state: S,
    version: u64,
    latest: Option<Recorded>,
    events: Vec<Recorded>,
}

fn turn_of(id: &str) -> usize {
    let hash = blake3::hash(id.as_bytes());
    usize::from(u16::from_be_bytes([hash.as_bytes()[0], hash.as_bytes()[1]])) % TURNS
}

/// The fields of an event as the layer below takes them: without the tenant, which it sets itself.
fn fields(layout: &Layout, event: &Recorded) -> Map<String, Json> {
    let mut metadata = event.metadata.clone();
    if let Some(tenant) = layout.events.tenant.as_deref().and_then(|path| path.strip_prefix("metadata.")) {
        take(&mut metadata, tenant);
    }
    let mut fields = Map::new();
    fields.insert(layout.id.clone(), event.aggregate.as_str().into());
    fields.insert("aggregateVersion".to_owned(), event.version.into());
    fields.insert("eventId".to_owned(), event.id.as_str().into());
    fields.insert("eventType".to_owned(), event.raw.event_type.as_str().into());
    fields.insert("data".to_owned(), event.raw.data.clone().into());
    fields.insert("metadata".to_owned(), metadata.into());
    if event.raw.version > 1 {
        fields.insert(crate::recorded::FORM.to_owned(), event.raw.version.into());
    }
    fields
}

/// Takes a value out of maps in maps.
fn take(fields: &mut Map<String, Json>, path: &str) {
    match path.split_once('.') {
        None => drop(fields.remove(path)),
        Some((first, rest)) => {
            if let Some(Json::Object(inner)) = fields.get_mut(first) {
                take(inner, rest);
            }
        }
    }
}

/// Puts a value into maps in maps.
fn put(fields: &mut Map<String, Json>, path: &str, value: Json) {
    match path.split_once('.') {
        None => drop(fields.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = fields.entry(first).or_insert_with(|| Map::new().into());
            if let Json::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// What makes an event of what was decided.
struct Maker<'m> {
    layout: &'m Layout,
    tenant: &'m str,
    id: &'m str,
    context: &'m Context,
}

impl Maker<'_> {
    /// The next event of an aggregate.
    fn make<S: Evolve>(&self, event: &S::Event, version: u64, last: Option<&str>) -> Result<Recorded, Error> {
        let Maker { layout, tenant, id, context } = self;
        let unfit = |why: &str| {
            Error::from(ErrorKind::UnknownEvent { event: format!("{} of {id}", layout.aggregate), why: why.to_owned() })
        };
        let Ok(Json::Object(mut tagged)) = serde_json::to_value(event) else {
            return Err(unfit("an event has to be tagged by `eventType`, with its fields in `data`"));
        };
        let Some(Json::String(event_type)) = tagged.remove("eventType") else {
            return Err(unfit("it has no `eventType`"));
        };
        let mut data = match tagged.remove("data") {
            Some(Json::Object(data)) => data,
            None | Some(Json::Null) => Map::new(),
            Some(_) => return Err(unfit("its `data` is no map")),
        };
        let known = layout.types.iter().find(|known| known.name == event_type);
        let known = known.ok_or_else(|| unfit(&format!("the design has no event `{event_type}`")))?;
        for field in &known.fields {
            if let (None, Some(nagaya_design::Default::Constant(value))) = (data.get(&field.name), &field.default) {
                data.insert(field.name.clone(), value.clone());
            }
        }
        let mut problems = Vec::new();
        for (name, value) in &data {
            match known.fields.iter().find(|field| field.name == *name) {
                Some(field) => field.check(value, &format!("data.{name}"), &mut problems),
                None => return Err(unfit(&format!("the design's `{event_type}` has no field `{name}`"))),
            }
        }
        if !problems.is_empty() {
            return Err(nagaya_tenancy::Error::from(nagaya_tenancy::ErrorKind::Invalid(problems)).into());
        }
        let raw = crate::Raw { version: S::version(&event_type), event_type, data };
        let id = order::next(&context.ids, context.now, last);
        let mut recorded = Recorded {
            tenant: (*tenant).to_owned(),
            aggregate: (*self.id).to_owned(),
            version,
            id,
            raw,
            metadata: Map::new(),
            erased: false,
        };
        self.describe(&mut recorded);
        Ok(recorded)
    }

    /// Who, when and why, as far as the design asks.
    fn describe(&self, event: &mut Recorded) {
        let entity = &self.layout.events;
        let timestamp = entity.field("metadata.timestamp").and_then(|field| field.instant(self.context.now));
        let known = [
            ("correlationId", Some(self.context.correlation.as_str().into())),
            ("causationId", Some(self.context.causation.as_str().into())),
            ("actor.userId", Some(self.context.user.as_str().into())),
            ("timestamp", timestamp),
        ];
        for (path, value) in known {
            if let (Some(value), Some(_)) = (value, entity.field(&format!("metadata.{path}"))) {
                put(&mut event.metadata, path, value);
            }
        }
        if let Some(path) = entity.tenant.as_deref().and_then(|path| path.strip_prefix("metadata.")) {
            put(&mut event.metadata, path, self.tenant.into());
        }
    }
}

/// The end of a chain after some events.
fn chained(before: &str, events: &[Recorded]) -> String {
    events.iter().fold(before.to_owned(), |end, event| chain::link(&end, event))
}
