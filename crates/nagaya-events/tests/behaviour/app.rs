//! The todo app on a store in memory, with direct access to the store.

use std::{sync::Arc, time::Duration};

use nagaya_design::Design;
use nagaya_embedded::{EmbeddedStore, Options as StoreOptions};
use nagaya_events::{
    CommandRequest, Context, DeadLetter, Error, Events, EventsOptions, Executed, Failure, Inspector, Processor,
    ProcessorOptions, RecordedEvent, UnparkOutcome, refresh_generations,
};
use nagaya_store::{Item, Key, Scan, Store, Write};
use nagaya_tenancy::{IdGenerator, Nagaya, Operator, Principal, Settings, Tenant};
use nagaya_testing::{ManualClock, system_design};

use crate::todo::{Command, List, Todo};

/// 2025-08-30T12:34:56Z.
pub(crate) const START_MILLIS: i64 = 1_756_557_296_000;
pub(crate) const EVENTS_TABLE: &str = "EventsTable";
pub(crate) const LIST_TABLE: &str = "TodosProjection";

pub(crate) fn design() -> Design {
    system_design("todo/todo")
}

/// The id of the n-th todo.
pub(crate) fn id(n: u64) -> String {
    format!("{n:0>26}")
}

/// A process of the app on a store.
pub(crate) struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Arc<EmbeddedStore>,
    pub(crate) nagaya: Nagaya,
    pub(crate) events: Events<Todo>,
    pub(crate) list: Arc<List>,
    pub(crate) clock: ManualClock,
}

impl App {
    /// On a store of its own, with its tables.
    pub(crate) async fn new() -> Self {
        App::with_retention(Duration::from_secs(7 * 24 * 3_600)).await
    }

    /// On a store that keeps changes for so long.
    pub(crate) async fn with_retention(retention: Duration) -> Self {
        let clock = ManualClock::at(START_MILLIS);
        let options = StoreOptions { clock: clock.clock(), sweep_interval: None, retention, ..StoreOptions::default() };
        let engine = Arc::new(EmbeddedStore::in_memory(options).expect("memory"));
        let store: Arc<dyn Store> = Arc::clone(&engine) as Arc<dyn Store>;
        let app = App::on(store, engine, clock);
        app.nagaya.ensure_tables().await.expect("tables");
        app
    }

    fn on(store: Arc<dyn Store>, engine: Arc<EmbeddedStore>, clock: ManualClock) -> Self {
        let settings = Settings { clock: clock.clock(), audit_keys: [7; 32].into(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design(), Arc::clone(&store), settings);
        let events = Events::new(&design(), "todo", EventsOptions::default()).expect("an aggregate");
        App { store, engine, nagaya, events, list: List::new(), clock }
    }

    /// Another process on the same store, without what this one has cached.
    pub(crate) fn restarted(&self) -> Self {
        self.on_store(Arc::clone(&self.engine) as Arc<dyn Store>)
    }

    /// Another process that uses the same data through another store.
    pub(crate) fn on_store(&self, store: Arc<dyn Store>) -> Self {
        App::on(store, Arc::clone(&self.engine), self.clock.clone())
    }

    /// The events, with a snapshot after so many.
    pub(crate) fn with_snapshots(&self, every: u64) -> Events<Todo> {
        let options = EventsOptions { snapshot_every: every, ..EventsOptions::default() };
        Events::new(&design(), "todo", options).expect("an aggregate")
    }

    pub(crate) fn family(&self, name: &str) -> Tenant {
        self.nagaya.tenant(&Principal::new(name, "u-1")).expect("a family")
    }

    pub(crate) fn context(&self) -> Context {
        Context {
            now: self.clock.millis(),
            user: "u-1".to_owned(),
            correlation: "c-1".to_owned(),
            causation: "k-1".to_owned(),
            ids: IdGenerator::random(),
        }
    }

    pub(crate) fn request(&self) -> CommandRequest<'static> {
        CommandRequest { context: self.context(), expected: None, idempotency: None }
    }

    /// A processor of the list that tries an event twice.
    pub(crate) fn processor(&self) -> Processor {
        self.processor_with(ProcessorOptions { attempts: 2, backoff: Duration::ZERO, ..ProcessorOptions::default() })
    }

    pub(crate) fn processor_with(&self, options: ProcessorOptions) -> Processor {
        Processor::new(&self.nagaya, Arc::clone(&self.list) as _, options).expect("a projection")
    }

    pub(crate) fn inspector(&self) -> Inspector {
        Inspector::new(&self.nagaya, "todo").expect("an aggregate")
    }

    /// Drops the event of a dead letter, as operator `olga`.
    pub(crate) async fn drop_event(&self, letter: &DeadLetter) -> Result<UnparkOutcome, Error> {
        self.processor().drop_event(letter, &self.operator()).await
    }

    pub(crate) fn operator(&self) -> Operator {
        self.nagaya.operator("ticket 4711: never needed", &Principal::new("", "olga"))
    }

    /// Executes a command for family `f1`.
    pub(crate) async fn execute(
        &self,
        n: u64,
        command: Command,
    ) -> Result<Executed<Todo, String>, Failure<&'static str>> {
        // A moment later than whatever was before.
        self.clock.advance(Duration::from_millis(1));
        self.events.execute(&self.family("f1"), &id(n), &command, &self.request()).await
    }

    /// Executes commands on a todo of family `f1`; all succeed.
    pub(crate) async fn execute_all(&self, n: u64, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            self.execute(n, command).await.expect("nothing is in the way");
        }
    }

    /// All events of a todo of family `f1`.
    pub(crate) async fn recorded(&self, n: u64) -> Vec<RecordedEvent> {
        self.inspector().events(&self.family("f1"), &id(n)).await.expect("events")
    }

    /// Projects until there is nothing left to do, with all attempts at events that fail.
    pub(crate) async fn project_all(&self) {
        let processor = self.processor();
        for _ in 0..100 {
            let events = processor.step().await.expect("a step").events;
            if events + processor.retry_due().await.expect("further attempts").tried == 0 {
                return;
            }
        }
        panic!("the projection does not catch up");
    }

    /// The list as readers see it: one line for each todo, in order.
    pub(crate) async fn listed(&self) -> Vec<String> {
        refresh_generations(&self.nagaya).await.expect("generations");
        let generation = self.nagaya.generation_of("todos");
        let table = if generation > 1 { format!("{LIST_TABLE}-g{generation}") } else { LIST_TABLE.to_owned() };
        let text = |item: &Item, name: &str| item.get(name).and_then(|v| v.as_str()).unwrap_or("-").to_owned();
        let line = |item: &Item| {
            let version = item.get("version").and_then(|value| value.as_number()).map(|number| number.to_string());
            let n = text(item, "todoId").trim_start_matches('0').to_owned();
            let active = if item.get("GSI1PK").is_some() { " active" } else { "" };
            let family = text(item, "familyId");
            format!("{family}/{n} {} v{}{active}", text(item, "title"), version.unwrap_or_default())
        };
        let mut lines: Vec<_> = self.stored(&table).await.iter().map(line).collect();
        lines.sort();
        lines
    }

    /// The items of a table, without the layer's own.
    pub(crate) async fn stored(&self, table: &str) -> Vec<Item> {
        let mut items = self.all_items(table).await;
        let own = |item: &Item| {
            ["PK", "SK"]
                .iter()
                .any(|name| item.get(name).and_then(|value| value.as_str()).is_some_and(|text| text.starts_with('%')))
        };
        items.retain(|item| !own(item));
        items
    }

    /// The items of a table.
    pub(crate) async fn all_items(&self, table: &str) -> Vec<Item> {
        let (mut items, mut scan) = (Vec::new(), Scan::table(table));
        loop {
            let page = self.engine.scan(scan).await.expect("a page");
            items.extend(page.items);
            match page.next {
                Some(next) => scan = Scan { after: Some(next), ..Scan::table(table) },
                None => return items,
            }
        }
    }

    /// The stored item of an event of family `f1`.
    pub(crate) async fn event_item(&self, event: &RecordedEvent) -> (Key, Item) {
        let key = Key::new(format!("TODO#{}", event.aggregate), format!("EVENT#{}", event.id));
        let item = self.engine.get(EVENTS_TABLE, &key).await.expect("the table is there").expect("the event is there");
        (key, item)
    }

    /// Writes to the store without the data layer.
    pub(crate) async fn write_directly(&self, write: Write) {
        self.engine.write(write.into()).await.expect("the store takes it");
    }

    /// No chain is broken, and the list is what its events give.
    pub(crate) async fn assert_consistent(&self, about: &str) {
        let operator = self.nagaya.operator("a test of it", &Principal::new("", "tester"));
        let inspector = self.inspector();
        let follower = operator.change_source(inspector.entity()).await.expect("followed");
        let chains = inspector.verify_all(&follower, &|_| {}).await.expect("checked");
        assert_eq!(chains.broken, [], "{about}");
        let verified = self.processor().verify(None).await.expect("checked");
        assert!(verified.is_consistent(), "{about}: {verified:#?}");
        assert_eq!(self.nagaya.breaches(), 0, "{about}");
    }
}

pub(crate) fn create(title: &str) -> Command {
    Command::Create(title.to_owned())
}

pub(crate) fn rename(title: &str) -> Command {
    Command::Rename(title.to_owned())
}
