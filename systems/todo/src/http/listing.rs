//! `GET /todos`.

use axum::http::{HeaderName, StatusCode};
use nagaya_server::{Answer, Call, Content, Problem};
use nagaya_tenancy::{List, Tenant};
use serde_json::{Value as Json, json};

use super::listed;

pub(super) const SUMMARY: &str = "Lists todos: those that are not done, unless others are asked for.";

/// Todos of the largest page.
const LARGEST: usize = 1_000;
/// The header that says how far the list is behind, in milliseconds.
const LAG: HeaderName = HeaderName::from_static("nagaya-projection-lag");

/// Lists todos, and says how far the list is behind.
pub(super) async fn list(call: &Call) -> Result<Answer, Problem> {
    let mut list = List::by("todos_active");
    let (mut limit, mut descending, mut cursor) = (None, None, None);
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in &call.query {
        if seen.contains(&name.as_str()) {
            return Err(wrong(name, "Is given twice."));
        }
        seen.push(name);
        match name.as_str() {
            "status" => list = List::by(access(value)?),
            "limit" => {
                let number = value.parse().ok().filter(|limit| (1..=LARGEST).contains(limit));
                limit = Some(number.ok_or_else(|| wrong("limit", "Has to be a number from 1 to 1000."))?);
            }
            "order" => {
                descending = Some(match value.as_str() {
                    "asc" => false,
                    "desc" => true,
                    _ => return Err(wrong("order", "Has to be `asc` or `desc`.")),
                });
            }
            "cursor" => cursor = Some(value),
            _ => return Err(wrong(name, "Is not a parameter here.")),
        }
    }
    let tenant = call.tenant()?;
    let list = limit.into_iter().fold(list, List::limit);
    let list = descending.into_iter().fold(list, List::descending);
    let list = cursor.into_iter().fold(list, List::cursor);
    // Asked before the list is read: what the list has by then it still has.
    let lag = lag(&tenant, call.now()).await?;
    let mut answer = Answer::new(StatusCode::OK, Content::Page(tenant.list(&list).await?));
    answer.set(LAG, &lag.to_string());
    Ok(answer)
}

fn access(status: &str) -> Result<&'static str, Problem> {
    match status {
        "active" => Ok("todos_active"),
        "completed" => Ok("todos_completed"),
        "all" => Ok("todos"),
        _ => Err(wrong("status", "Has to be `active`, `completed` or `all`.")),
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
    let made = ulid_millis(event).unwrap_or(now);
    Ok(if behind { now.saturating_sub(made).max(1) } else { 0 })
}

/// The moment that an event's id was made at.
fn ulid_millis(id: &str) -> Option<i64> {
    const DIGITS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = |letter| DIGITS.find(letter).and_then(|digit| i64::try_from(digit).ok());
    id.get(..10)?.chars().try_fold(0_i64, |millis, letter| Some(millis * 32 + digit(letter)?))
}

fn wrong(name: &str, why: &str) -> Problem {
    Problem::bad_request("bad_parameter", "A parameter is wrong; `errors` says which.").parameter(name, why)
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
