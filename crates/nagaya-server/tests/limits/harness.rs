//! A server on this machine, with one small system in it.
//!
//! Several test programs use it, each its part.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{Method, StatusCode},
};
use futures_util::StreamExt as _;
use nagaya_embedded::{Embedded, Options};
use nagaya_server::{
    Answer, Call, Claims, Content, Extension, Grant, Issuer, Limits, LocalIssuer, Mounted, OwnRoute, Problem, Reach,
    Server, System, Verifier,
};
use nagaya_store::Clock;
use nagaya_tenancy::Nagaya;
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot, watch},
    task::JoinHandle,
};

use super::{
    client::Client,
    faults::{Faults, Faulty},
};

/// Notes of tenants, with something personal and something secret in them.
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
email    = { type = "string", format = "email", personal = true, optional = true }
password = { type = "string", max = 100, secret = true, optional = true }

[access.notes]
entity = "note"
"#;

/// A server that runs.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<Embedded>,
    /// The faults of the store.
    pub(crate) faults: Arc<Faults>,
    pub(crate) nagaya: Nagaya,
    pub(crate) mounted: Mounted,
    held: Held,
    issuer: Arc<LocalIssuer>,
    claims: Claims,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl TestServer {
    /// A server with these limits.
    pub(crate) async fn open(limits: Limits) -> TestServer {
        TestServer::open_with(limits, |_| ()).await
    }

    /// A server with these limits and settings, whose tables exist.
    pub(crate) async fn open_with(limits: Limits, set: impl FnOnce(&mut Server)) -> TestServer {
        let server = TestServer::open_empty(limits, set).await;
        server.nagaya.ensure().await.expect("the tables are created");
        server
    }

    /// A server whose store has no tables yet.
    pub(crate) async fn open_empty(limits: Limits, set: impl FnOnce(&mut Server)) -> TestServer {
        let store = Embedded::memory(Options::default()).expect("memory");
        TestServer::open_on(store, limits, set).await
    }

    pub(crate) async fn open_on(store: Embedded, limits: Limits, set: impl FnOnce(&mut Server)) -> TestServer {
        let design = nagaya_design::check(DESIGN, &[]).design.expect("the design is sound");
        let store = Arc::new(store);
        let faults = Arc::<Faults>::default();
        let nagaya = Nagaya::open(design.clone(), Faulty { store: Arc::clone(&store), faults: Arc::clone(&faults) });
        let issuer = Arc::new(LocalIssuer::in_memory().expect("a key"));
        let claims = Claims::of(&design);
        let verifier = Verifier::new(claims.clone(), Clock::system()).trust(&Issuer::local(&issuer), "desk");

        let held = Held::default();
        let mut server = Server::new(limits);
        set(&mut server);
        let mounted = server.mount("", System::new("desk", design, held.clone()), nagaya.clone(), verifier);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(server.run(listener, async {
            let _ = stopped.await;
        }));
        TestServer { address, store, faults, nagaya, mounted, held, issuer, claims, stop: Some(stop), running }
    }

    /// A token of a tenant's user.
    pub(crate) fn token(&self, tenant: &str, user: &str) -> String {
        let (tenant, ttl) = (Some(tenant).filter(|tenant| !tenant.is_empty()), Duration::from_secs(3600));
        let grant = Grant { audience: "desk", claims: &self.claims, user, tenant, roles: &[], member_of: &[], ttl };
        self.issuer.issue(&grant).expect("a token")
    }

    /// A connection of a tenant's user.
    pub(crate) async fn connect(&self, tenant: &str) -> Client {
        self.anonymous().await.with_token(self.token(tenant, "ann"))
    }

    /// A connection without a token.
    pub(crate) async fn anonymous(&self) -> Client {
        Client::over(self.stream().await).await
    }

    pub(crate) async fn stream(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server listens")
    }

    /// Waits until this many requests are blocked in the handler.
    pub(crate) async fn holding(&self, requests: usize) {
        let mut now = self.held.now.subscribe();
        now.wait_for(|held| *held == requests).await.expect("the server runs");
    }

    /// Releases this many blocked requests.
    pub(crate) fn release(&self, requests: usize) {
        self.held.exit.add_permits(requests);
    }

    /// Stops the server.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("it runs").send(());
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.running.is_finished()
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(self) {
        self.running.await.expect("it stops without a panic");
    }
}

/// The custom routes of the system.
#[derive(Clone)]
pub(crate) struct Held {
    now: Arc<watch::Sender<usize>>,
    exit: Arc<Semaphore>,
}

impl Default for Held {
    fn default() -> Self {
        Held { now: Arc::new(watch::Sender::new(0)), exit: Arc::new(Semaphore::new(0)) }
    }
}

impl Extension for Held {
    fn routes(&self) -> Vec<OwnRoute> {
        let held = self.clone();
        let hold = move |_: Arc<Call>| {
            let held = held.clone();
            async move {
                let _here = Here::new(&held.now);
                held.exit.acquire().await.map_err(|_| Problem::internal())?.forget();
                Ok(Answer::data(json!("held")))
            }
        };
        vec![
            OwnRoute::new(Method::GET, "/hold", "Waits until it is let go.", hold).reach(Reach::Anyone),
            OwnRoute::new(Method::GET, "/stream", "Three pieces, and then nothing until it is let go.", {
                let held = self.clone();
                move |_| {
                    let held = held.clone();
                    async move { Ok(stream(held)) }
                }
            })
            .reach(Reach::Anyone)
            .streams("text/event-stream"),
            OwnRoute::new(Method::GET, "/origin", "Where the request came from.", |call| async move {
                let origin = &call.origin;
                let said = json!({
                    "request": &*origin.request,
                    "correlation": &*origin.correlation,
                    "causation": origin.causation.as_deref(),
                    "address": origin.address.as_deref(),
                });
                Ok(Answer::data(said))
            }),
            OwnRoute::new(Method::POST, "/panic", "Panics with what it was sent.", |call| async move { fail(&call) })
                .body(json!({})),
        ]
    }
}

fn stream(held: Held) -> Answer {
    let pieces = futures_util::stream::iter(["one", "two", "three"]).map(Ok::<_, std::io::Error>);
    let last = futures_util::stream::once(async move {
        let _here = Here::new(&held.now);
        held.exit.acquire().await.map_err(std::io::Error::other)?.forget();
        Ok("four")
    });
    Answer::new(StatusCode::OK, Content::Stream("text/event-stream", Body::from_stream(pieces.chain(last))))
}

fn fail(call: &Call) -> Result<Answer, Problem> {
    panic!("cannot deal with {:?} of {}", call.body, call.caller.user)
}

/// Counts a request while it is in the handler.
struct Here(Arc<watch::Sender<usize>>);

impl Here {
    fn new(now: &Arc<watch::Sender<usize>>) -> Self {
        now.send_modify(|held| *held += 1);
        Here(Arc::clone(now))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.send_modify(|held| *held -= 1);
    }
}
