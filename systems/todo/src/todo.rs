//! What a todo is: what has happened to it, and what may happen next.

use nagaya_events::{Context, Decide, Evolve};
use serde::{Deserialize, Serialize};

/// A todo, as its events make it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    title: String,
    completed: bool,
    note: Option<Note>,
    /// Nothing has happened to it yet, it is there, or it has been deleted.
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    #[default]
    Unborn,
    There,
    Deleted,
}

/// What can happen to a todo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "eventType", content = "data")]
pub enum TodoEvent {
    /// Somebody wants something done.
    TodoCreated {
        /// What.
        title: String,
    },
    /// It is called something else.
    TodoTitleChanged {
        /// What it is called now.
        title: String,
    },
    /// It is done.
    TodoCompleted {},
    /// It is not done after all.
    TodoReopened {},
    /// There is something else to say about it, or no more: in the event itself if it is short, as an object otherwise.
    TodoNoteChanged {
        /// A short one.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        /// Where a long one is.
        #[serde(skip_serializing_if = "Option::is_none")]
        object: Option<String>,
        /// Its bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// It is of no interest any more.
    TodoDeleted {},
}

/// What else there is to say about a todo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// A short text.
    Text(String),
    /// A long one.
    Object {
        /// Where it is.
        object: String,
        /// Its bytes.
        size: u64,
    },
}

impl TodoEvent {
    /// A note has changed; `None`: it is gone.
    pub fn note(note: Option<Note>) -> Self {
        let (note, object, size) = match note {
            None => (None, None, None),
            Some(Note::Text(text)) => (Some(text), None, None),
            Some(Note::Object { object, size }) => (None, Some(object), Some(size)),
        };
        TodoEvent::TodoNoteChanged { note, object, size }
    }
}

/// What can be wanted of a todo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// That it is there.
    Create {
        /// What is to be done.
        title: String,
        /// What else there is to say.
        note: Option<Note>,
    },
    /// That it is otherwise.
    Change {
        /// What it is to be called.
        title: Option<String>,
        /// Whether it is to be done.
        completed: Option<bool>,
        /// What else is to be said about it; `Some(None)`: nothing any more.
        note: Option<Option<Note>>,
    },
    /// That it is gone.
    Delete,
}

/// Why a command is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such todo, or no more.
    NotThere,
    /// There is one already.
    There,
}

/// A todo as the one who asked sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// What is to be done.
    pub title: String,
    /// Whether it is.
    pub completed: bool,
}

impl Todo {
    /// What else there is to say about it, if it is there at all.
    pub fn note(&self) -> Option<Option<&Note>> {
        (self.stage == Stage::There).then_some(self.note.as_ref())
    }

    /// Whether it has been deleted.
    pub fn is_deleted(&self) -> bool {
        self.stage == Stage::Deleted
    }
}

impl Evolve for Todo {
    type Event = TodoEvent;

    fn evolve(&mut self, event: &TodoEvent) {
        match event {
            TodoEvent::TodoCreated { title } => {
                *self = Todo { title: title.clone(), completed: false, note: None, stage: Stage::There };
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
    type Reply = View;
    type Refusal = Refusal;

    fn decide(&self, command: &Command, _: &Context) -> Result<Vec<TodoEvent>, Refusal> {
        match (command, self.stage) {
            (Command::Create { title, note }, Stage::Unborn) => {
                let noted = note.clone().map(|note| TodoEvent::note(Some(note)));
                Ok([TodoEvent::TodoCreated { title: title.clone() }].into_iter().chain(noted).collect())
            }
            (Command::Create { .. }, Stage::There | Stage::Deleted) => Err(Refusal::There),
            (_, Stage::Unborn | Stage::Deleted) => Err(Refusal::NotThere),
            (Command::Change { title, completed, note }, Stage::There) => {
                // One change is one event, and what is as wanted already is no change.
                let renamed = title.as_ref().filter(|title| **title != self.title);
                let renamed = renamed.map(|title| TodoEvent::TodoTitleChanged { title: title.clone() });
                let moved = completed.filter(|completed| *completed != self.completed);
                let moved = moved.map(|completed| match completed {
                    true => TodoEvent::TodoCompleted {},
                    false => TodoEvent::TodoReopened {},
                });
                let noted = note.clone().filter(|note| *note != self.note).map(TodoEvent::note);
                Ok(renamed.into_iter().chain(moved).chain(noted).collect())
            }
            (Command::Delete, Stage::There) => Ok(vec![TodoEvent::TodoDeleted {}]),
        }
    }

    fn reply(&self, _: &Command) -> View {
        View { title: self.title.clone(), completed: self.completed }
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
    fn a_change_is_an_event_each_and_what_is_as_wanted_is_none() {
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
    fn what_is_not_there_is_not_changed_and_what_is_there_not_made_again() {
        let gone = || given::<Todo>([created("Buy milk"), TodoEvent::TodoDeleted {}]);
        let new = || Command::Create { title: "x".to_owned(), note: None };
        assert_eq!(gone().when(&change(None, Some(true))).refused(), Refusal::NotThere);
        assert_eq!(gone().when(&Command::Delete).refused(), Refusal::NotThere);
        assert_eq!(gone().when(&new()).refused(), Refusal::There);
        assert_eq!(given::<Todo>([]).when(&Command::Delete).refused(), Refusal::NotThere);
        assert_eq!(given::<Todo>([created("x")]).when(&new()).refused(), Refusal::There);
    }
}
