//! One connection to a server.

use axum::{
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::net::TcpStream;

/// One connection to a server, with one request at a time.
pub(crate) struct Client {
    sender: SendRequest<Body>,
    token: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Client {
    pub(crate) async fn over(stream: TcpStream) -> Client {
        stream.set_nodelay(true).expect("a socket");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(connection);
        Client { sender, token: None }
    }

    pub(crate) fn with_token(mut self, token: String) -> Client {
        self.token = Some(token);
        self
    }

    pub(crate) async fn get(&mut self, path: &str) -> Got {
        self.send(Method::GET, path, &[], Body::empty()).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Json) -> Got {
        let json = [("content-type", "application/json")];
        self.send(Method::POST, path, &json, Body::from(body.to_string())).await
    }

    pub(crate) async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> Got {
        self.try_send(method, path, headers, body).await.expect("an answer")
    }

    /// The answer, unless the connection ended before it came.
    pub(crate) async fn try_send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> hyper::Result<Got> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(body).expect("a request")).await?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        Ok(Got { status: parts.status, headers: parts.headers, text })
    }

    /// Waits until the server has closed the connection.
    pub(crate) async fn closed(&mut self) {
        while !self.sender.is_closed() {
            tokio::task::yield_now().await;
        }
    }
}

impl Got {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?} is no JSON"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a text"))
    }

    /// Status and code of a problem.
    #[track_caller]
    pub(crate) fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        (self.status.as_u16(), self.json()["code"].as_str().expect("a code").to_owned())
    }
}
