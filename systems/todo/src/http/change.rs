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
    errors::problem_from_error,
    fingerprint, todo_answer, todo_id,
};
use crate::{Command, Note, Todo, TodoView, notes::NewNote};

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
    // Before a note is stored: what fails here leaves none.
    let conditions = Conditions::new(&todos, &call).await?;
    let (note, new) = match note {
        Some(Some(text)) => {
            let new = new_note(&todos, &call, text).await?;
            (Some(Some(new.note.clone())), Some(new))
        }
        Some(None) => (Some(None), None),
        None => (None, None),
    };
    let command = Command::Change { title, completed, note };
    let done = execute(&todos, &call, &conditions, (&command, new.as_ref())).await?;
    todos.check_not_deleted(&call.tenant()?, &done).await?;
    todo_answer(StatusCode::OK, &done)
}

/// The note of a change, stored if it is long. Nothing is stored for a todo that does not exist or is deleted.
async fn new_note(todos: &Todos, call: &Call, text: String) -> Result<NewNote, Problem> {
    let (tenant, id) = (call.tenant()?, todo_id(call));
    let todo = todos.events.load(&tenant, id).await.map_err(problem_from_error)?;
    match todo.state.note() {
        Some(current) => {
            let request = call.ids().ulid(call.now_millis());
            todos.notes.store(&tenant.principal().tenant, id, &request, text, current).await
        }
        // The command is refused, unless it repeats one that was executed before the deletion.
        None => Ok(Note::Text(text).into()),
    }
}

/// Deletes a todo and its long notes; its history stays.
async fn delete(todos: Arc<Todos>, call: Arc<Call>) -> Result<Answer, Problem> {
    let conditions = Conditions::new(&todos, &call).await?;
    execute(&todos, &call, &conditions, (&Command::Delete, None)).await?;
    if let Err(error) = todos.notes.delete_all(&call.tenant()?.principal().tenant, todo_id(&call)).await {
        // The cleanup follows the events and deletes them later.
        tracing::debug!(cause = error.to_string(), "the notes of a deleted todo cannot be deleted at once");
    }
    Ok(Answer::no_content())
}

/// What the headers of a request say about its command.
struct Conditions<'c> {
    /// The version that `If-Match` expects.
    expected: Option<u64>,
    idempotency_key: Option<&'c str>,
}

impl<'c> Conditions<'c> {
    async fn new(todos: &Todos, call: &'c Call) -> Result<Self, Problem> {
        let expected = expected_version(todos, &call.tenant()?, todo_id(call), call).await?;
        Ok(Conditions { expected, idempotency_key: call.idempotency_key()? })
    }
}

async fn execute(
    todos: &Todos,
    call: &Call,
    conditions: &Conditions<'_>,
    command: (&Command, Option<&NewNote>),
) -> Result<Executed<Todo, TodoView>, Problem> {
    let request = fingerprint(call);
    let once = conditions.idempotency_key.map(|key| (key, request.as_slice()));
    let request = CommandRequest { context: Todos::context(call), expected: conditions.expected, idempotency: once };
    todos.execute(&call.tenant()?, todo_id(call), command, &request).await
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
