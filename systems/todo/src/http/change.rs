//! `PATCH` and `DELETE` of a todo.

use axum::http::StatusCode;
use nagaya_events::{Executed, Request};
use nagaya_server::{Answer, Call, Content, Problem};
use serde_json::{Value as Json, json};

use super::{
    Todos, answer,
    create::{schema, title, wrong},
    errors::{problem, refused},
    expected, fingerprint, note, only,
};
use crate::{Command, Todo, View};

pub(super) const CHANGE: &str = "Renames, completes or reopens a todo, or changes its note.";

/// Renames, completes or reopens a todo; one event for each.
pub(super) async fn change(todos: &Todos, call: &Call) -> Result<Answer, Problem> {
    only(&call.body, &["title", "completed", "note"])?;
    let title = title(call.body.get("title"))?;
    let completed = match call.body.get("completed") {
        None => None,
        Some(Json::Bool(completed)) => Some(*completed),
        Some(_) => return Err(wrong("completed", "Has to be true or false.")),
    };
    let note = match note::given(call.body.get("note"))? {
        Some(Some(text)) => {
            let tenant = call.tenant()?;
            let id = call.parameter("todoId").unwrap_or_default();
            // Nothing is stored for what is not there.
            if todos.events.load(&tenant, id).await.map_err(problem)?.version == 0 {
                return Err(Problem::not_found());
            }
            Some(Some(todos.notes.keep(&tenant.principal().tenant, id, text).await?))
        }
        said => said.map(|_| None),
    };
    let done = command(todos, call, &Command::Change { title, completed, note }).await?;
    answer(200, &done.aggregate, &done.reply, done.latest.as_ref())
}

/// Deletes a todo; its history stays.
pub(super) async fn delete(todos: &Todos, call: &Call) -> Result<Answer, Problem> {
    command(todos, call, &Command::Delete).await?;
    Ok(Answer::new(StatusCode::NO_CONTENT, Content::None))
}

async fn command(todos: &Todos, call: &Call, command: &Command) -> Result<Executed<Todo, View>, Problem> {
    let tenant = call.tenant()?;
    let request = fingerprint(call);
    let once = call.idempotency_key()?.map(|key| (key, request.as_slice()));
    let id = call.parameter("todoId").unwrap_or_default();
    let expected = expected(todos, &tenant, id, call).await?;
    let request = Request { context: Todos::context(call), expected, once };
    todos.events.execute(&tenant, id, command, &request).await.map_err(refused)
}

/// What the body of a change has to be like.
pub(super) fn body() -> Json {
    json!({
        "type": "object",
        "properties": {
            "title": schema(),
            "completed": { "type": "boolean", "description": "Whether it is done." },
            "note": note::or_none(),
        },
        "additionalProperties": false,
    })
}
