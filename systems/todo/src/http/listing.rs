//! `GET /todos`.

use axum::http::{HeaderName, StatusCode};
use nagaya_server::{Answer, Call, Content, Problem};
use nagaya_tenancy::{List, Tenant};
use serde_json::{Value as Json, json};
use ulid::Ulid;

use super::listed;

pub(super) const SUMMARY: &str = "Lists todos: those that are not done, unless others are asked for.";

/// Todos of the largest page.
const LARGEST: usize = 1_000;
/// The header that says how far the list is behind, in milliseconds.
const LAG: HeaderName = HeaderName::from_static("nagaya-projection-lag");

/// Lists todos, and says how far the list is behind.
pub(super) async fn list(call: &Call) -> Result<Answer, Problem> {
    let access = call.asked("status").map_or(Ok("todos_active"), access)?;
    // Asked before the list is read: what the list has by then it still has.
    let lag = lag(&call.tenant()?, call.now()).await?;
    let mut answer = Answer::new(StatusCode::OK, Content::Page(call.list(access, &["status"]).await?));
    answer.set(LAG, &lag.to_string());
    Ok(answer)
}

fn access(status: &str) -> Result<&'static str, Problem> {
    match status {
        "active" => Ok("todos_active"),
        "completed" => Ok("todos_completed"),
        "all" => Ok("todos"),
        _ => Err(Problem::bad_parameter("status", "Has to be `active`, `completed` or `all`.")),
    }
}

/// How long the family's newest event has been waiting to be in the list, in milliseconds; 0: it is.
async fn lag(tenant: &Tenant, now: i64) -> Result<i64, Problem> {
    let newest = tenant.list(&List::by("family_events").descending(true).limit(1)).await?.records.pop();
    let Some(newest) = newest else { return Ok(0) };
    let (Some(todo), Some(event)) = (newest.text("aggregateId"), newest.text("eventId")) else { return Ok(0) };
    let behind = match listed(tenant, todo).await {
        Ok(record) => record.text("lastEventId").is_none_or(|last| last < event),
        // One that is deleted is in step by not being there.
        Err(_) => newest.text("eventType") != Some("TodoDeleted"),
    };
    let made = Ulid::from_string(event).ok().and_then(|id| i64::try_from(id.timestamp_ms()).ok()).unwrap_or(now);
    Ok(if behind { now.saturating_sub(made).max(1) } else { 0 })
}

pub(super) fn status() -> Json {
    let schema = json!({ "type": "string", "enum": ["active", "completed", "all"], "default": "active" });
    json!({ "name": "status", "in": "query", "description": "Which todos.", "schema": schema })
}

pub(super) fn limit() -> Json {
    let schema = json!({ "type": "integer", "minimum": 1, "maximum": LARGEST });
    json!({ "name": "limit", "in": "query", "description": "Todos of a page, at most.", "schema": schema })
}

pub(super) fn order() -> Json {
    let schema = json!({ "type": "string", "enum": ["asc", "desc"] });
    json!({ "name": "order", "in": "query", "description": "Which come first.", "schema": schema })
}
