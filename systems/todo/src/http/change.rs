//! `PATCH` and `DELETE` of a todo.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use nagaya_design::Verb;
use nagaya_events::{CommandRequest, Executed};
use nagaya_server::{Answer, Call, CustomRoute, Problem};
use nagaya_tenancy::Tenant;
use serde::Deserialize;
use serde_json::json;

use super::{
    NOTE, TITLE, Todos,
    body::{self, BodyField, Values},
    errors::{command_problem, problem_from_error},
    fingerprint, todo_answer, todo_id,
};
use crate::{Command, Todo, TodoView};

/// Changes of a todo.
#[derive(Deserialize)]
struct TodoPatch {
    title: Option<String>,
    completed: Option<bool>,
    #[serde(default, deserialize_with = "body::given")]
    note: Option<Option<String>>,
}

const FIELDS: [BodyField; 3] = [
    BodyField { name: "title", values: TITLE, required: false, description: "What is to be done." },
    BodyField { name: "completed", values: Values::Boolean, required: false, description: "Whether it is done." },
    BodyField { name: "note", values: NOTE, required: false, description: "A note of any length; null removes it." },
];

pub(super) fn routes(todos: &Arc<Todos>) -> [CustomRoute; 2] {
    let summary = "Renames, completes or reopens a todo, or changes its note.";
    let change = todos.route(Method::PATCH, "/todos/{todoId}", summary, Verb::Update, change);
    let delete = todos.route(Method::DELETE, "/todos/{todoId}", "Deletes a todo.", Verb::Delete, delete);
    [
        change.body(body::schema(&FIELDS)).answers(200, Some(json!({ "$ref": "#/components/schemas/Todo" }))),
        delete.answers(204, None),
    ]
    .map(|route| {
        route
            .parameter(json!({ "$ref": "#/components/parameters/IfMatch" }))
            .parameter(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
    })
}

/// Renames, completes or reopens a todo, or changes its note; one event for each.
async fn change(todos: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    let TodoPatch { title, completed, note } = body::parse(&call.body, &FIELDS)?;
    let mut unused = None;
    let note = match note {
        Some(Some(text)) => {
            let (tenant, id) = (call.tenant()?, todo_id(&call));
            // No note is stored for a todo that does not exist. A repeated request may get its first answer.
            let todo = todos.events.load(&tenant, id).await.map_err(problem_from_error)?;
            if todo.version == 0 || (todo.state.is_deleted() && call.idempotency_key()?.is_none()) {
                return Err(Problem::not_found());
            }
            let (note, is_new) = todos.notes.store(&tenant.principal().tenant, id, text).await?;
            unused = is_new.then(|| note.clone());
            Some(Some(note))
        }
        Some(None) => Some(None),
        None => None,
    };
    let command = Command::Change { title, completed, note };
    let done = execute(&todos, &call, &command).await;
    if done.as_ref().is_ok_and(|done| done.events.is_empty()) || done.is_err() {
        todos.delete_unused_note(&call.tenant()?, todo_id(&call), unused.as_ref()).await?;
    }
    let done = done?;
    todos.check_not_deleted(&call.tenant()?, &done).await?;
    todo_answer(StatusCode::OK, &done)
}

/// Deletes a todo and its long notes; its history stays.
async fn delete(todos: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    execute(&todos, &call, &Command::Delete).await?;
    todos.notes.delete_all(&call.tenant()?.principal().tenant, todo_id(&call)).await;
    Ok(Answer::no_content())
}

async fn execute(todos: &Todos, call: &Call, command: &Command) -> Result<Executed<Todo, TodoView>, Problem> {
    let (tenant, id, request) = (call.tenant()?, todo_id(call), fingerprint(call));
    let once = call.idempotency_key()?.map(|key| (key, request.as_slice()));
    let expected = expected_version(todos, &tenant, id, call).await?;
    let request = CommandRequest { context: Todos::context(call), expected, idempotency: once };
    todos.events.execute(&tenant, id, command, &request).await.map_err(command_problem)
}

/// The version that `If-Match` expects. A tag of another form matches no version.
async fn expected_version(todos: &Todos, tenant: &Tenant, id: &str, call: &Call) -> Result<Option<u64>, Problem> {
    let Some(header) = call.header("if-match") else { return Ok(None) };
    let tags: Vec<_> = header.split(',').map(str::trim).collect();
    let version = |tag: &&str| tag.strip_prefix("\"v")?.strip_suffix('"')?.parse::<u64>().ok();
    match tags.as_slice() {
        tags if tags.contains(&"*") => Ok(None),
        [tag] => Ok(Some(version(tag).unwrap_or(u64::MAX))),
        // Several: the current version is expected if it is one of them.
        tags => {
            let now = todos.events.load(tenant, id).await.map_err(problem_from_error)?.version;
            Ok(Some(if tags.iter().filter_map(version).any(|tag| tag == now) { now } else { u64::MAX }))
        }
    }
}
