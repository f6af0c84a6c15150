//! Smoke tests: an end-to-end check of a system's API, against a server that runs.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nagaya_store::{Item, Key, Store};
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;

use crate::http_agent;

/// How long one response may take.
const RESPONSE_LIMIT: Duration = Duration::from_secs(30);
/// How long derived data may take to show a change.
const CONVERGENCE_LIMIT: Duration = Duration::from_secs(20);

/// Checks a system. It deletes what it has created, whether it fails or not.
pub type SmokeTest = fn(&SmokeClient, &mut SmokeReport) -> Result<(), SmokeError>;

/// Why a step failed.
pub type SmokeError = Box<dyn std::error::Error + Send + Sync>;

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmokeUser {
    /// The user of the first token.
    First,
    /// The user of the second token, who is the first one if only one token was given.
    Second,
    /// No token.
    Anonymous,
}

/// Sends requests to one system on one server.
pub struct SmokeClient {
    agent: ureq::Agent,
    base: String,
    prefix: String,
    tokens: [String; 2],
    table: Option<StoredTable>,
}

/// The first table of the system in its store, where it can be read beside the server.
pub struct StoredTable {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The name of the table there.
    pub name: String,
    /// The runtime that reads.
    pub runtime: Handle,
}

impl SmokeClient {
    /// A client of the server at this address, for routes below a prefix.
    pub fn new(url: &str, prefix: &str, tokens: [String; 2], table: Option<StoredTable>) -> Self {
        let base = url.trim_end_matches('/').to_owned();
        SmokeClient { agent: http_agent(RESPONSE_LIMIT), base, prefix: prefix.to_owned(), tokens, table }
    }

    /// The address of the system.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether both tokens are those of one user.
    pub fn has_one_user(&self) -> bool {
        self.tokens[0] == self.tokens[1]
    }

    /// Finds the system on the server: at the root if it is served alone, else below its name.
    pub fn locate(mut self, name: &str) -> Result<Self, SmokeError> {
        for path in [String::new(), format!("/{name}")] {
            let url = format!("{}{path}/openapi.json", self.base);
            let answer = self.agent.get(&url).call();
            let answer = answer.map_err(|error| format!("{} cannot be reached: {error}", self.base))?;
            if answer.status() != 404 {
                self.base += &path;
                return Ok(self);
            }
        }
        Err(format!("{} does not serve {name}", self.base).into())
    }

    /// Sends a request that has to be answered with this status; the `data` of the response.
    pub fn request(
        &self,
        user: SmokeUser,
        method: &str,
        path: &str,
        body: Option<Json>,
        expected: u16,
    ) -> Result<Json, SmokeError> {
        let (status, answer) = self.send(user, method, path, body, &[])?;
        if status != expected {
            return Err(format!("{method} {path} answered {status} instead of {expected}: {answer}").into());
        }
        Ok(answer.get("data").cloned().unwrap_or_default())
    }

    /// The `data` of a successful GET.
    pub fn get(&self, user: SmokeUser, path: &str) -> Result<Json, SmokeError> {
        self.request(user, "GET", path, None, 200)
    }

    /// Repeats a GET until its data is as expected: derived data follows changes with a delay.
    pub fn get_until(&self, user: SmokeUser, path: &str, expected: impl Fn(&Json) -> bool) -> Result<Json, SmokeError> {
        let began = Instant::now();
        loop {
            let data = self.get(user, path)?;
            if expected(&data) {
                return Ok(data);
            }
            if began.elapsed() > CONVERGENCE_LIMIT {
                return Err(format!("{path} does not become as expected; it is {data}").into());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends a request with headers; the status and the body of the response.
    pub fn send(
        &self,
        user: SmokeUser,
        method: &str,
        path: &str,
        body: Option<Json>,
        headers: &[(&str, &str)],
    ) -> Result<(u16, Json), SmokeError> {
        // A URL has no characters outside ASCII.
        let encoded = percent_encoding::utf8_percent_encode(path, percent_encoding::CONTROLS);
        let url = format!("{}{}{encoded}", self.base, self.prefix);
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        let token = match user {
            SmokeUser::First => Some(&self.tokens[0]),
            SmokeUser::Second => Some(&self.tokens[1]),
            SmokeUser::Anonymous => None,
        };
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let exchange = || -> Result<(u16, Json), SmokeError> {
            let mut answer = self.agent.run(request.body(body)?)?;
            let text = answer.body_mut().read_to_string()?;
            let body = if text.is_empty() { Json::Null } else { serde_json::from_str(&text)? };
            Ok((answer.status().as_u16(), body))
        };
        exchange().map_err(|error| format!("{method} {path}: {error}").into())
    }

    /// Whether items can be read from the store, beside the server.
    pub fn reads_store(&self) -> bool {
        self.table.is_some()
    }

    /// An item of the system's first table, read from the store.
    pub fn stored_item(&self, key: &Key) -> Result<Option<Item>, SmokeError> {
        let Some(StoredTable { store, name, runtime }) = &self.table else { return Ok(None) };
        Ok(runtime.block_on(store.get(name, key))?)
    }
}

/// The steps of a smoke test so far.
pub struct SmokeReport {
    /// Whether each step is printed when it ends.
    prints: bool,
    steps: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    /// Why it failed, or why it was skipped.
    note: Option<String>,
    ok: bool,
}

impl SmokeReport {
    /// A report that prints each step, or is silent until its end.
    pub fn new(prints: bool) -> Self {
        SmokeReport { prints, steps: Vec::new() }
    }

    /// Runs a step.
    pub fn step<T>(
        &mut self,
        name: &'static str,
        run: impl FnOnce() -> Result<T, SmokeError>,
    ) -> Result<T, SmokeError> {
        let began = Instant::now();
        let result = run();
        let note = result.as_ref().err().map(ToString::to_string);
        self.add(Step { name, took: began.elapsed(), ok: note.is_none(), note });
        result.map_err(|error| format!("failed at: {name}: {error}").into())
    }

    /// Skips a step, and says why.
    pub fn skip(&mut self, name: &'static str, why: &str) {
        self.add(Step { name, took: Duration::ZERO, note: Some(why.to_owned()), ok: true });
    }

    /// How many steps there were, and how many of them were skipped.
    pub fn summary(&self) -> String {
        let all = self.steps.len();
        match self.steps.iter().filter(|step| step.ok && step.note.is_some()).count() {
            0 => format!("{all} steps, all fine"),
            skipped => format!("{all} steps, {skipped} skipped, all others fine"),
        }
    }

    /// The steps as JSON.
    pub fn json(&self) -> Vec<Json> {
        let step = |step: &Step| json!({ "name": step.name, "ok": step.ok, "durationMs": step.took.as_secs_f64() * 1e3, "note": step.note });
        self.steps.iter().map(step).collect()
    }

    fn add(&mut self, step: Step) {
        if self.prints {
            let outcome = match (step.ok, &step.note) {
                (false, _) => "failed",
                (true, Some(_)) => "skipped",
                (true, None) => "ok",
            };
            let note = step.note.as_ref().map(|note| format!("  {note}")).unwrap_or_default();
            println!("{outcome:>8}  {:>7.1} ms  {}{note}", step.took.as_secs_f64() * 1e3, step.name);
        }
        self.steps.push(step);
    }
}
