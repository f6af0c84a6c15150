//! The product on a loopback port, with tokens of its own issuer, a clock that tests move, and a record of what was said.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_design::{Design, check};
use nagaya_embedded::{Embedded, Options};
use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, Server, Verifier};
use nagaya_store::{Clock, Store};
use nagaya_tenancy::{Ids, Nagaya, Settings};
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

use crate::transcript::Transcript;

/// What `{base}` in table names stands for, as in the documents.
pub(crate) const BASE: &str = "aiagent-dev";
/// 2030-01-01T00:00:00Z: far enough ahead that no server sweeps away what expires after it.
pub(crate) const START: i64 = 1_893_456_000_000;
/// The name of the system, which tokens are for.
const NAME: &str = "aiagent";

/// A design of the product: `single` or `multi`.
pub(crate) fn design(name: &str) -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("design/{name}.toml"));
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design is sound")
}

/// The time, which only tests move.
#[derive(Clone)]
pub(crate) struct Time(Arc<AtomicI64>);

impl Time {
    pub(crate) fn new() -> Self {
        Time(Arc::new(AtomicI64::new(START)))
    }

    pub(crate) fn clock(&self) -> Clock {
        let now = Arc::clone(&self.0);
        Clock::new(move || now.load(Ordering::SeqCst))
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_millis()).expect("not that long"), Ordering::SeqCst);
    }
}

/// The product, served until this is dropped.
pub(crate) struct House {
    pub(crate) time: Time,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) design: Design,
    pub(crate) runtime: Runtime,
    pub(crate) transcript: Mutex<Transcript>,
    url: String,
    issuer: Arc<LocalIssuer>,
    claims: Claims,
    agent: ureq::Agent,
}

impl House {
    /// On a store in memory.
    pub(crate) fn in_memory(design_name: &str) -> Self {
        let time = Time::new();
        let options = Options { clock: time.clock(), ..Options::default() };
        let store = Arc::new(Embedded::memory(options).expect("memory"));
        House::serve(design_name, store, time)
    }

    /// On any store.
    pub(crate) fn serve(design_name: &str, store: Arc<dyn Store>, time: Time) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        House::serve_on(runtime.expect("a runtime"), design_name, store, time)
    }

    /// On any store, by a runtime on which the store has been opened.
    pub(crate) fn serve_on(runtime: Runtime, design_name: &str, store: Arc<dyn Store>, time: Time) -> Self {
        let design = design(design_name);
        let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
        let claims = Claims::of(&design);
        let ids = Ids::counted();
        let settings = Settings {
            base: Some(BASE.to_owned()),
            clock: time.clock(),
            ids: ids.clone(),
            index_lag: Duration::from_millis(100),
            ..Settings::default()
        };
        let nagaya = Nagaya::open_with(design.clone(), Arc::clone(&store), settings);
        let system = nagaya_aiagent::system_with(NAME, design.clone(), time.clock(), ids);
        let url = runtime.block_on(async {
            nagaya.ensure().await.expect("the tables are made");
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let verifier = Verifier::new(claims.clone(), Clock::system()).trust(&Issuer::local(&issuer), NAME);
            let mut server = Server::new(Limits::default());
            server.mount("", system, nagaya, verifier);
            tokio::spawn(server.run(listener, std::future::pending()));
            url
        });
        // A connection each: the server may close one whose request it refused before the whole of it had come.
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).max_idle_connections(0);
        let (agent, transcript) = (ureq::Agent::new_with_config(config.build()), Mutex::default());
        House { time, store, design, runtime, transcript, url, issuer, claims, agent }
    }

    /// Somebody with these roles in a tenant.
    pub(crate) fn user(&self, tenant: &str, user: &str, roles: &[&str]) -> Client<'_> {
        self.client(Some(tenant), user, roles)
    }

    /// An administrator of a tenant.
    pub(crate) fn admin(&self, tenant: &str) -> Client<'_> {
        self.user(tenant, "admin-1", &["admin"])
    }

    /// Somebody with a good token that names no tenant.
    pub(crate) fn stranger(&self, user: &str) -> Client<'_> {
        self.client(None, user, &[])
    }

    /// Somebody who runs the platform, and says why.
    pub(crate) fn operator(&self, user: &str) -> Client<'_> {
        self.client(None, user, &["operator"]).with("nagaya-reason", "a test")
    }

    /// Somebody without a token.
    pub(crate) fn nobody(&self) -> Client<'_> {
        Client { house: self, name: "nobody".to_owned(), token: None, headers: Vec::new() }
    }

    fn client(&self, tenant: Option<&str>, user: &str, roles: &[&str]) -> Client<'_> {
        let name = format!("{}/{user} {roles:?}", tenant.unwrap_or("-"));
        let roles: Vec<String> = roles.iter().map(|&role| role.to_owned()).collect();
        let (claims, ttl) = (&self.claims, Duration::from_secs(3_600));
        let grant = Grant { audience: NAME, claims, user, tenant, roles: &roles, member_of: &[], ttl };
        let token = Some(self.issuer.issue(&grant).expect("a token"));
        Client { house: self, name, token, headers: Vec::new() }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Json,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// The data of an answer that has to have this status.
    #[track_caller]
    pub(crate) fn data(self, status: u16) -> Json {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body.get("data").cloned().unwrap_or_default()
    }

    /// The list in an answer that has to be fine.
    #[track_caller]
    pub(crate) fn list(self) -> Vec<Json> {
        self.data(200).as_array().expect("a list").clone()
    }

    /// A problem that has to have this status and code; the pointers to what is wrong.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Vec<String> {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{:#}", self.body);
        let errors = self.body["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().filter_map(|error| error["pointer"].as_str().map(str::to_owned)).collect()
    }
}

/// Somebody who asks.
#[derive(Clone)]
pub(crate) struct Client<'h> {
    house: &'h House,
    name: String,
    token: Option<String>,
    headers: Vec<(String, String)>,
}

impl Client<'_> {
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    /// Without one of the headers.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.retain(|(each, _)| each != name);
        client
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Json) -> Answer {
        self.send("POST", path, Some(body))
    }

    pub(crate) fn patch(&self, path: &str, body: &Json) -> Answer {
        self.send("PATCH", path, Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Asks a second later than the one before, and writes down what was said.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Json>) -> Answer {
        self.house.time.pass(Duration::from_secs(1));
        let answer = self.ask(method, path, body);
        self.note(method, path, body, &answer);
        answer
    }

    /// A list that comes to hold so many: the indexes of some stores follow soon, and not at once.
    #[track_caller]
    pub(crate) fn lists(&self, path: &str, many: usize) -> Vec<Json> {
        self.house.time.pass(Duration::from_secs(1));
        for _ in 0..100 {
            let answer = self.ask("GET", path, None);
            if answer.status != 200 || answer.body["data"].as_array().is_some_and(|list| list.len() == many) {
                self.note("GET", path, None, &answer);
                return answer.list();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let found = self.ask("GET", path, None).list();
        panic!("{path}: {} instead of {many}: {found:#?}", found.len());
    }

    /// Asks, and nothing else.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Json>) -> Answer {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}/v1{path}", self.house.url));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let sent = self.house.agent.run(request.body(body).expect("a request"));
        let mut response = sent.unwrap_or_else(|error| panic!("{} {method} {path}: {error}", self.name));
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect();
        let text = response.body_mut().read_to_string().expect("a body");
        let body = if text.is_empty() { json!(null) } else { serde_json::from_str(&text).expect("JSON") };
        Answer { status: response.status().as_u16(), headers, body }
    }

    fn note(&self, method: &str, path: &str, body: Option<&Json>, answer: &Answer) {
        let mut transcript = self.house.transcript.lock().expect("nobody panics with it");
        transcript.add(&self.name, method, path, body, answer);
    }
}
