//! `POST /todos`.

use std::sync::Arc;

use axum::http::{Method, StatusCode, header};
use nagaya_design::Verb;
use nagaya_events::CommandRequest;
use nagaya_server::{Answer, Call, CustomRoute, Problem};
use serde::Deserialize;
use serde_json::json;

use super::{
    NOTE, TITLE, Todos,
    body::{self, BodyField},
    fingerprint, todo_answer,
};
use crate::Command;

/// A todo to create.
#[derive(Deserialize)]
struct NewTodo {
    title: String,
    note: Option<String>,
}

const FIELDS: [BodyField; 2] = [
    BodyField { name: "title", values: TITLE, required: true, description: "What is to be done." },
    BodyField { name: "note", values: NOTE, required: false, description: "A note of any length." },
];

pub(super) fn route(todos: &Arc<Todos>) -> CustomRoute {
    let todo = json!({ "$ref": "#/components/schemas/Todo" });
    let created = json!({ "allOf": [todo], "description": "The todo; `lastEventId` is what `after` waits for." });
    todos
        .route(Method::POST, "/todos", "Creates a todo.", Verb::Create, create)
        .parameter(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
        .body(body::schema(&FIELDS))
        .answers(201, Some(created))
}

/// Creates a todo; the same key and body create it once.
async fn create(todos: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    let NewTodo { title, note } = body::parse(&call.body, &FIELDS)?;
    let tenant = call.tenant()?;
    let (context, request) = (Todos::context(&call), fingerprint(&call));
    let id = context.new_id();
    let once = call.idempotency_key()?.map(|key| (key, request.as_slice()));

    let note = match note {
        Some(text) => Some(todos.notes.store(&tenant.principal().tenant, &id, &context.new_id(), text, None).await?),
        None => None,
    };
    let command = Command::Create { title, note: note.as_ref().map(|new| new.note.clone()) };
    let request = CommandRequest { context, expected: None, idempotency: once };
    let done = todos.execute(&tenant, &id, (&command, note.as_ref()), &request).await?;
    todos.check_not_deleted(&tenant, &done).await?;
    let mut answer = todo_answer(StatusCode::CREATED, &done)?;
    answer.set_header(header::LOCATION, &call.location(&format!("/todos/{}", done.aggregate)));
    Ok(answer)
}
