//! The seam: what a system adds to the routes that its design gives.
//!
//! A system implements [`Extension`]. Everything that it does not say stays as the design gives it.

use std::{future::Future, pin::Pin, sync::Arc};

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_store::Measurement;
use nagaya_tenancy::Nagaya;
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::{Answer, Call, Problem, openapi::Document, route::Reach};

/// What a handler gives some time.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is particular about a system.
pub trait Extension: Send + Sync + 'static {
    /// Routes of its own. One with the method and path of a derived route takes its place.
    fn routes(&self) -> Vec<OwnRoute> {
        Vec::new()
    }

    /// Called before each derived route, when the caller is known and allowed by the design: may change the call, refuse
    /// it, or answer in place of the derived handler.
    fn before<'a>(&'a self, call: &'a mut Call) -> Later<'a, Result<Option<Answer>, Problem>> {
        let _ = call;
        Box::pin(async { Ok(None) })
    }

    /// Says in the OpenAPI document what the design does not: which fields callers do not give, what else is answered.
    fn describe(&self, document: &mut Document) {
        let _ = document;
    }

    /// Work beside the requests for as long as the system is served; ends soon after it is told to stop.
    fn background(&self, nagaya: Nagaya, stop: Stop) -> Option<Later<'static, ()>> {
        let _ = (nagaya, stop);
        None
    }

    /// What the system measures about itself, such as how far what follows its writes is behind: see
    /// [`nagaya_tenancy::FollowerStatus`]. It is asked for when somebody looks at `/metrics`, but no more than every few
    /// seconds. Names have no prefix; nothing in them or in labels names a tenant or a user.
    fn measurements<'a>(&'a self, nagaya: &'a Nagaya) -> Later<'a, Vec<Measurement>> {
        let _ = nagaya;
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Called after each derived route that did not fail: may change the answer.
    fn after<'a>(&'a self, call: &'a Call, answer: &'a mut Answer) -> Later<'a, Result<(), Problem>> {
        let _ = (call, answer);
        Box::pin(async { Ok(()) })
    }
}

/// Tells work in the background when to stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// One that tells, and what makes it tell.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (tell, told) = watch::channel(false);
        (tell, Stop(told))
    }

    /// Waits until it is time to stop.
    pub async fn told(&mut self) {
        // Whoever could tell being gone is as good.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// A system without anything particular.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain;

impl Extension for Plain {}

/// What answers a route of a system's own.
pub type Handler = Arc<dyn Fn(Arc<Call>) -> Later<'static, Result<Answer, Problem>> + Send + Sync>;

/// A route of a system's own, with what its documentation says.
#[derive(Clone)]
pub struct OwnRoute {
    /// The method.
    pub method: Method,
    /// The path without the design's prefix; parameters as `{name}`.
    pub path: String,
    /// Whose handle it needs.
    pub reach: Reach,
    /// What the caller's roles have to allow.
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
    /// The media type of an answer that goes on for as long as it is listened to.
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
    /// A route that tenants reach and whose answer is 200.
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

    /// Whose handle it needs.
    #[must_use]
    pub fn reach(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// What the caller's roles have to allow.
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
    pub fn streams(mut self, kind: &'static str) -> Self {
        self.streamed = Some(kind);
        self
    }

    /// What its body has to be like.
    #[must_use]
    pub fn body(mut self, schema: Json) -> Self {
        self.body = Some(schema);
        self
    }

    /// Another status of its answers, and what it means in a sentence: below 400 with the same data, else with a problem.
    #[must_use]
    pub fn also(mut self, status: u16, means: &'static str) -> Self {
        self.also.push((status, means));
        self
    }

    /// What its answer is like. A schema `{"$ref": "#/components/schemas/…"}` names an entity's.
    #[must_use]
    pub fn answers(mut self, status: u16, schema: Option<Json>) -> Self {
        self.status = status;
        self.answer = schema;
        self
    }
}
