//! `GET` of a todo's note.

use nagaya_server::{Answer, Call, Problem};
use serde_json::{Value as Json, json};

use super::{Todos, create::wrong, errors::problem};
use crate::{notes::LONGEST, todo::Note};

pub(super) const SUMMARY: &str = "Reads the note of a todo, however long it is.";

/// Reads a note, from its todo or from where long ones are.
pub(super) async fn read(todos: &Todos, call: &Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    // From the events: whoever has just written a note reads it.
    let todo = todos.events.load(&tenant, call.parameter("todoId").unwrap_or_default()).await.map_err(problem)?;
    let note = todo.state.note().ok_or_else(Problem::not_found)?;
    let text = match note {
        Some(Note::Text(text)) => Some(text.clone()),
        Some(Note::Object { object, .. }) => Some(todos.notes.text(object).await?),
        None => None,
    };
    Ok(Answer::data(json!({ "note": text })))
}

/// A note that was given: `None`: nothing is said about it; `Some(None)`: it goes.
pub(super) fn given(value: Option<&Json>) -> Result<Option<Option<String>>, Problem> {
    match value {
        None => Ok(None),
        Some(Json::Null) => Ok(Some(None)),
        Some(Json::String(text)) if text.is_empty() => Err(wrong("note", "Has to be at least 1 character.")),
        Some(Json::String(text)) if text.chars().count() > LONGEST => {
            Err(wrong("note", "Has to be at most 100000 characters."))
        }
        Some(Json::String(text)) => Ok(Some(Some(text.clone()))),
        Some(_) => Err(wrong("note", "Has to be a text.")),
    }
}

pub(super) fn schema() -> Json {
    json!({ "type": "string", "minLength": 1, "maxLength": LONGEST, "description": "Whatever else there is to say." })
}

/// A note that may be none.
pub(super) fn or_none() -> Json {
    json!({ "anyOf": [schema(), { "type": "null", "description": "There is none." }] })
}

pub(super) fn answer() -> Json {
    json!({
        "type": "object", "properties": { "note": or_none() }, "required": ["note"], "additionalProperties": false,
    })
}
