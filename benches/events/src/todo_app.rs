//! The todo design on a directory, opened as by `nagaya serve`, and the commands of the benchmark.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, anyhow};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_events::{CommandRequest, Context, Decide, Events, Evolve, Failure, RecordedEvent};
use nagaya_store::{Clock, Store};
use nagaya_tenancy::{IdGenerator, Nagaya, Principal, Settings, Tenant};
use nagaya_todo::{AGGREGATE, Command};
use ulid::Ulid;

/// The number of families.
pub(crate) const FAMILIES: u64 = 100;
/// The timestamp of the first aggregate's id.
const EPOCH: u64 = 1_760_000_000_000;

/// The todo system on one store.
pub(crate) struct TodoApp {
    pub(crate) nagaya: Nagaya,
    families: Vec<Tenant>,
    clock: Clock,
    ids: IdGenerator,
}

impl TodoApp {
    pub(crate) async fn open(directory: &Path) -> anyhow::Result<Self> {
        TodoApp::open_on(Arc::new(open(directory)?)).await
    }

    pub(crate) async fn open_on(store: Arc<dyn Store>) -> anyhow::Result<Self> {
        let design = include_str!("../../../systems/todo/design/todo.toml");
        let design = nagaya_design::load_checked(design).context("the design of the todos is not sound")?;
        let settings = Settings { prefix: "todo/".to_owned(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design, store, settings);
        nagaya.ensure_tables().await?;
        let family = |number| nagaya.tenant(&Principal::new(family(number), "user-0001"));
        let families = (0..FAMILIES).map(family).collect::<Result<_, _>>()?;
        Ok(TodoApp { clock: nagaya.clock(), ids: nagaya.ids(), nagaya, families })
    }

    /// The events of todos, for a given domain type.
    pub(crate) fn events<S: Evolve>(&self) -> anyhow::Result<Events<S>> {
        Ok(Events::new(self.nagaya.design(), AGGREGATE, nagaya_events::EventsOptions::default())?)
    }

    /// The handle of an aggregate's family.
    pub(crate) fn family(&self, number: u64) -> &Tenant {
        &self.families[(number % FAMILIES) as usize]
    }

    /// The context of an HTTP request.
    fn context(&self) -> Context {
        let now = self.clock.millis();
        let request = self.ids.ulid(now);
        Context {
            now,
            user: "user-0001".to_owned(),
            correlation: request.clone(),
            causation: request,
            ids: self.ids.clone(),
        }
    }

    /// Executes a command on an aggregate; its last event.
    pub(crate) async fn execute<S, C>(
        &self,
        events: &Events<S>,
        number: u64,
        command: &C,
    ) -> anyhow::Result<RecordedEvent>
    where
        S: Decide<C>,
        S::Refusal: std::fmt::Debug,
    {
        let request = CommandRequest { context: self.context(), expected: None, idempotency: None };
        match events.execute(self.family(number), &id(number), command, &request).await {
            Ok(done) => done.latest.context("a command has no event"),
            Err(Failure::Error(error)) => Err(error.into()),
            Err(other) => Err(anyhow!("a command came to nothing: {other:?}")),
        }
    }
}

/// The engine with the settings of `nagaya serve`.
pub(crate) fn open(directory: &Path) -> anyhow::Result<EmbeddedStore> {
    std::fs::create_dir_all(directory)?;
    Ok(EmbeddedStore::open(directory, Options::default())?)
}

pub(crate) fn family(number: u64) -> String {
    format!("family-{:04}", number % FAMILIES)
}

/// The id of an aggregate; ids increase, with some per millisecond.
pub(crate) fn id(number: u64) -> String {
    ulid(EPOCH + number / 16, number)
}

/// A ULID that depends only on time and number.
pub(crate) fn ulid(millis: u64, number: u64) -> String {
    // SplitMix64: consecutive numbers give independent bits.
    let mix = |seed: u64| {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    };
    Ulid::from_parts(millis, u128::from(mix(number + 1)) << 16).to_string()
}

/// The first command of a todo.
pub(crate) fn create(number: u64) -> Command {
    Command::Create { title: format!("Buy milk, bread and {number:09} eggs"), note: None }
}

/// The second command of a todo, which gives one event, too.
pub(crate) fn change(number: u64) -> Command {
    Command::Change { title: Some(format!("Buy soap, bread and {number:09} eggs")), completed: None, note: None }
}
