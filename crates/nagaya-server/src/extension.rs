//! Extensions: what a system adds to the routes of its design.
//!
//! A system implements [`Extension`]. The defaults leave everything as the design says.

use std::{future::Future, pin::Pin, sync::Arc};

use axum::http::Method;
use nagaya_design::Verb;
use nagaya_store::Measurement;
use nagaya_tenancy::{ChangeConsumer, Nagaya, Record};
use serde_json::Value as Json;
use tokio::sync::watch;

use crate::{Answer, Call, Problem, openapi::Document, route::RequiredCaller};

/// A boxed future of a handler.
pub type ExtensionFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a system adds to its design.
pub trait Extension: Send + Sync + 'static {
    /// Custom routes. One with the method and path of a derived route replaces it.
    fn routes(&self) -> Vec<CustomRoute> {
        Vec::new()
    }

    /// Called before each derived route, once the caller is authorized: may change the call, refuse it, or answer instead of
    /// the derived operation.
    fn before<'a>(&'a self, call: &'a mut Call) -> ExtensionFuture<'a, Result<Option<Answer>, Problem>> {
        let _ = call;
        Box::pin(async { Ok(None) })
    }

    /// Called for the items of every answer, of derived and of custom routes, before they are written: may
    /// [restrict](Record::restrict) what the caller sees of them, or [add](Record::add_fields) to it. Tags and 304 follow from that.
    /// What a custom route answers as [`Content::Data`](crate::Content::Data) is not among them. `If-Match` is compared with the whole
    /// item: a caller who sees less sends its version alone, such as `"v3"`. `None`: nothing is changed.
    fn restrict<'a>(
        &'a self,
        call: &'a Call,
        records: &'a mut [Record],
    ) -> Option<ExtensionFuture<'a, Result<(), Problem>>> {
        let _ = (call, records);
        None
    }

    /// Completes the OpenAPI document where the extension changes what the design says.
    fn customize_openapi(&self, document: &mut Document) {
        let _ = document;
    }

    /// What is derived from changes of items, besides the projections of events. A server runs them, and so do
    /// `nagaya events run` and the stream function of AWS Lambda.
    fn consumers(&self, nagaya: &Nagaya) -> Vec<Arc<dyn ChangeConsumer>> {
        let _ = nagaya;
        Vec::new()
    }

    /// Other background work while the system is served; it has to end soon after `stop`.
    fn background(&self, nagaya: Nagaya, stop: StopSignal) -> Option<ExtensionFuture<'static, ()>> {
        let _ = (nagaya, stop);
        None
    }

    /// Measurements of the system, besides those of its consumers.
    /// Called for a scrape of `/metrics`, at most every few seconds. Names have no prefix; neither names nor labels identify
    /// a tenant or a user.
    fn measurements<'a>(&'a self, nagaya: &'a Nagaya) -> ExtensionFuture<'a, Vec<Measurement>> {
        let _ = nagaya;
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Called after each derived route that succeeded: may change the answer.
    fn after<'a>(&'a self, call: &'a Call, answer: &'a mut Answer) -> ExtensionFuture<'a, Result<(), Problem>> {
        let _ = (call, answer);
        Box::pin(async { Ok(()) })
    }
}

/// Signals background work to stop.
#[derive(Debug, Clone)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// A sender and the signal that it controls.
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, StopSignal(receiver))
    }

    /// Waits until it is time to stop.
    pub async fn wait(&mut self) {
        // A dropped sender means stop as well.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// The extension of a system that is only its design.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoExtension;

impl Extension for NoExtension {}

/// The handler of a custom route.
pub type CustomHandler = Arc<dyn Fn(Arc<Call>) -> ExtensionFuture<'static, Result<Answer, Problem>> + Send + Sync>;

/// A route of an extension, with its OpenAPI description.
#[derive(Clone)]
pub struct CustomRoute {
    /// The method.
    pub method: Method,
    /// The path without the design's prefix; parameters as `{name}`.
    pub path: String,
    /// Who may call it.
    pub caller: RequiredCaller,
    /// The entity and the verb that a role of the caller has to permit.
    pub requires: Option<(String, Verb)>,
    /// What it does, in a sentence.
    pub summary: String,
    /// The JSON Schema of the body; `None`: it takes none.
    pub body_schema: Option<Json>,
    /// Whether its handler gets the body as it was sent too, such as to verify a signature.
    pub keeps_raw_body: bool,
    /// The JSON Schema of `data` in its answer; `None`: 204 without a body.
    pub answer_schema: Option<Json>,
    /// The status of its answer.
    pub status: u16,
    /// Other statuses of its answers, and what they mean.
    pub other_statuses: Vec<(u16, &'static str)>,
    /// Whether `data` is a page, with a cursor to the next one beside it.
    pub is_paged: bool,
    /// The media type of an answer that is a stream.
    pub stream_media_type: Option<&'static str>,
    /// Parameters and headers that it takes besides those of its path, as OpenAPI describes them.
    pub parameters: Vec<Json>,
    pub(crate) handler: CustomHandler,
}

impl std::fmt::Debug for CustomRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl CustomRoute {
    /// A route for tenants that answers 200.
    pub fn new<F, A>(method: Method, path: &str, summary: &str, handler: F) -> Self
    where
        F: Fn(Arc<Call>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Answer, Problem>> + Send + 'static,
    {
        CustomRoute {
            method,
            path: path.to_owned(),
            caller: RequiredCaller::Tenant,
            requires: None,
            summary: summary.to_owned(),
            body_schema: None,
            keeps_raw_body: false,
            answer_schema: None,
            status: 200,
            other_statuses: Vec::new(),
            is_paged: false,
            stream_media_type: None,
            parameters: Vec::new(),
            handler: Arc::new(move |call| Box::pin(handler(call))),
        }
    }

    /// Who may call it.
    #[must_use]
    pub fn caller(mut self, reach: RequiredCaller) -> Self {
        self.caller = reach;
        self
    }

    /// The entity and the verb that a role of the caller has to permit.
    #[must_use]
    pub fn requires_permission(mut self, entity: &str, verb: Verb) -> Self {
        self.requires = Some((entity.to_owned(), verb));
        self
    }

    /// A parameter or header that it takes, as OpenAPI describes it.
    #[must_use]
    pub fn parameter(mut self, parameter: Json) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Its answer is a page of these.
    #[must_use]
    pub fn answers_pages_of(mut self, item: Json) -> Self {
        self.answer_schema = Some(serde_json::json!({ "type": "array", "items": item }));
        self.is_paged = true;
        self
    }

    /// Its answer is a stream of this media type, such as `text/event-stream`. The OpenAPI document marks it with
    /// `x-nagaya-stream`, so that programs do not wait for its end.
    #[must_use]
    pub fn answers_stream(mut self, media_type: &'static str) -> Self {
        self.stream_media_type = Some(media_type);
        self
    }

    /// The JSON Schema of its body.
    #[must_use]
    pub fn body(mut self, schema: Json) -> Self {
        self.body_schema = Some(schema);
        self
    }

    /// Its handler gets the body as it was sent too, as [`Call::raw_body`].
    #[must_use]
    pub fn keeps_raw_body(mut self) -> Self {
        self.keeps_raw_body = true;
        self
    }

    /// Another status that it answers with, and its meaning: below 400 with the same data, else with a problem.
    #[must_use]
    pub fn also_answers(mut self, status: u16, meaning: &'static str) -> Self {
        self.other_statuses.push((status, meaning));
        self
    }

    /// The status and the JSON Schema of its answer. A schema `{"$ref": "#/components/schemas/…"}` names an entity's.
    #[must_use]
    pub fn answers(mut self, status: u16, schema: Option<Json>) -> Self {
        self.status = status;
        self.answer_schema = schema;
        self
    }
}
