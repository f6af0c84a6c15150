//! `GET /todos`.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_events::oldest_waiting_event;
use nagaya_server::{Answer, Call, CustomRoute, PROJECTION_LAG, Problem};
use nagaya_tenancy::{List, Tenant};
use serde::Deserialize;
use serde_json::json;
use ulid::Ulid;

use super::{Todos, errors::problem_from_error, get_listed};

/// The projection.
const LIST: &str = "todo";
/// The values of `status`, and the access patterns that list them.
const STATUSES: [(&str, &str); 3] = [("active", "todos_active"), ("completed", "todos_completed"), ("all", "todos")];

pub(super) fn route(todos: &Arc<Todos>) -> CustomRoute {
    let parameter = |name: &str, description: &str, schema| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    let statuses = STATUSES.map(|(status, _)| status);
    let status = json!({ "type": "string", "enum": statuses, "default": statuses[0] });
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 1_000 });
    let order = json!({ "type": "string", "enum": ["asc", "desc"] });
    let summary = "Lists todos: those that are not done, unless others are asked for.";
    todos
        .route(Method::GET, "/todos", summary, Verb::Read, list)
        .parameter(parameter("status", "Which todos.", status))
        .parameter(parameter("limit", "Todos of a page, at most.", limit))
        .parameter(parameter("order", "Which come first.", order))
        .parameter(json!({ "$ref": "#/components/parameters/Cursor" }))
        .answers_pages_of(json!({ "$ref": "#/components/schemas/Todo" }))
}

/// Lists todos, and says how far the list is behind.
async fn list(_: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    let asked = call.query_parameter("status").unwrap_or(STATUSES[0].0);
    let known = STATUSES.iter().find(|(status, _)| *status == asked);
    let wrong = || Problem::bad_parameter("status", "Has to be `active`, `completed` or `all`.");
    let (_, access) = known.ok_or_else(wrong)?;
    // The lag before the list: an event that the list has by then is in the page.
    let tenant = call.tenant()?;
    let operator = call.unaudited_operator();
    let (behind, waiting) = tokio::join!(
        lag_of_newest(&tenant, call.now_millis()),
        oldest_waiting_event(&operator, LIST, &tenant.principal().tenant),
    );
    let waiting = waiting.map_err(problem_from_error)?.map_or(0, |since| waiting_for(since, call.now_millis()));
    let lag = behind?.max(waiting);
    let mut answer = Answer::page(call.list(access, &["status"]).await?);
    answer.set_header(PROJECTION_LAG, &lag.to_string());
    Ok(answer)
}

/// The fields of an event that tell whether the list has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Newest {
    aggregate_id: String,
    event_id: String,
    event_type: String,
}

/// For how many milliseconds the family's newest event has been waiting to be listed; 0: it is listed.
async fn lag_of_newest(tenant: &Tenant, now: i64) -> Result<i64, Problem> {
    let newest = tenant.list(&List::by("family_events").descending(true).limit(1)).await?.records.pop();
    let Some(Ok(newest)) = newest.map(|record| record.deserialize::<Newest>()) else { return Ok(0) };
    let is_behind = match get_listed(tenant, &newest.aggregate_id).await {
        Ok(record) => record.text("lastEventId").is_none_or(|last| last < newest.event_id.as_str()),
        // A deleted todo is not listed.
        Err(_) => newest.event_type != "TodoDeleted",
    };
    let id = Ulid::from_string(&newest.event_id).ok();
    let happened = id.and_then(|id| i64::try_from(id.timestamp_ms()).ok()).unwrap_or(now);
    Ok(if is_behind { waiting_for(happened, now) } else { 0 })
}

/// For how many milliseconds something has been waiting, at least one.
fn waiting_for(since: i64, now: i64) -> i64 {
    now.saturating_sub(since).max(1)
}
