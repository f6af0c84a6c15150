//! The domain of these tests, on the todo design.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nagaya_events::{Context, Decide, Error, ErrorKind, Evolve, Item, Projection, RawEvent, RecordedEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// The state of a todo after its events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Todo {
    pub(crate) title: String,
    pub(crate) completed: bool,
    pub(crate) there: Option<bool>,
    /// How many events were applied: a state that skips or repeats one has another number.
    pub(crate) applied: u64,
}

#[expect(clippy::enum_variant_names, reason = "they are called what the design calls them")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "eventType", content = "data")]
pub(crate) enum TodoEvent {
    TodoCreated { title: String },
    TodoTitleChanged { title: String },
    TodoCompleted {},
    TodoReopened {},
    TodoDeleted {},
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Create(String),
    Rename(String),
    /// A new title, also if it is the same: one event each time.
    Number(u64),
    /// So many events in one write.
    Many(u64),
    Complete(bool),
    Delete,
}

impl Evolve for Todo {
    type Event = TodoEvent;

    fn evolve(&mut self, event: &TodoEvent) {
        self.applied += 1;
        match event {
            TodoEvent::TodoCreated { title } => {
                (self.title, self.completed, self.there) = (title.clone(), false, Some(true));
            }
            TodoEvent::TodoTitleChanged { title } => self.title.clone_from(title),
            TodoEvent::TodoCompleted {} => self.completed = true,
            TodoEvent::TodoReopened {} => self.completed = false,
            TodoEvent::TodoDeleted {} => self.there = Some(false),
        }
    }
}

impl Decide<Command> for Todo {
    type Reply = String;
    type Refusal = &'static str;

    fn decide(&self, command: &Command, _: &Context) -> Result<Vec<TodoEvent>, &'static str> {
        match (command, self.there) {
            (Command::Create(title), None) => Ok(vec![TodoEvent::TodoCreated { title: title.clone() }]),
            (Command::Create(_), Some(_)) => Err("there"),
            (_, None | Some(false)) => Err("not there"),
            (Command::Rename(title), _) if *title == self.title => Ok(vec![]),
            (Command::Rename(title), _) => Ok(vec![TodoEvent::TodoTitleChanged { title: title.clone() }]),
            (Command::Number(number), _) => Ok(vec![TodoEvent::TodoTitleChanged { title: number.to_string() }]),
            (Command::Many(many), _) => {
                let title = |number: u64| format!("{} {}", self.applied + number, "x".repeat(450));
                Ok((1..=*many).map(|number| TodoEvent::TodoTitleChanged { title: title(number) }).collect())
            }
            (Command::Complete(wanted), _) if *wanted == self.completed => Ok(vec![]),
            (Command::Complete(true), _) => Ok(vec![TodoEvent::TodoCompleted {}]),
            (Command::Complete(false), _) => Ok(vec![TodoEvent::TodoReopened {}]),
            (Command::Delete, _) => Ok(vec![TodoEvent::TodoDeleted {}]),
        }
    }

    fn reply(&self, _: &Command) -> String {
        self.title.clone()
    }
}

/// The same todos in a later program, whose events have other fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaterTodo {
    pub(crate) name: String,
}

#[expect(clippy::enum_variant_names, reason = "they are called what the design calls them")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "eventType", content = "data")]
pub(crate) enum LaterEvent {
    TodoCreated { name: String },
    TodoTitleChanged { name: String },
    TodoCompleted {},
    TodoReopened {},
    TodoDeleted {},
}

impl Evolve for LaterTodo {
    type Event = LaterEvent;

    fn evolve(&mut self, event: &LaterEvent) {
        if let LaterEvent::TodoCreated { name } | LaterEvent::TodoTitleChanged { name } = event {
            self.name.clone_from(name);
        }
    }

    fn event_version(event_type: &str) -> u32 {
        if matches!(event_type, "TodoCreated" | "TodoTitleChanged") { 3 } else { 1 }
    }

    fn upcast(mut event: RawEvent) -> RawEvent {
        match event.version {
            1 => {
                let title = event.data.remove("title").unwrap_or_default();
                event.data.insert("label".to_owned(), title);
            }
            _ => {
                let label = event.data.remove("label").unwrap_or_default();
                event.data.insert("name".to_owned(), label);
            }
        }
        RawEvent { version: event.version + 1, ..event }
    }
}

/// The list of todos. Titles that begin with `poison` cannot be applied before it is fixed.
#[derive(Default)]
pub(crate) struct List {
    pub(crate) fixed: AtomicBool,
}

impl List {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn fix(&self) {
        self.fixed.store(true, Ordering::SeqCst);
    }
}

impl Projection for List {
    fn aggregate_name(&self) -> &str {
        "todo"
    }

    fn entity(&self) -> &str {
        "todo"
    }

    fn apply(&self, before: Option<Map<String, Json>>, event: &RecordedEvent) -> Result<Item, Error> {
        let mut item = before.unwrap_or_default();
        let mut set = |name: &str, value: Json| drop(item.insert(name.to_owned(), value));
        match event.event::<Todo>()? {
            TodoEvent::TodoCreated { title } | TodoEvent::TodoTitleChanged { title }
                if title.starts_with("poison") && !self.fixed.load(Ordering::SeqCst) =>
            {
                // The ways to fail: an error, a panic, an item that the design does not allow.
                match title.as_str() {
                    "poison: panic" => panic!("the list cannot show {title}"),
                    "poison: unfit" => set("title", "x".repeat(501).into()),
                    _ => {
                        let why = "the list cannot show it".to_owned();
                        return Err(ErrorKind::UnknownEvent { event: event.id.clone(), why }.into());
                    }
                }
            }
            TodoEvent::TodoCreated { title } => {
                set("todoId", event.aggregate.as_str().into());
                set("title", title.into());
                set("completed", false.into());
            }
            TodoEvent::TodoTitleChanged { title } => set("title", title.into()),
            TodoEvent::TodoCompleted {} => set("completed", true.into()),
            TodoEvent::TodoReopened {} => set("completed", false.into()),
            TodoEvent::TodoDeleted {} => return Ok(None),
        }
        set("version", event.version.into());
        set("lastEventId", event.id.as_str().into());
        set("updatedAt", event.metadata_text("timestamp").unwrap_or_default().into());
        Ok(Some(item))
    }
}
