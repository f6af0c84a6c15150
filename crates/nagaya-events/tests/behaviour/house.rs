//! A design on a store in memory, a clock that tests move, and hands that reach around the walls.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_design::{Design, check};
use nagaya_embedded::{Embedded, Options as StoreOptions};
use nagaya_events::{
    Context, Events, Executed, Failure, Inspector, Options, Processor, ProcessorOptions, Recorded, Request,
    follow_generations,
};
use nagaya_store::{Clock, Item, Key, Scan, Store, Write};
use nagaya_tenancy::{Ids, Nagaya, Principal, Settings, Tenant};

use crate::todo::{Command, List, Todo};

/// 2025-08-30T12:34:56Z.
pub(crate) const START: i64 = 1_756_557_296_000;
pub(crate) const EVENTS: &str = "EventsTable";
pub(crate) const LIST: &str = "TodosProjection";

pub(crate) fn design() -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/todo/design/todo.toml");
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
}

/// The time, which only tests move.
#[derive(Debug, Clone)]
pub(crate) struct Time(Arc<AtomicI64>);

impl Time {
    pub(crate) fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::new(move || now.load(Ordering::SeqCst))
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_millis()).expect("not that long"), Ordering::SeqCst);
    }

    pub(crate) fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The id of the n-th todo.
pub(crate) fn id(n: u64) -> String {
    format!("{n:0>26}")
}

/// A process on a store.
pub(crate) struct House {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Arc<Embedded>,
    pub(crate) nagaya: Nagaya,
    pub(crate) events: Events<Todo>,
    pub(crate) list: Arc<List>,
    pub(crate) time: Time,
}

impl House {
    /// On a store of its own, with its tables.
    pub(crate) async fn new() -> Self {
        House::keeping(Duration::from_secs(7 * 24 * 3_600)).await
    }

    /// The same, on a store that keeps changes for so long.
    pub(crate) async fn keeping(retention: Duration) -> Self {
        let time = Time(Arc::new(AtomicI64::new(START)));
        let options = StoreOptions { clock: time.clock(), sweep_every: None, retention, ..StoreOptions::default() };
        let engine = Arc::new(Embedded::memory(options).expect("memory"));
        let store: Arc<dyn Store> = Arc::clone(&engine) as Arc<dyn Store>;
        let house = House::on(store, engine, time);
        house.nagaya.ensure().await.expect("tables");
        house
    }

    fn on(store: Arc<dyn Store>, engine: Arc<Embedded>, time: Time) -> Self {
        let settings = Settings { clock: time.clock(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design(), Arc::clone(&store), settings);
        let events = Events::of(&design(), "todo", Options::default()).expect("an aggregate");
        House { store, engine, nagaya, events, list: List::new(), time }
    }

    /// Another process on the same store, which has seen nothing of what this one did.
    pub(crate) fn again(&self) -> Self {
        self.through(Arc::clone(&self.engine) as Arc<dyn Store>)
    }

    /// Another process that reaches the same store through something.
    pub(crate) fn through(&self, store: Arc<dyn Store>) -> Self {
        House::on(store, Arc::clone(&self.engine), self.time.clone())
    }

    /// Events that are kept as snapshots so often.
    pub(crate) fn with_snapshots(&self, every: u64) -> Events<Todo> {
        let options = Options { snapshot_every: every, ..Options::default() };
        Events::of(&design(), "todo", options).expect("an aggregate")
    }

    pub(crate) fn family(&self, name: &str) -> Tenant {
        self.nagaya.tenant(&Principal::new(name, "u-1")).expect("a family")
    }

    pub(crate) fn context(&self) -> Context {
        Context {
            now: self.time.now(),
            user: "u-1".to_owned(),
            correlation: "c-1".to_owned(),
            causation: "k-1".to_owned(),
            ids: Ids::random(),
        }
    }

    pub(crate) fn request(&self) -> Request<'static> {
        Request { context: self.context(), expected: None, once: None }
    }

    /// A processor of the list that gives up soon.
    pub(crate) fn processor(&self) -> Processor {
        let options = ProcessorOptions { attempts: 2, backoff: Duration::ZERO, ..ProcessorOptions::default() };
        Processor::new(&self.nagaya, Arc::clone(&self.list) as _, options).expect("a projection")
    }

    pub(crate) fn inspector(&self) -> Inspector {
        Inspector::new(&self.nagaya, "todo").expect("an aggregate")
    }

    /// Carries out a command for family `f1`, whatever comes of it.
    pub(crate) async fn ask(&self, n: u64, command: Command) -> Result<Executed<Todo, String>, Failure<&'static str>> {
        // A moment later than whatever was before.
        self.time.pass(Duration::from_millis(1));
        self.events.execute(&self.family("f1"), &id(n), &command, &self.request()).await
    }

    /// Carries out commands on a todo of family `f1`.
    pub(crate) async fn tell(&self, n: u64, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            self.ask(n, command).await.expect("nothing is in the way");
        }
    }

    /// All events of a todo of family `f1`.
    pub(crate) async fn recorded(&self, n: u64) -> Vec<Recorded> {
        self.inspector().events(&self.family("f1"), &id(n)).await.expect("events")
    }

    /// Lets the processor work until there is nothing left to do.
    pub(crate) async fn settle(&self) {
        let processor = self.processor();
        for _ in 0..100 {
            if processor.step().await.expect("a step").events == 0 {
                return;
            }
        }
        panic!("it does not come to an end");
    }

    /// The list as readers see it: one line for each todo, in order.
    pub(crate) async fn listed(&self) -> Vec<String> {
        follow_generations(&self.nagaya).await.expect("generations");
        let generation = self.nagaya.generation_of("todos");
        let table = if generation > 1 { format!("{LIST}-g{generation}") } else { LIST.to_owned() };
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

    /// The items of a table, without what the house keeps for itself.
    pub(crate) async fn stored(&self, table: &str) -> Vec<Item> {
        let (mut items, mut scan) = (Vec::new(), Scan::table(table));
        loop {
            let page = self.engine.scan(scan).await.expect("a page");
            items.extend(page.items);
            match page.next {
                Some(next) => scan = Scan { after: Some(next), ..Scan::table(table) },
                None => break,
            }
        }
        let own = |item: &Item| {
            ["PK", "SK"]
                .iter()
                .any(|name| item.get(name).and_then(|value| value.as_str()).is_some_and(|text| text.starts_with('%')))
        };
        items.retain(|item| !own(item));
        items
    }

    /// The stored item of an event of family `f1`.
    pub(crate) async fn event_item(&self, event: &Recorded) -> (Key, Item) {
        let key = Key::new(format!("TODO#{}", event.aggregate), format!("EVENT#{}", event.id));
        let item = self.engine.get(EVENTS, &key).await.expect("the table is there").expect("the event is there");
        (key, item)
    }

    /// Writes around the walls.
    pub(crate) async fn meddle(&self, write: Write) {
        self.engine.write(write.into()).await.expect("the store takes it");
    }

    /// Everything is as it should be: no chain is broken, and the list is what its events give.
    pub(crate) async fn is_whole(&self, about: &str) {
        let operator = self.nagaya.operator("a test", &Principal::new("", "tester"));
        let inspector = self.inspector();
        let follower = operator.follow(inspector.entity()).await.expect("followed");
        let chains = inspector.verify_all(&follower, &|_| {}).await.expect("checked");
        assert_eq!(chains.broken, [], "{about}");
        let verified = self.processor().verify(None).await.expect("checked");
        assert!(verified.holds(), "{about}: {verified:#?}");
        assert_eq!(self.nagaya.breaches(), 0, "{about}");
    }
}

pub(crate) fn create(title: &str) -> Command {
    Command::Create(title.to_owned())
}

pub(crate) fn rename(title: &str) -> Command {
    Command::Rename(title.to_owned())
}
