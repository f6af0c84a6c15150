//! The list of todos: what their events come to.

use nagaya_events::{Error, Item, Projection, Recorded};
use serde_json::{Map, Value as Json};

use crate::{AGGREGATE, Todo, TodoEvent};

/// The list of todos.
pub(crate) struct List;

impl Projection for List {
    fn aggregate(&self) -> &str {
        AGGREGATE
    }

    fn entity(&self) -> &str {
        "todo"
    }

    fn apply(&self, before: Option<Map<String, Json>>, event: &Recorded) -> Result<Item, Error> {
        let mut item = before.unwrap_or_default();
        // What is null is not there.
        let mut set = |name: &str, value: Json| match value {
            Json::Null => drop(item.remove(name)),
            value => drop(item.insert(name.to_owned(), value)),
        };
        match event.event::<Todo>()? {
            TodoEvent::TodoCreated { title } => {
                set("todoId", event.aggregate.as_str().into());
                set("title", title.into());
                set("completed", false.into());
            }
            TodoEvent::TodoTitleChanged { title } => set("title", title.into()),
            TodoEvent::TodoCompleted {} => set("completed", true.into()),
            TodoEvent::TodoReopened {} => set("completed", false.into()),
            TodoEvent::TodoNoteChanged { note, object, size } => {
                set("note", note.into());
                set("noteObject", object.into());
                set("noteSize", size.into());
            }
            TodoEvent::TodoDeleted {} => return Ok(None),
        }
        set("version", event.version.into());
        set("lastEventId", event.id.as_str().into());
        set("updatedAt", event.about("timestamp").unwrap_or_default().into());
        Ok(Some(item))
    }
}
