//! A small system on a test server. Several test programs use it.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Method, StatusCode},
};
use futures_util::StreamExt as _;
use nagaya_server::{Answer, Call, Content, CustomRoute, Extension, Limits, Problem, RequiredCaller, Server, System};
use nagaya_store::Store;
use nagaya_testing::{
    Connection, InstrumentedStore, ManualClock, TestServer, TestServerBuilder, memory_store, parse_design,
};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

/// Bytes of the answer of `/large`.
pub(crate) const LARGE: usize = 8 * 1024 * 1024;

/// Notes of tenants, with a long, a personal and a secret field.
pub(crate) const DESIGN: &str = r#"
name    = "desk"
version = "1.0"

[tenant]
field  = "tenantId"
claim  = "tenantId"

[table.main]
name = "{base}-main"
key  = ["PK", "SK"]

[entity.note]
table = "main"
key   = { PK = "TENANT#{tenantId}", SK = "NOTE#{noteId}" }

[entity.note.fields]
tenantId = { type = "string", min = 1, max = 64 }
noteId   = { type = "ulid", default = "new" }
title    = { type = "string", max = 100 }
text     = { type = "string", max = 90_000, optional = true }
email    = { type = "string", format = "email", personal = true, optional = true }
password = { type = "string", max = 100, secret = true, optional = true }

[access.notes]
entity = "note"
"#;

/// The desk on a test server, whose store injects faults.
pub(crate) struct Desk {
    pub(crate) server: TestServer,
    pub(crate) store: Arc<InstrumentedStore>,
    held: HoldExtension,
}

impl Desk {
    /// A server with these limits.
    pub(crate) async fn open(limits: Limits) -> Desk {
        Desk::open_with(limits, |_| ()).await
    }

    /// A server with these limits and settings.
    pub(crate) async fn open_with(limits: Limits, configure: impl FnOnce(&mut Server) + 'static) -> Desk {
        let clock = ManualClock::default();
        Desk::serve(memory_store(&clock), |server| server.limits(limits).configure(configure)).await
    }

    /// A server whose store has no tables yet.
    pub(crate) async fn without_tables() -> Desk {
        Desk::serve(memory_store(&ManualClock::default()), TestServerBuilder::without_tables).await
    }

    pub(crate) async fn serve(
        store: Arc<dyn Store>,
        build: impl FnOnce(TestServerBuilder) -> TestServerBuilder,
    ) -> Desk {
        let (held, store) = (HoldExtension::default(), InstrumentedStore::new(store));
        let server = TestServer::builder(System::new("desk", parse_design(DESIGN), held.clone()));
        let server = build(server.store(store.clone(), &ManualClock::default())).serve().await;
        Desk { server, store, held }
    }

    /// A connection of a tenant's user.
    pub(crate) async fn connect(&self, tenant: &str) -> Connection {
        self.server.connect_as(tenant, "ann").await
    }

    /// Waits until so many requests are held.
    pub(crate) async fn wait_until_held(&self, requests: usize) {
        let mut now = self.held.now.subscribe();
        now.wait_for(|held| *held == requests).await.expect("the server runs");
    }

    /// Releases so many of the held requests.
    pub(crate) fn release(&self, requests: usize) {
        self.held.exit.add_permits(requests);
    }
}

/// Custom routes: requests that wait until the test releases them, and some that fail.
#[derive(Clone)]
pub(crate) struct HoldExtension {
    now: Arc<watch::Sender<usize>>,
    exit: Arc<Semaphore>,
}

impl Default for HoldExtension {
    fn default() -> Self {
        HoldExtension { now: Arc::new(watch::Sender::new(0)), exit: Arc::new(Semaphore::new(0)) }
    }
}

impl Extension for HoldExtension {
    fn routes(&self) -> Vec<CustomRoute> {
        let held = self.clone();
        let hold = move |_: Arc<Call>| {
            let held = held.clone();
            async move {
                let _here = HeldRequest::new(&held.now);
                held.exit.acquire().await.map_err(|_| Problem::internal())?.forget();
                Ok(Answer::data(json!("held")))
            }
        };
        vec![
            CustomRoute::new(Method::GET, "/hold", "Waits until it is let go.", hold).caller(RequiredCaller::Anyone),
            CustomRoute::new(Method::GET, "/stream", "Three pieces, and then nothing until it is let go.", {
                let held = self.clone();
                move |_| {
                    let held = held.clone();
                    async move { Ok(stream(held)) }
                }
            })
            .caller(RequiredCaller::Anyone)
            .answers_stream("text/event-stream"),
            CustomRoute::new(Method::GET, "/large", "More than the buffers of a connection take.", |_| async {
                Ok(Answer::data("x".repeat(LARGE).into()))
            }),
            CustomRoute::new(Method::PUT, "/slot", "Does nothing.", |_| async { Ok(Answer::no_content()) }),
            CustomRoute::new(Method::POST, "/large", "The same of a write.", |_| async {
                Ok(Answer::data("x".repeat(LARGE).into()))
            }),
            CustomRoute::new(Method::GET, "/origin", "Where the request came from.", |call| async move {
                let origin = &call.origin;
                let origin = json!({
                    "request": &*origin.request,
                    "correlation": &*origin.correlation,
                    "causation": origin.causation.as_deref(),
                    "address": origin.address.as_deref(),
                });
                Ok(Answer::data(origin))
            }),
            CustomRoute::new(
                Method::POST,
                "/panic",
                "Panics with what it was sent.",
                |call| async move { fail(&call) },
            )
            .body(json!({})),
        ]
    }
}

fn stream(held: HoldExtension) -> Answer {
    let pieces = futures_util::stream::iter(["one", "two", "three"]).map(Ok::<_, std::io::Error>);
    let last = futures_util::stream::once(async move {
        let _here = HeldRequest::new(&held.now);
        held.exit.acquire().await.map_err(std::io::Error::other)?.forget();
        Ok("four")
    });
    Answer::new(StatusCode::OK, Content::Stream("text/event-stream", Body::from_stream(pieces.chain(last))))
}

fn fail(call: &Call) -> Result<Answer, Problem> {
    panic!("cannot deal with {:?} of {}", call.body, call.caller.user)
}

/// Counts a request as held until it ends, however it ends.
struct HeldRequest(Arc<watch::Sender<usize>>);

impl HeldRequest {
    fn new(now: &Arc<watch::Sender<usize>>) -> Self {
        now.send_modify(|held| *held += 1);
        HeldRequest(Arc::clone(now))
    }
}

impl Drop for HeldRequest {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}
