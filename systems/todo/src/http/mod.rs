//! The routes of the todos. Each module has the handler of a route and, above it, what the OpenAPI document says about it.

mod background;
mod body;
mod change;
mod create;
mod errors;
mod listing;
mod note;
mod read;
mod stream;

use std::sync::Arc;

use axum::http::{Method, StatusCode, header};
use nagaya_design::{Design, Verb};
use nagaya_events::{CommandRequest, Context, Error, Events, EventsOptions, Executed, Feed};
use nagaya_server::{Answer, Call, CustomRoute, Extension, ExtensionFuture, Problem, StopSignal};
use nagaya_tenancy::{ChangeConsumer, ErrorKind, Nagaya, Record, Tenant};
use serde_json::{Value as Json, json};

use self::body::Values;
use crate::{
    AGGREGATE, Command, LongNoteStorage, Note, Todo, TodoView,
    notes::{self, NewNote, NoteCleanup},
};

/// The title of a todo.
const TITLE: Values = Values::Text(500);
/// The text of a note.
const NOTE: Values = Values::NullableText(notes::MAX_CHARS);

/// What the handlers of the routes work with.
pub(crate) struct Todos {
    events: Events<Todo>,
    feed: Feed,
    notes: LongNoteStorage,
}

impl Todos {
    pub(crate) fn new(design: &Design, notes: LongNoteStorage) -> Result<Self, Error> {
        let events = Events::new(design, AGGREGATE, EventsOptions::default())?;
        Ok(Todos { events, feed: Feed::new(design, AGGREGATE)?, notes })
    }

    fn context(call: &Call) -> Context {
        Context {
            now: call.now_millis(),
            user: call.caller.user.to_string(),
            correlation: call.origin.correlation.to_string(),
            causation: call.origin.causation.as_ref().unwrap_or(&call.origin.request).to_string(),
            ids: call.ids(),
        }
    }

    /// Executes a command. The object of a `note` that was stored for it is deleted if no event names it: the command is refused, or
    /// it repeats an earlier one. After a failure that may have had an effect it stays.
    async fn execute(
        &self,
        tenant: &Tenant,
        id: &str,
        (command, note): (&Command, Option<&NewNote>),
        request: &CommandRequest<'_>,
    ) -> Result<Executed<Todo, TodoView>, Problem> {
        let done = self.events.execute(tenant, id, command, request).await;
        if let Some(new) = note {
            let is_useless = match &done {
                Ok(done) => done.events.is_empty() && done.state.note() != Some(Some(&new.note)),
                Err(failure) => failure.has_no_effect(),
            };
            if is_useless {
                self.notes.delete_stored(new).await;
            }
        }
        done.map_err(errors::command_problem)
    }

    /// Refuses the repetition of a request whose todo has been deleted since.
    async fn check_not_deleted(&self, tenant: &Tenant, done: &Executed<Todo, TodoView>) -> Result<(), Problem> {
        if !done.events.is_empty() {
            return Ok(());
        }
        let now = self.events.load(tenant, &done.aggregate).await.map_err(errors::problem_from_error)?;
        if now.state.is_deleted() { Err(nagaya_tenancy::Error::from(ErrorKind::ResultDeleted).into()) } else { Ok(()) }
    }

    /// A route with its handler.
    fn route<F, A>(self: &Arc<Self>, method: Method, path: &str, summary: &str, verb: Verb, handler: F) -> CustomRoute
    where
        F: Fn(Arc<Todos>, Arc<Call>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        let todos = Arc::clone(self);
        CustomRoute::new(method, path, summary, move |call| handler(Arc::clone(&todos), call))
            .requires_permission("todo", verb)
    }
}

/// The routes and the background work of the todos.
pub(crate) struct TodoExtension(pub(crate) Arc<Todos>);

impl Extension for TodoExtension {
    fn routes(&self) -> Vec<CustomRoute> {
        let TodoExtension(todos) = self;
        let mut routes = vec![
            create::route(todos),
            listing::route(todos),
            read::route(todos),
            note::route(todos),
            stream::route(todos),
        ];
        routes.extend(change::routes(todos));
        routes
    }

    fn consumers(&self, nagaya: &Nagaya) -> Vec<Arc<dyn ChangeConsumer>> {
        vec![Arc::new(NoteCleanup::new(nagaya, &self.0.notes))]
    }

    fn background(&self, nagaya: Nagaya, stop: StopSignal) -> Option<ExtensionFuture<'static, ()>> {
        let todos = Arc::clone(&self.0);
        Some(Box::pin(async move { todos.run_background(&nagaya, stop).await }))
    }
}

/// The id of the todo in the path.
fn todo_id(call: &Call) -> &str {
    call.path_parameter("todoId").unwrap_or_default()
}

/// The request that an idempotency key stands for.
fn fingerprint(call: &Call) -> Vec<u8> {
    let path = call.path.join("/");
    format!("{} {path} {} {}", call.route.method, Json::from(call.body.clone()), call.header("if-match").unwrap_or(""))
        .into_bytes()
}

/// An answer with the todo after a command.
fn todo_answer(status: StatusCode, done: &Executed<Todo, TodoView>) -> Result<Answer, Problem> {
    let latest = done.latest.as_ref().ok_or_else(Problem::internal)?;
    let mut todo = json!({
        "familyId": latest.tenant,
        "todoId": done.aggregate,
        "title": done.reply.title,
        "completed": done.reply.completed,
        "version": latest.version,
        "lastEventId": latest.id,
        "updatedAt": latest.metadata_text("timestamp"),
    });
    match &done.reply.note {
        Some(Note::Text(text)) => todo["note"] = text.as_str().into(),
        Some(Note::Object { object, size }) => {
            todo["noteObject"] = object.as_str().into();
            todo["noteSize"] = (*size).into();
        }
        None => {}
    }
    let mut answer = Answer::data(todo);
    answer.status = status;
    answer.set_header(header::ETAG, &format!("\"v{}\"", latest.version));
    Ok(answer)
}

/// A todo of the list.
async fn get_listed(tenant: &Tenant, id: &str) -> Result<Record, Problem> {
    Ok(tenant.get("todo", &[id]).await?)
}
