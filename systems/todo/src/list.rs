//! The list of todos, a projection of their events.

use nagaya_events::{Error, ErrorKind, Item, Projection, RecordedEvent};
use nagaya_tenancy::{TypeMismatch, read_fields};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::{AGGREGATE, Todo, TodoEvent};

/// The list of todos.
pub(crate) struct List;

/// A todo in the list: the entity `todo` of the design, without the tenant.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedTodo {
    todo_id: String,
    title: String,
    completed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note_object: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note_size: Option<u64>,
    version: u64,
    last_event_id: String,
    updated_at: String,
}

impl Projection for List {
    fn aggregate_name(&self) -> &str {
        AGGREGATE
    }

    fn entity(&self) -> &str {
        "todo"
    }

    fn apply(&self, before: Option<Map<String, Json>>, event: &RecordedEvent) -> Result<Item, Error> {
        let damaged = |why: String| Error::from(ErrorKind::Damaged { aggregate: event.aggregate.clone(), why });
        let unreadable = |error: TypeMismatch| damaged(format!("its item in the list cannot be read: {error}"));
        let mut todo: ListedTodo = read_fields(&before.unwrap_or_default()).map_err(unreadable)?;
        match event.event::<Todo>()? {
            TodoEvent::TodoCreated { title } => (todo.todo_id, todo.title) = (event.aggregate.clone(), title),
            TodoEvent::TodoTitleChanged { title } => todo.title = title,
            TodoEvent::TodoCompleted {} => todo.completed = true,
            TodoEvent::TodoReopened {} => todo.completed = false,
            TodoEvent::TodoNoteChanged { note, object, size } => {
                (todo.note, todo.note_object, todo.note_size) = (note, object, size);
            }
            TodoEvent::TodoDeleted {} => return Ok(None),
        }
        todo.version = event.version;
        todo.last_event_id.clone_from(&event.id);
        todo.updated_at = event.metadata_text("timestamp").unwrap_or_default().to_owned();
        let Json::Object(item) = serde_json::to_value(todo).map_err(|error| damaged(error.to_string()))? else {
            return Ok(None);
        };
        Ok(Some(item))
    }
}
