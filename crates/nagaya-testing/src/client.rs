//! Somebody who asks, and what is answered.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::House;

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Its body; null where it has none.
    pub body: Json,
}

impl Answer {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// The data of an answer that has to have this status.
    #[track_caller]
    pub fn data(&self, status: u16) -> Json {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body.get("data").cloned().unwrap_or_default()
    }

    /// The list in an answer that has to be fine.
    #[track_caller]
    pub fn list(&self) -> Vec<Json> {
        self.data(200).as_array().expect("a list").clone()
    }

    /// A problem that has to have this status and code; what it points to.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Vec<String> {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{:#}", self.body);
        let errors = self.body["errors"].as_array().cloned().unwrap_or_default();
        let at = |error: &Json| error["pointer"].as_str().or(error["parameter"].as_str()).map(str::to_owned);
        errors.iter().filter_map(at).collect()
    }
}

/// Somebody who asks.
#[derive(Clone)]
pub struct Client<'h> {
    /// Where.
    pub house: &'h House,
    token: Option<String>,
    headers: Vec<(String, String)>,
}

impl<'h> Client<'h> {
    pub(crate) fn new(house: &'h House, token: Option<String>) -> Self {
        Client { house, token, headers: Vec::new() }
    }

    /// The same, with a header.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    /// Reads.
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    /// Makes, or does.
    pub fn post(&self, path: &str, body: &Json) -> Answer {
        self.send("POST", path, Some(body))
    }

    /// Does what needs nothing said.
    pub fn post_nothing(&self, path: &str) -> Answer {
        self.send("POST", path, None)
    }

    /// Changes.
    pub fn patch(&self, path: &str, body: &Json) -> Answer {
        self.send("PATCH", path, Some(body))
    }

    /// Puts.
    pub fn put(&self, path: &str) -> Answer {
        self.send("PUT", path, None)
    }

    /// Deletes.
    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    /// Asks until the answer is as it should be: an index, or what follows changes, comes soon and not at once.
    #[track_caller]
    pub fn until(&self, path: &str, fine: impl Fn(&Answer) -> bool) -> Answer {
        let mut answer = self.get(path);
        for _ in 0..400 {
            if fine(&answer) {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(25));
            answer = self.get(path);
        }
        panic!("{path} does not become as it should be: {:#}", answer.body);
    }

    /// Asks, a moment later than whoever asked before.
    pub fn send(&self, method: &str, path: &str, body: Option<&Json>) -> Answer {
        self.house.time.pass(Duration::from_millis(7));
        let mut response = self.open(method, path, body);
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect();
        let text = response.body_mut().read_to_string().expect("a body");
        let body = if text.is_empty() { json!(null) } else { serde_json::from_str(&text).expect("JSON") };
        Answer { status: response.status().as_u16(), headers, body }
    }

    /// Asks for something whose body may have no end.
    pub fn open(&self, method: &str, path: &str, body: Option<&Json>) -> ureq::http::Response<ureq::Body> {
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
pub fn text<'j>(value: &'j Json, name: &str) -> &'j str {
    value[name].as_str().unwrap_or_else(|| panic!("`{name}` is no text in {value}"))
}
