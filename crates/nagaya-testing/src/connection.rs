//! One raw connection to a server.

use axum::{
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::io::{AsyncRead, AsyncWrite};

/// One connection to a server, with one request at a time.
pub struct Connection {
    sender: SendRequest<Body>,
    token: Option<String>,
}

/// A response with a body of text.
#[derive(Debug)]
pub struct RawResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
}

impl Connection {
    /// A connection over a stream.
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Connection {
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        Connection { sender, token: None }
    }

    /// The same connection, with a token in each request.
    #[must_use]
    pub fn with_token(mut self, token: String) -> Connection {
        self.token = Some(token);
        self
    }

    /// Sends a GET request.
    pub async fn get(&mut self, path: &str) -> RawResponse {
        self.send(Method::GET, path, &[], Body::empty()).await
    }

    /// Sends a POST request.
    pub async fn post(&mut self, path: &str, body: &Json) -> RawResponse {
        let json = [("content-type", "application/json")];
        self.send(Method::POST, path, &json, Body::from(body.to_string())).await
    }

    /// Sends a request.
    pub async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> RawResponse {
        self.try_send(method, path, headers, body).await.expect("an answer")
    }

    /// Sends a request; an error when the connection ends before the response.
    pub async fn try_send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> hyper::Result<RawResponse> {
        let (parts, body) = self.begin(method, path, headers, body).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        Ok(RawResponse { status: parts.status, headers: parts.headers, text })
    }

    /// Sends a request, and does not read the body of its response yet.
    pub async fn begin(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> hyper::Result<hyper::Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.sender.ready().await?;
        self.sender.send_request(request.body(body).expect("a request")).await
    }

    /// Waits until the server has closed the connection.
    pub async fn wait_until_closed(&mut self) {
        while !self.sender.is_closed() {
            tokio::task::yield_now().await;
        }
    }
}

impl RawResponse {
    /// The body as JSON.
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?} is no JSON"))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a text"))
    }

    /// The status and code of a problem.
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        (self.status.as_u16(), self.json()["code"].as_str().expect("a code").to_owned())
    }
}
