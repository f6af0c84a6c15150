//! `GET` of a todo.

use std::time::Duration;

use axum::http::{StatusCode, header};
use nagaya_server::{Answer, Call, Content, Problem, names};
use nagaya_tenancy::{Record, Tenant};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::{Todos, errors::problem, listed, tag_of};

pub(super) const SUMMARY: &str = "Reads a todo, once the list has an event if that is asked for.";

/// How long somebody waits at most for the list to have an event.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before the first look again; longer each time.
const LOOK: Duration = Duration::from_millis(5);

/// Reads a todo as the list has it; with `after`, not before it has that event.
pub(super) async fn read(todos: &Todos, call: &Call) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let id = call.parameter("todoId").unwrap_or_default();
    if let Some((name, _)) = call.query.iter().find(|(name, _)| name != "after") {
        return Err(Problem::bad_parameter(name, "Is not a parameter here."));
    }
    let record = match call.asked("after") {
        None => listed(&tenant, id).await?,
        Some(event) => after(todos, &tenant, id, event).await?,
    };
    let tag = tag_of(&record);
    let known = call.header("if-none-match").is_some_and(|known| names(known, &tag, true));
    let mut answer = match known {
        true => Answer::new(StatusCode::NOT_MODIFIED, Content::None),
        false => Answer::new(StatusCode::OK, Content::Record(Box::new(record))),
    };
    answer.set(header::ETAG, &tag);
    Ok(answer)
}

/// The todo once the list has an event of it.
async fn after(todos: &Todos, tenant: &Tenant, id: &str, event: &str) -> Result<Record, Problem> {
    let wrong = |why: &str| Problem::bad_parameter("after", why);
    let digit = |letter: u8| letter.is_ascii_digit() || (letter.is_ascii_uppercase() && !b"ILOU".contains(&letter));
    if event.len() != 26 || !event.bytes().all(digit) {
        return Err(wrong("Is not the id of an event."));
    }
    // It is there and the caller's, and the event has happened: nothing else is worth waiting for.
    let todo = todos.events.load(tenant, id).await.map_err(problem)?;
    let latest = todo.latest.ok_or_else(Problem::not_found)?;
    if event > latest.id.as_str() {
        return Err(wrong("Is no event of this todo."));
    }
    let (started, mut pause) = (Instant::now(), LOOK);
    loop {
        let found = listed(tenant, id).await;
        match &found {
            // Ids grow within a todo: a greater one has the smaller ones in it.
            Ok(record) if record.text("lastEventId").is_some_and(|last| last >= event) => return found,
            Ok(_) => {}
            // It has been deleted, and the list has that.
            Err(problem) if problem.status() != StatusCode::NOT_FOUND || todo.state.is_deleted() => return found,
            Err(_) => {}
        }
        if started.elapsed() >= PATIENCE {
            let detail = "The list does not have the event yet; `Retry-After` says when to ask again.";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "syncing", detail).retry_after(1));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// The parameter that waits.
pub(super) fn parameter() -> Json {
    json!({
        "name": "after",
        "in": "query",
        "description": "The `lastEventId` of a change: the answer waits, a few seconds at most, until the list has it.",
        "schema": { "type": "string", "pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$" },
    })
}
