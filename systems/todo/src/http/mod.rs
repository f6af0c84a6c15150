//! The routes of the todos.

mod change;
mod create;
mod errors;
mod listing;
mod note;
mod read;
mod stream;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::http::Method;
use nagaya_design::{Design, Verb};
use nagaya_events::{Context, Error, Events, Feed, Options, Processor, ProcessorOptions, Recorded, follow_generations};
use nagaya_server::{Answer, Call, Extension, Later, OwnRoute, Problem, Stop, tag};
use nagaya_store::Measurement;
use nagaya_tenancy::{Nagaya, Tenant};
use serde_json::{Map, Value as Json, json};

use crate::{AGGREGATE, Notes, Todo, View, projections};

/// How often another process may have switched the list to another generation.
const GENERATIONS: Duration = Duration::from_secs(1);
/// How long to wait when nothing has happened.
const PAUSE: Duration = Duration::from_millis(20);

/// What answers the routes of the todos.
pub(crate) struct Todos {
    events: Events<Todo>,
    feed: Feed,
    notes: Notes,
    /// What keeps the list in step, if this process does.
    processors: OnceLock<Vec<Processor>>,
}

impl Todos {
    pub(crate) fn new(design: &Design, notes: Notes) -> Result<Self, Error> {
        let events = Events::of(design, AGGREGATE, Options::default())?;
        Ok(Todos { events, feed: Feed::new(design, AGGREGATE)?, notes, processors: OnceLock::new() })
    }

    fn context(call: &Call) -> Context {
        Context {
            now: call.now(),
            user: call.caller.user.to_string(),
            correlation: call.origin.correlation.to_string(),
            causation: call.origin.causation.as_ref().unwrap_or(&call.origin.request).to_string(),
            ids: call.ids(),
        }
    }
}

/// A todo as a command has left it.
fn view(id: &str, view: &View, latest: &Recorded) -> Json {
    json!({
        "familyId": latest.tenant,
        "todoId": id,
        "title": view.title,
        "completed": view.completed,
        "version": latest.version,
        "lastEventId": latest.id,
        "updatedAt": latest.about("timestamp"),
    })
}

/// The fields of a body that may be given, and nothing else.
fn only(body: &Map<String, Json>, known: &[&str]) -> Result<(), Problem> {
    let unknown: Vec<_> = body.keys().filter(|name| !known.contains(&name.as_str())).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let detail = "The request does not fit the design; `errors` says where.";
    let problem = Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail);
    Err(unknown.into_iter().fold(problem, |problem, name| {
        let why = if name == "familyId" { "Comes from the token; leave it out." } else { "Is not a field." };
        problem.at(name, why)
    }))
}

/// The routes, as the server sees them.
pub(crate) struct Seam(pub(crate) Arc<Todos>);

impl Extension for Seam {
    fn routes(&self) -> Vec<OwnRoute> {
        let route = |method, path, summary, verb, act: Act| {
            let todos = Arc::clone(&self.0);
            OwnRoute::new(method, path, summary, move |call| act(Arc::clone(&todos), call)).needs("todo", verb)
        };
        let todo = || json!({ "$ref": "#/components/schemas/Todo" });
        let made = json!({ "allOf": [todo()], "description": "The todo; `lastEventId` is what `after` waits for." });
        vec![
            route(Method::POST, "/todos", "Makes a todo.", Verb::Create, |todos, call| {
                Box::pin(async move { create::create(&todos, &call).await })
            })
            .takes(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
            .body(create::body())
            .answers(201, Some(made)),
            route(Method::GET, "/todos", listing::SUMMARY, Verb::Read, |_, call| {
                Box::pin(async move { listing::list(&call).await })
            })
            .takes(listing::status())
            .takes(listing::limit())
            .takes(listing::order())
            .takes(json!({ "$ref": "#/components/parameters/Cursor" }))
            .pages(todo()),
            route(Method::GET, "/todos/{todoId}", read::SUMMARY, Verb::Read, |todos, call| {
                Box::pin(async move { read::read(&todos, &call).await })
            })
            .takes(read::parameter())
            .takes(json!({ "$ref": "#/components/parameters/IfNoneMatch" }))
            .answers(200, Some(todo())),
            route(Method::PATCH, "/todos/{todoId}", change::CHANGE, Verb::Update, |todos, call| {
                Box::pin(async move { change::change(&todos, &call).await })
            })
            .takes(json!({ "$ref": "#/components/parameters/IfMatch" }))
            .takes(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
            .body(change::body())
            .answers(200, Some(todo())),
            route(Method::DELETE, "/todos/{todoId}", "Deletes a todo.", Verb::Delete, |todos, call| {
                Box::pin(async move { change::delete(&todos, &call).await })
            })
            .takes(json!({ "$ref": "#/components/parameters/IfMatch" }))
            .takes(json!({ "$ref": "#/components/parameters/IdempotencyKey" }))
            .answers(204, None),
            route(Method::GET, "/todos/{todoId}/note", note::SUMMARY, Verb::Read, |todos, call| {
                Box::pin(async move { note::read(&todos, &call).await })
            })
            .answers(200, Some(note::answer())),
            route(Method::GET, "/events", stream::SUMMARY, Verb::Read, |todos, call| {
                Box::pin(async move { stream::stream(&todos, &call).await })
            })
            .takes(stream::last_event())
            .streams("text/event-stream"),
        ]
    }

    /// How far the list is behind, and what could not be applied to it.
    fn measurements<'a>(&'a self, nagaya: &'a Nagaya) -> Later<'a, Vec<Measurement>> {
        Box::pin(async move {
            let mut measured = Vec::new();
            for processor in self.0.processors.get().into_iter().flatten() {
                let name = processor.projection();
                measured.extend(processor.status().measurements(name, nagaya.clock().millis()));
                match processor.dead_letters().await {
                    Ok(letters) => {
                        let help = "Aggregates whose next event cannot be applied, and waits for somebody to decide";
                        let count = Measurement::gauge("follower_dead_letters", help, letters.len() as f64);
                        measured.push(count.label("follower", name));
                    }
                    Err(error) => tracing::warn!(%error, name, "dead letters cannot be counted"),
                }
            }
            measured
        })
    }

    /// Keeps the list in step, tells listeners, and notices when another process has built the list anew.
    fn background(&self, nagaya: Nagaya, stop: Stop) -> Option<Later<'static, ()>> {
        let todos = Arc::clone(&self.0);
        Some(Box::pin(async move {
            let mut work: Vec<Later<'_, ()>> = Vec::new();
            let mut processors = Vec::new();
            for projection in projections() {
                let name = projection.entity().to_owned();
                match Processor::new(&nagaya, projection, ProcessorOptions { pause: PAUSE, ..Default::default() }) {
                    Ok(processor) => {
                        processors.push(processor.clone());
                        let mut stop = stop.clone();
                        work.push(Box::pin(async move { processor.run(stop.told()).await }));
                    }
                    Err(error) => tracing::error!(%error, name, "the projection is not kept in step"),
                }
            }
            let _ = todos.processors.set(processors);
            let (mut first, mut second) = (stop.clone(), stop);
            let (house, feed) = (&nagaya, &todos.feed);
            work.push(Box::pin(async move { feed.run(house, PAUSE, first.told()).await }));
            work.push(Box::pin(async move {
                loop {
                    if let Err(error) = follow_generations(house).await {
                        tracing::warn!(%error, "generations cannot be read");
                    }
                    tokio::select! {
                        () = second.told() => return,
                        () = tokio::time::sleep(GENERATIONS) => {}
                    }
                }
            }));
            futures_util::future::join_all(work).await;
        }))
    }
}

/// What a route does.
type Act = fn(Arc<Todos>, Arc<Call>) -> Later<'static, Result<Answer, Problem>>;

/// The version that `If-Match` expects of a todo. Any tag that is not one of a version is one that no todo has.
async fn expected(todos: &Todos, tenant: &Tenant, id: &str, call: &Call) -> Result<Option<u64>, Problem> {
    let Some(header) = call.header("if-match") else { return Ok(None) };
    let tags: Vec<_> = header.split(',').map(str::trim).collect();
    let version = |tag: &&str| tag.strip_prefix("\"v")?.strip_suffix('"')?.parse::<u64>().ok();
    match tags.as_slice() {
        tags if tags.contains(&"*") => Ok(None),
        [tag] => Ok(Some(version(tag).unwrap_or(u64::MAX))),
        // Several: whichever the todo has now is the expected one.
        tags => {
            let now = todos.events.load(tenant, id).await.map_err(errors::problem)?.version;
            Ok(Some(if tags.iter().filter_map(version).any(|tag| tag == now) { now } else { u64::MAX }))
        }
    }
}

/// A request as its key stands for it.
fn fingerprint(call: &Call) -> Vec<u8> {
    let path = call.path.join("/");
    format!("{} {path} {} {}", call.route.method, Json::from(call.body.clone()), call.header("if-match").unwrap_or(""))
        .into_bytes()
}

/// An answer with a todo as a command has left it.
fn answer(status: u16, id: &str, shown: &View, latest: Option<&Recorded>) -> Result<Answer, Problem> {
    let latest = latest.ok_or_else(Problem::internal)?;
    let mut answer = Answer::data(view(id, shown, latest));
    answer.status = axum::http::StatusCode::from_u16(status).map_err(|_| Problem::internal())?;
    answer.set(axum::http::header::ETAG, &format!("\"v{}\"", latest.version));
    Ok(answer)
}

/// The todo as the list has it.
async fn listed(tenant: &Tenant, id: &str) -> Result<nagaya_tenancy::Record, Problem> {
    Ok(tenant.get("todo", &[id]).await?)
}

/// The tag of a todo in the list.
fn tag_of(record: &nagaya_tenancy::Record) -> String {
    match record.get("version").and_then(nagaya_store::Value::as_number) {
        Some(version) => format!("\"v{version}\""),
        None => tag(record),
    }
}
