//! The product on a loopback port, with tokens of its own issuer and a clock that tests move.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_design::{Design, check};
use nagaya_embedded::{Embedded, Options};
use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, Server, Verifier};
use nagaya_store::{Clock, Store};
use nagaya_tenancy::{Ids, Nagaya, Settings};
use nagaya_todo::Notes;
use serde_json::{Value as Json, json};
use tokio::{runtime::Runtime, sync::oneshot};

/// 2030-01-01T00:00:00Z: far enough ahead that no server sweeps away what expires after it.
const START: i64 = 1_893_456_000_000;
const NAME: &str = "todo";

pub(crate) fn design() -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("design/todo.toml");
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
    pub(crate) runtime: Runtime,
    url: String,
    issuer: Arc<LocalIssuer>,
    claims: Claims,
    agent: ureq::Agent,
    _stop: oneshot::Sender<()>,
}

impl House {
    /// On a store in memory.
    pub(crate) fn in_memory() -> Self {
        let time = Time::new();
        let store = memory(&time);
        House::serve_on(runtime(), store, time)
    }

    /// On any store, by a runtime on which the store has been opened.
    pub(crate) fn serve_on(runtime: Runtime, store: Arc<dyn Store>, time: Time) -> Self {
        let design = design();
        let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
        let claims = Claims::of(&design);
        let settings = Settings { clock: time.clock(), ids: Ids::random(), ..Settings::default() };
        let nagaya = Nagaya::open_with(design.clone(), Arc::clone(&store), settings);
        let system = nagaya_todo::system(NAME, design, Notes::in_memory()).expect("the aggregate is there");
        let (stop, stopped) = oneshot::channel::<()>();
        let url = runtime.block_on(async {
            nagaya.ensure().await.expect("the tables are made");
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let verifier = Verifier::new(claims.clone(), Clock::system()).trust(&Issuer::local(&issuer), NAME);
            let mut server = Server::new(Limits::default());
            server.mount("", system, nagaya, verifier);
            tokio::spawn(server.run(listener, async { drop(stopped.await) }));
            url
        });
        // A connection each: the server may close one whose request it refused before the whole of it had come.
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(0)
            .timeout_global(Some(Duration::from_secs(60)));
        let agent = ureq::Agent::new_with_config(config.build());
        House { time, store, runtime, url, issuer, claims, agent, _stop: stop }
    }

    /// Somebody of a family.
    pub(crate) fn member(&self, family: &str, user: &str) -> Client<'_> {
        let grant = Grant {
            audience: NAME,
            claims: &self.claims,
            user,
            tenant: Some(family),
            roles: &[],
            member_of: &[],
            ttl: Duration::from_secs(3_600),
        };
        Client { house: self, token: Some(self.issuer.issue(&grant).expect("a token")), headers: Vec::new() }
    }

    /// Somebody without a token.
    pub(crate) fn nobody(&self) -> Client<'_> {
        Client { house: self, token: None, headers: Vec::new() }
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

pub(crate) fn memory(time: &Time) -> Arc<dyn Store> {
    Arc::new(Embedded::memory(Options { clock: time.clock(), ..Options::default() }).expect("memory"))
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Json,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// The data of an answer that has to have this status.
    #[track_caller]
    pub(crate) fn data(&self, status: u16) -> Json {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body.get("data").cloned().unwrap_or_default()
    }

    /// The list in an answer that has to be fine.
    #[track_caller]
    pub(crate) fn list(&self) -> Vec<Json> {
        self.data(200).as_array().expect("a list").clone()
    }

    /// A problem that has to have this status and code; what it points to.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Vec<String> {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{:#}", self.body);
        let errors = self.body["errors"].as_array().cloned().unwrap_or_default();
        let at = |error: &Json| error["pointer"].as_str().or(error["parameter"].as_str()).map(str::to_owned);
        errors.iter().filter_map(at).collect()
    }
}

/// Somebody who asks.
#[derive(Clone)]
pub(crate) struct Client<'h> {
    pub(crate) house: &'h House,
    token: Option<String>,
    headers: Vec<(String, String)>,
}

impl Client<'_> {
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
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

    /// Makes a todo; once the list has it.
    #[track_caller]
    pub(crate) fn make(&self, title: &str) -> Json {
        let made = self.post("/todos", &json!({ "title": title })).data(201);
        self.synced(&made).data(200);
        made
    }

    /// A todo once the list has what an answer says.
    #[track_caller]
    pub(crate) fn synced(&self, todo: &Json) -> Answer {
        self.get(&format!("/todos/{}?after={}", text(todo, "todoId"), text(todo, "lastEventId")))
    }

    /// A list that comes to have these titles: an index may follow its table soon, and not at once.
    #[track_caller]
    pub(crate) fn lists(&self, path: &str, titles: &[&str]) -> Answer {
        for _ in 0..200 {
            let answer = self.get(path);
            if titles_of(&answer.list()) == titles {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("{path}: {:?} instead of {titles:?}", titles_of(&self.get(path).list()));
    }

    /// Asks, a moment later than whoever asked before.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Json>) -> Answer {
        self.house.time.pass(Duration::from_millis(7));
        let mut response = self.open(method, path, body);
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect();
        let text = response.body_mut().read_to_string().expect("a body");
        let body = if text.is_empty() { json!(null) } else { serde_json::from_str(&text).expect("JSON") };
        Answer { status: response.status().as_u16(), headers, body }
    }

    /// Asks for something whose body has no end.
    pub(crate) fn open(&self, method: &str, path: &str, body: Option<&Json>) -> ureq::http::Response<ureq::Body> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.house.url));
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
        sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }
}

/// A text of an answer.
#[track_caller]
pub(crate) fn text<'j>(value: &'j Json, name: &str) -> &'j str {
    value[name].as_str().unwrap_or_else(|| panic!("`{name}` is no text in {value}"))
}

pub(crate) fn titles_of(list: &[Json]) -> Vec<&str> {
    list.iter().map(|todo| text(todo, "title")).collect()
}

/// The path of a todo.
pub(crate) fn path(todo: &Json) -> String {
    format!("/todos/{}", text(todo, "todoId"))
}
