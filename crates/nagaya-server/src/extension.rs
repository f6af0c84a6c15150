//! Extensions: what a system adds to the routes of its design.
//!
//! A system implements [`Extension`]. The defaults leave everything as the design says.

use std::{future::Future, pin::Pin, sync::Arc};

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_store::Measurement;
use nagaya_tenancy::Nagaya;
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::{Answer, Call, Problem, openapi::Document, route::Reach};

/// A boxed future of a handler.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a system adds to its design.
pub trait Extension: Send + Sync + 'static {
    /// Custom routes. One with the method and path of a derived route replaces it.
    fn routes(&self) -> Vec<OwnRoute> {
        Vec::new()
    }

    /// Called before each derived route, once the caller is authorized: may change the call, refuse it, or answer instead of
    /// the derived operation.
    fn before<'a>(&'a self, call: &'a mut Call) -> Later<'a, Result<Option<Answer>, Problem>> {
        let _ = call;
        Box::pin(async { Ok(None) })
    }

    /// Completes the OpenAPI document where the extension changes what the design says.
    fn describe(&self, document: &mut Document) {
        let _ = document;
    }

    /// Background work while the system is served; it has to end soon after `stop`.
    fn background(&self, nagaya: Nagaya, stop: Stop) -> Option<Later<'static, ()>> {
        let _ = (nagaya, stop);
        None
    }

    /// Measurements of the system, such as the lag of its change subscriptions: see [`nagaya_tenancy::FollowerStatus`].
    /// Called for a scrape of `/metrics`, at most every few seconds. Names have no prefix; neither names nor labels identify
    /// a tenant or a user.
    fn measurements<'a>(&'a self, nagaya: &'a Nagaya) -> Later<'a, Vec<Measurement>> {
        let _ = nagaya;
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Called after each derived route that succeeded: may change the answer.
    fn after<'a>(&'a self, call: &'a Call, answer: &'a mut Answer) -> Later<'a, Result<(), Problem>> {
        let _ = (call, answer);
        Box::pin(async { Ok(()) })
    }
}

/// Signals background work to stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A sender and the signal that it controls.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Stop(receiver))
    }

    /// Waits until it is time to stop.
    pub async fn told(&mut self) {
        // A dropped sender means stop as well.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// The extension of a system that is only its design.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoExtension;

impl Extension for NoExtension {}

/// The handler of a custom route.
pub type Handler = Arc<dyn Fn(Arc<Call>) -> Later<'static, Result<Answer, Problem>> + Send + Sync>;

/// A route of an extension, with its OpenAPI description.
#[derive(Clone)]
pub struct OwnRoute {
    /// The method.
    pub method: Method,
    /// The path without the design's prefix; parameters as `{name}`.
    pub path: String,
    /// Who may call it.
    pub reach: Reach,
    /// The entity and the verb that a role of the caller has to permit.
    pub needs: Option<(String, Verb)>,
    /// What it does, in a sentence.
    pub summary: String,
    /// The JSON Schema of the body; `None`: it takes none.
    pub body: Option<Json>,
    /// The JSON Schema of `data` in its answer; `None`: 204 without a body.
    pub answer: Option<Json>,
    /// The status of its answer.
    pub status: u16,
    /// Other statuses of its answers, and what they mean.
    pub also: Vec<(u16, &'static str)>,
    /// Whether `data` is a page, with a cursor to the next one beside it.
    pub paged: bool,
    /// The media type of an answer that is a stream.
    pub streamed: Option<&'static str>,
    /// Parameters and headers that it takes besides those of its path, as OpenAPI describes them.
    pub takes: Vec<Json>,
    pub(crate) handler: Handler,
}

impl std::fmt::Debug for OwnRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl OwnRoute {
    /// A route for tenants that answers 200.
    pub fn new<F, A>(method: Method, path: &str, summary: &str, handler: F) -> Self
    where
        F: Fn(Arc<Call>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        OwnRoute {
            method,
            path: path.to_owned(),
            reach: Reach::Tenant,
            needs: None,
            summary: summary.to_owned(),
            body: None,
            answer: None,
            status: 200,
            also: Vec::new(),
            paged: false,
            streamed: None,
            takes: Vec::new(),
            handler: Arc::new(move |call| Box::pin(handler(call))),
        }
    }

    /// Who may call it.
    #[must_use]
    pub fn reach(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// The entity and the verb that a role of the caller has to permit.
    #[must_use]
    pub fn needs(mut self, entity: &str, verb: Verb) -> Self {
        self.needs = Some((entity.to_owned(), verb));
        self
    }

    /// A parameter or header that it takes, as OpenAPI describes it.
    #[must_use]
    pub fn takes(mut self, parameter: Json) -> Self {
        self.takes.push(parameter);
        self
    }

    /// Its answer is a page of these.
    #[must_use]
    pub fn pages(mut self, item: Json) -> Self {
        self.answer = Some(serde_json::json!({ "type": "array", "items": item }));
        self.paged = true;
        self
    }

    /// Its answer is a stream of this media type, such as `text/event-stream`. The OpenAPI document marks it with
    /// `x-nagaya-stream`, so that programs do not wait for its end.
    #[must_use]
    pub fn streams(mut self, media_type: &'static str) -> Self {
        self.streamed = Some(media_type);
        self
    }

    /// The JSON Schema of its body.
    #[must_use]
    pub fn body(mut self, schema: Json) -> Self {
        self.body = Some(schema);
        self
    }

    /// Another status that it answers with, and its meaning: below 400 with the same data, else with a problem.
    #[must_use]
    pub fn also(mut self, status: u16, meaning: &'static str) -> Self {
        self.also.push((status, meaning));
        self
    }

    /// The status and the JSON Schema of its answer. A schema `{"$ref": "#/components/schemas/…"}` names an entity's.
    #[must_use]
    pub fn answers(mut self, status: u16, schema: Option<Json>) -> Self {
        self.status = status;
        self.answer = schema;
        self
    }
}
