//! `GET /todos/{todoId}`.

use std::{sync::Arc, time::Duration};

use axum::http::{Method, StatusCode, header};
use nagaya_design::Verb;
use nagaya_server::{Answer, Call, Content, CustomRoute, Problem, etag_matches, tag};
use nagaya_store::Value;
use nagaya_tenancy::{Record, Tenant};
use serde_json::json;
use ulid::Ulid;

use super::{Todos, errors::problem_from_error, get_listed, todo_id};

/// How long a request waits at most until the list has an event.
const WAIT_LIMIT: Duration = Duration::from_secs(5);
/// The pause before the second read; doubled before each further one, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(100);

pub(super) fn route(todos: &Arc<Todos>) -> CustomRoute {
    let after = json!({
        "name": "after",
        "in": "query",
        "description": "The `lastEventId` of a change: the answer waits, a few seconds at most, until the list has it.",
        "schema": { "type": "string", "pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$" },
    });
    let summary = "Reads a todo; with `after`, once the list has that event.";
    todos
        .route(Method::GET, "/todos/{todoId}", summary, Verb::Read, read)
        .parameter(after)
        .parameter(json!({ "$ref": "#/components/parameters/IfNoneMatch" }))
        .answers(200, Some(json!({ "$ref": "#/components/schemas/Todo" })))
}

/// Reads a todo from the list; with `after`, once the list has that event.
async fn read(todos: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    let (tenant, id) = (call.tenant()?, todo_id(&call));
    if let Some((name, _)) = call.query.iter().find(|(name, _)| name != "after") {
        return Err(Problem::bad_parameter(name, "Is not a parameter here."));
    }
    let record = match call.query_parameter("after") {
        None => get_listed(&tenant, id).await?,
        Some(event) => wait_for_event(&todos, &tenant, id, event).await?,
    };
    let tag = etag(&record);
    let known = call.header("if-none-match").is_some_and(|known| etag_matches(known, &tag, true));
    let mut answer = match known {
        true => Answer::new(StatusCode::NOT_MODIFIED, Content::None),
        false => Answer::new(StatusCode::OK, Content::Record(Box::new(record))),
    };
    answer.set_header(header::ETAG, &tag);
    Ok(answer)
}

fn etag(record: &Record) -> String {
    match record.get("version").and_then(Value::as_number) {
        Some(version) => format!("\"v{version}\""),
        None => tag(record),
    }
}

/// The todo once the list has an event of it.
async fn wait_for_event(todos: &Todos, tenant: &Tenant, id: &str, event: &str) -> Result<Record, Problem> {
    let wrong = |why: &str| Problem::bad_parameter("after", why);
    // Ids are compared as text, so another spelling of one is none.
    if !Ulid::from_string(event).is_ok_and(|id| id.to_string() == event) {
        return Err(wrong("Is not the id of an event."));
    }
    // The todo must exist for the caller, and the event must have happened.
    let todo = todos.events.load(tenant, id).await.map_err(problem_from_error)?;
    let latest = todo.latest.ok_or_else(Problem::not_found)?;
    if event > latest.id.as_str() {
        return Err(wrong("Is no event of this todo."));
    }
    let listed = async {
        let mut pause = FIRST_PAUSE;
        loop {
            let found = get_listed(tenant, id).await;
            match &found {
                // A deletion that the caller may have seen.
                Ok(_) if todo.state.is_deleted() => {}
                // Ids increase within a todo: an item with a later event has the earlier ones too.
                Ok(record) if record.text("lastEventId").is_some_and(|last| last >= event) => return found,
                Ok(_) => {}
                // A todo that is deleted, in the list too.
                Err(problem) if problem.status() != StatusCode::NOT_FOUND || todo.state.is_deleted() => return found,
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    };
    tokio::time::timeout(WAIT_LIMIT, listed).await.unwrap_or_else(|_elapsed| {
        let detail = "The list does not have the event yet; `Retry-After` says when to ask again.";
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "syncing", detail).retry_after(1))
    })
}
