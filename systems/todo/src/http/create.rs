//! `POST /todos`.

use axum::http::header;
use nagaya_events::Request;
use nagaya_server::{Answer, Call, Problem};
use serde_json::{Value as Json, json};

use super::{Todos, answer, errors::refused, fingerprint, note, only};
use crate::Command;

/// Makes a todo; the same key and body make it once.
pub(super) async fn create(todos: &Todos, call: &Call) -> Result<Answer, Problem> {
    only(&call.body, &["title", "note"])?;
    let title = title(call.body.get("title"))?.ok_or_else(|| wrong("title", "Is missing."))?;
    let note = note::given(call.body.get("note"))?.flatten();
    let tenant = call.tenant()?;
    let (context, request) = (Todos::context(call), fingerprint(call));
    let id = context.new_id();
    let once = call.idempotency_key()?.map(|key| (key, request.as_slice()));

    let note = match note {
        Some(text) => Some(todos.notes.keep(&tenant.principal().tenant, &id, text).await?),
        None => None,
    };
    let request = Request { context, expected: None, once };
    let done = todos.events.execute(&tenant, &id, &Command::Create { title, note }, &request).await.map_err(refused)?;
    let mut answer = answer(201, &done.aggregate, &done.reply, done.latest.as_ref())?;
    answer.set(header::LOCATION, &call.location(&format!("/todos/{}", done.aggregate)));
    Ok(answer)
}

/// What the body has to be like.
pub(super) fn body() -> Json {
    json!({
        "type": "object",
        "properties": { "title": schema(), "note": note::or_none() },
        "required": ["title"],
        "additionalProperties": false,
    })
}

pub(super) fn schema() -> Json {
    json!({ "type": "string", "minLength": 1, "maxLength": LONGEST, "description": "What is to be done." })
}

/// Characters of a title.
const LONGEST: usize = 500;

/// A title that was given.
pub(super) fn title(given: Option<&Json>) -> Result<Option<String>, Problem> {
    match given {
        None => Ok(None),
        Some(Json::String(title)) if title.is_empty() => Err(wrong("title", "Has to be at least 1 character.")),
        Some(Json::String(title)) if title.chars().count() > LONGEST => {
            Err(wrong("title", "Has to be at most 500 characters; longer texts belong into a note."))
        }
        Some(Json::String(title)) => Ok(Some(title.clone())),
        Some(_) => Err(wrong("title", "Has to be a text.")),
    }
}

pub(super) fn wrong(field: &str, why: &str) -> Problem {
    let detail = "The request does not fit the design; `errors` says where.";
    Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail).at(field, why)
}
