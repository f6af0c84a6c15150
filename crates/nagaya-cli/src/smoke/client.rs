//! Somebody who asks a server.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long what follows later may take.
const SOON: Duration = Duration::from_secs(20);

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Cook,
    Guest,
    /// Somebody without a token.
    Visitor,
}

/// Asks one server.
pub(super) struct Client {
    agent: ureq::Agent,
    base: String,
    tokens: [String; 2],
}

impl Client {
    pub(super) fn new(url: &str, tokens: [String; 2]) -> Self {
        Client { agent: nagaya_server::http_agent(PATIENCE), base: url.trim_end_matches('/').to_owned(), tokens }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Whether cook and guest are the same.
    pub(super) fn is_one(&self) -> bool {
        self.tokens[0] == self.tokens[1]
    }

    /// The same, where the system is: at the root if it is served alone, else below its name.
    pub(super) fn found(mut self, name: &str) -> anyhow::Result<Self> {
        for below in [String::new(), format!("/{name}")] {
            let url = format!("{}{below}/v1/catalog/recipes", self.base);
            let answer = self.agent.get(&url).call().with_context(|| format!("{} cannot be reached", self.base))?;
            if answer.status() != 404 {
                self.base += &below;
                return Ok(self);
            }
        }
        bail!("{} does not serve {name}", self.base)
    }

    /// Asks, and expects this status; the data of the answer.
    pub(super) fn ask(
        &self,
        who: Who,
        method: &str,
        path: &str,
        body: Option<Json>,
        expected: u16,
    ) -> anyhow::Result<Json> {
        let (status, answer) = self.send(who, method, path, body, &[])?;
        ensure!(status == expected, "{method} {path} answered {status} instead of {expected}: {answer}");
        Ok(answer.get("data").cloned().unwrap_or_default())
    }

    pub(super) fn get(&self, who: Who, path: &str) -> anyhow::Result<Json> {
        self.ask(who, "GET", path, None, 200)
    }

    /// Asks until the answer is as it should be: what follows changes comes soon, and not at once.
    pub(super) fn until(&self, who: Who, path: &str, fine: impl Fn(&Json) -> bool) -> anyhow::Result<Json> {
        let began = Instant::now();
        loop {
            let data = self.get(who, path)?;
            if fine(&data) {
                return Ok(data);
            }
            ensure!(began.elapsed() < SOON, "{path} does not become as it should be; it is {data}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asks with headers; the status, and the body.
    pub(super) fn send(
        &self,
        who: Who,
        method: &str,
        path: &str,
        body: Option<Json>,
        headers: &[(&str, &str)],
    ) -> anyhow::Result<(u16, Json)> {
        // What is no ASCII cannot stand in a URL as it is.
        let encoded = percent_encoding::utf8_percent_encode(path, percent_encoding::CONTROLS);
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}/v1{encoded}", self.base));
        let token = match who {
            Who::Cook => Some(&self.tokens[0]),
            Who::Guest => Some(&self.tokens[1]),
            Who::Visitor => None,
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
        let asked = || format!("{method} {path}");
        let mut answer = self.agent.run(request.body(body).with_context(asked)?).with_context(asked)?;
        let text = answer.body_mut().read_to_string().with_context(asked)?;
        let body = if text.is_empty() { Json::Null } else { serde_json::from_str(&text).with_context(asked)? };
        Ok((answer.status().as_u16(), body))
    }
}
