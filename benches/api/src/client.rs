//! A client for requests that are not measured: setup, loading and checks.

use anyhow::{Context as _, ensure};
use serde_json::Value as Json;
use ureq::{Agent, Body, http::Response};

#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    token: String,
}

impl Client {
    pub(crate) fn new(base: &str, token: &str) -> Self {
        let agent = Agent::config_builder().http_status_as_error(false).build().into();
        Client { agent, base: base.to_owned(), token: token.to_owned() }
    }

    /// The same API with another token.
    pub(crate) fn with(&self, token: &str) -> Self {
        Client::new(&self.base, token)
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Answer> {
        let request = self.agent.get(format!("{}{path}", self.base));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        Answer::from_response(request.call().with_context(|| format!("GET {path}"))?)
    }

    pub(crate) fn post(&self, path: &str, body: &Json) -> anyhow::Result<Answer> {
        let request = self.agent.post(format!("{}{path}", self.base));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        Answer::from_response(request.send_json(body).with_context(|| format!("POST {path}"))?)
    }

    pub(crate) fn patch(&self, path: &str, body: &Json) -> anyhow::Result<Answer> {
        let request = self.agent.patch(format!("{}{path}", self.base));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        Answer::from_response(request.send_json(body).with_context(|| format!("PATCH {path}"))?)
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    fn from_response(mut response: Response<Body>) -> anyhow::Result<Self> {
        Ok(Answer { status: response.status().as_u16(), body: response.body_mut().read_to_string()? })
    }

    /// The body as JSON; an error if the request was refused.
    pub(crate) fn json(&self) -> anyhow::Result<Json> {
        ensure!((200..300).contains(&self.status), "the server answers {}: {}", self.status, self.body);
        serde_json::from_str(&self.body).context("the server does not answer with JSON")
    }
}
