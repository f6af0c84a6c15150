//! A todo: its state, its events and its commands.

use nagaya_events::{Context, Decide, Evolve};
use serde::{Deserialize, Serialize};

/// The state of a todo after its events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    title: String,
    completed: bool,
    note: Option<Note>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// It has no events.
    #[default]
    #[serde(rename = "Unborn")]
    New,
    #[serde(rename = "There")]
    Existing,
    Deleted,
}

/// An event of a todo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "eventType", content = "data")]
pub enum TodoEvent {
    /// It was created.
    TodoCreated {
        /// What is to be done.
        title: String,
    },
    /// It was renamed.
    TodoTitleChanged {
        /// The new title.
        title: String,
    },
    /// It was completed.
    TodoCompleted {},
    /// It was reopened.
    TodoReopened {},
    /// Its note was set or removed. A short note is in the event, a long one is an object.
    TodoNoteChanged {
        /// A short note.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// The path of a long note.
        #[serde(skip_serializing_if = "Option::is_none")]
        object: Option<String>,
        /// The size of a long note, in bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// It was deleted.
    TodoDeleted {},
}

/// The note of a todo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// A short text.
    Text(String),
    /// A long text in object storage.
    Object {
        /// Its path.
        object: String,
        /// Its size in bytes.
        size: u64,
    },
}

impl TodoEvent {
    /// The event of a new note; `None`: the note is removed.
    pub fn note(note: Option<Note>) -> Self {
        let (note, object, size) = match note {
            None => (None, None, None),
            Some(Note::Text(text)) => (Some(text), None, None),
            Some(Note::Object { object, size }) => (None, Some(object), Some(size)),
        };
        TodoEvent::TodoNoteChanged { note, object, size }
    }
}

/// A command on a todo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Creates it.
    Create {
        /// What is to be done.
        title: String,
        /// Its note.
        note: Option<Note>,
    },
    /// Changes it; `None` leaves a part as it is.
    Change {
        /// The new title.
        title: Option<String>,
        /// Whether it is done.
        completed: Option<bool>,
        /// The new note; `Some(None)` removes it.
        note: Option<Option<Note>>,
    },
    /// Deletes it.
    Delete,
}

/// Why a command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The todo does not exist, or was deleted.
    NotFound,
    /// The todo exists already, or was deleted.
    AlreadyExists,
}

/// The part of a todo that a command answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoView {
    /// What is to be done.
    pub title: String,
    /// Whether it is done.
    pub completed: bool,
    /// Its note.
    pub note: Option<Note>,
}

impl Todo {
    /// Its note; `None`: the todo does not exist.
    pub fn note(&self) -> Option<Option<&Note>> {
        (self.stage == Stage::Existing).then_some(self.note.as_ref())
    }

    /// Whether it was deleted.
    pub fn is_deleted(&self) -> bool {
        self.stage == Stage::Deleted
    }
}

impl Evolve for Todo {
    type Event = TodoEvent;

    fn evolve(&mut self, event: &TodoEvent) {
        match event {
            TodoEvent::TodoCreated { title } => {
                *self = Todo { title: title.clone(), completed: false, note: None, stage: Stage::Existing };
            }
            TodoEvent::TodoTitleChanged { title } => self.title.clone_from(title),
            TodoEvent::TodoCompleted {} => self.completed = true,
            TodoEvent::TodoReopened {} => self.completed = false,
            TodoEvent::TodoNoteChanged { note, object, size } => {
                let object = object.clone().map(|object| Note::Object { object, size: size.unwrap_or_default() });
                self.note = note.clone().map(Note::Text).or(object);
            }
            TodoEvent::TodoDeleted {} => self.stage = Stage::Deleted,
        }
    }
}

impl Decide<Command> for Todo {
    type Reply = TodoView;
    type Refusal = Refusal;

    fn decide(&self, command: &Command, _: &Context) -> Result<Vec<TodoEvent>, Refusal> {
        match (command, self.stage) {
            (Command::Create { title, note }, Stage::New) => {
                let noted = note.clone().map(|note| TodoEvent::note(Some(note)));
                Ok([TodoEvent::TodoCreated { title: title.clone() }].into_iter().chain(noted).collect())
            }
            (Command::Create { .. }, Stage::Existing | Stage::Deleted) => Err(Refusal::AlreadyExists),
            (_, Stage::New | Stage::Deleted) => Err(Refusal::NotFound),
            (Command::Change { title, completed, note }, Stage::Existing) => {
                // Each change is an event. A value that stays the same is no change.
                let renamed = title.as_ref().filter(|title| **title != self.title);
                let renamed = renamed.map(|title| TodoEvent::TodoTitleChanged { title: title.clone() });
                let toggled = completed.filter(|completed| *completed != self.completed);
                let toggled = toggled.map(|completed| match completed {
                    true => TodoEvent::TodoCompleted {},
                    false => TodoEvent::TodoReopened {},
                });
                let noted = note.clone().filter(|note| *note != self.note).map(TodoEvent::note);
                Ok(renamed.into_iter().chain(toggled).chain(noted).collect())
            }
            (Command::Delete, Stage::Existing) => Ok(vec![TodoEvent::TodoDeleted {}]),
        }
    }

    fn reply(&self, _: &Command) -> TodoView {
        TodoView { title: self.title.clone(), completed: self.completed, note: self.note.clone() }
    }
}

#[cfg(test)]
mod tests {
    use nagaya_events::testing::given;

    use super::*;

    fn created(title: &str) -> TodoEvent {
        TodoEvent::TodoCreated { title: title.to_owned() }
    }

    fn change(title: Option<&str>, completed: Option<bool>) -> Command {
        Command::Change { title: title.map(str::to_owned), completed, note: None }
    }

    /// Proves the events part of T1.
    #[test]
    fn each_changed_value_is_an_event_and_an_equal_value_is_not() {
        let milk = || given::<Todo>([created("Buy milk")]);
        let bread = TodoEvent::TodoTitleChanged { title: "Buy bread".to_owned() };
        milk().when(&change(Some("Buy bread"), Some(true))).then([bread, TodoEvent::TodoCompleted {}]);
        milk().when(&change(Some("Buy milk"), Some(false))).then([]);
        milk().when(&change(None, None)).then([]);
        let done = given::<Todo>([created("Buy milk"), TodoEvent::TodoCompleted {}]);
        done.when(&change(None, Some(false))).then([TodoEvent::TodoReopened {}]);
        given::<Todo>([]).when(&Command::Create { title: "x".to_owned(), note: None }).then([created("x")]);
    }

    #[test]
    fn a_missing_todo_is_not_changed_and_an_existing_one_not_created_again() {
        let gone = || given::<Todo>([created("Buy milk"), TodoEvent::TodoDeleted {}]);
        let new = || Command::Create { title: "x".to_owned(), note: None };
        assert_eq!(gone().when(&change(None, Some(true))).refused(), Refusal::NotFound);
        assert_eq!(gone().when(&Command::Delete).refused(), Refusal::NotFound);
        assert_eq!(gone().when(&new()).refused(), Refusal::AlreadyExists);
        assert_eq!(given::<Todo>([]).when(&Command::Delete).refused(), Refusal::NotFound);
        assert_eq!(given::<Todo>([created("x")]).when(&new()).refused(), Refusal::AlreadyExists);
    }
}
