//! `GET /todos/{todoId}/note`.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, CustomRoute, Problem};
use serde_json::json;

use super::{
    NOTE, Todos,
    body::{self, BodyField},
    errors::problem_from_error,
    todo_id,
};
use crate::todo::Note;

pub(super) fn route(todos: &Arc<Todos>) -> CustomRoute {
    let note = BodyField { name: "note", values: NOTE, required: true, description: "Null if there is none." };
    let summary = "Reads the note of a todo, however long it is.";
    todos
        .route(Method::GET, "/todos/{todoId}/note", summary, Verb::Read, read_note)
        .answers(200, Some(body::schema(&[note])))
}

/// Reads a note, from its todo or from object storage.
async fn read_note(todos: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    // From the events: a caller who has just written a note reads it.
    let todo = todos.events.load(&call.tenant()?, todo_id(&call)).await.map_err(problem_from_error)?;
    let note = todo.state.note().ok_or_else(Problem::not_found)?;
    let text = match note {
        Some(Note::Text(text)) => Some(text.clone()),
        Some(Note::Object { object, .. }) => Some(todos.notes.load(object).await?),
        None => None,
    };
    Ok(Answer::data(json!({ "note": text })))
}
