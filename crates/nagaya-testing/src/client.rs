//! A blocking HTTP client of a test server.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::TestServer;

/// A response with a JSON body.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null when there is none.
    pub body: Json,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str())
    }

    /// The data of a response, which has to have this status.
    #[track_caller]
    pub fn expect_data(&self, status: u16) -> Json {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body.get("data").cloned().unwrap_or_default()
    }

    /// The list in a response, which has to be 200.
    #[track_caller]
    pub fn list(&self) -> Vec<Json> {
        self.expect_data(200).as_array().expect("a list").clone()
    }

    /// The pointers and parameters of a problem, which has to have this status and code.
    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str) -> Vec<String> {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{:#}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["requestId"].as_str(), self.header("x-request-id"));
        let errors = self.body["errors"].as_array().cloned().unwrap_or_default();
        let at = |error: &Json| error["pointer"].as_str().or(error["parameter"].as_str()).map(str::to_owned);
        errors.iter().filter_map(at).collect()
    }
}

/// A request of a client and its response.
pub struct Exchange<'e> {
    /// The client: tenant, user and roles.
    pub client: &'e str,
    /// The method.
    pub method: &'e str,
    /// The path after the prefix.
    pub path: &'e str,
    /// The body of the request.
    pub body: Option<&'e Json>,
    /// The response.
    pub response: &'e Response,
}

/// A user of a system, or an anonymous visitor.
#[derive(Clone)]
pub struct Client<'s> {
    /// The server.
    pub server: &'s TestServer,
    name: String,
    token: Option<String>,
    headers: Vec<(String, String)>,
}

impl<'s> Client<'s> {
    pub(crate) fn new(server: &'s TestServer, name: String, token: Option<String>) -> Self {
        Client { server, name, token, headers: Vec::new() }
    }

    /// The same client, with a header.
    #[must_use]
    pub fn with_header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    /// The same client, without a header.
    #[must_use]
    pub fn without_header(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.retain(|(each, _)| each != name);
        client
    }

    /// The same client, with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Client { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, None)
    }

    /// Sends a POST request.
    pub fn post(&self, path: &str, body: &Json) -> Response {
        self.send("POST", path, Some(body))
    }

    /// Sends a POST request without a body.
    pub fn post_empty(&self, path: &str) -> Response {
        self.send("POST", path, None)
    }

    /// Sends a PATCH request.
    pub fn patch(&self, path: &str, body: &Json) -> Response {
        self.send("PATCH", path, Some(body))
    }

    /// Sends a PUT request without a body.
    pub fn put(&self, path: &str) -> Response {
        self.send("PUT", path, None)
    }

    /// Sends a DELETE request.
    pub fn delete(&self, path: &str) -> Response {
        self.send("DELETE", path, None)
    }

    /// Sends GET requests until the response is as expected: indexes and projections may lag behind.
    #[track_caller]
    pub fn get_until(&self, path: &str, expected: impl Fn(&Response) -> bool) -> Response {
        let mut response = self.request("GET", path, None);
        for _ in 0..400 {
            if expected(&response) {
                self.observe("GET", path, None, &response);
                return response;
            }
            std::thread::sleep(Duration::from_millis(25));
            response = self.request("GET", path, None);
        }
        panic!("{path} does not become as expected: {:#}", response.body);
    }

    /// Sends a request, and tells the observer.
    pub fn send(&self, method: &str, path: &str, body: Option<&Json>) -> Response {
        let response = self.request(method, path, body);
        self.observe(method, path, body, &response);
        response
    }

    /// Sends a request, and does nothing else.
    pub fn request(&self, method: &str, path: &str, body: Option<&Json>) -> Response {
        let body = body.map(|body| body.to_string().into_bytes());
        self.request_bytes(method, path, body.as_deref())
    }

    /// Sends a request with a body that may be no JSON.
    pub fn request_bytes(&self, method: &str, path: &str, body: Option<&[u8]>) -> Response {
        let mut response = self.open_response(method, path, body);
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect();
        let text = response.body_mut().read_to_string().expect("a body");
        let body = if text.is_empty() { json!(null) } else { serde_json::from_str(&text).expect("JSON") };
        Response { status: response.status().as_u16(), headers, body }
    }

    /// Sends a request whose response may be a stream without an end.
    pub fn open_response(&self, method: &str, path: &str, body: Option<&[u8]>) -> ureq::http::Response<ureq::Body> {
        let TestServer { url, http, .. } = self.server;
        let uri = format!("{url}{}{path}", http.path_prefix);
        let mut request = ureq::http::Request::builder().method(method).uri(uri);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() && !self.headers.iter().any(|(name, _)| name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let sent = http.agent.run(request.body(body.unwrap_or_default().to_vec()).expect("a request"));
        sent.unwrap_or_else(|error| panic!("{} {method} {path}: {error}", self.name))
    }

    fn observe(&self, method: &str, path: &str, body: Option<&Json>, response: &Response) {
        if let Some(observer) = &self.server.http.observer {
            observer(&Exchange { client: &self.name, method, path, body, response });
        }
    }
}

/// A text in a JSON object.
#[track_caller]
pub fn text<'j>(value: &'j Json, name: &str) -> &'j str {
    value[name].as_str().unwrap_or_else(|| panic!("`{name}` is no text in {value}"))
}
