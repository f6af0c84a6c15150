//! A server on a loopback port, with tokens of its own issuer.

use std::{sync::Arc, time::Duration};

use nagaya_design::{Design, check};
use nagaya_embedded::{Embedded, Options};
use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, Server, System, Verifier};
use nagaya_store::Clock;
use nagaya_tenancy::Nagaya;
use serde_json::{Value as Json, json};

/// A system that is served until it is dropped.
pub(crate) struct TestServer {
    pub(crate) url: String,
    issuer: Arc<LocalIssuer>,
    name: String,
    claims: Claims,
    _runtime: tokio::runtime::Runtime,
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
    pub(crate) fn data(&self, status: u16) -> &Json {
        assert_eq!(self.status, status, "{}", self.body);
        &self.body["data"]
    }

    /// The code of a problem that has to have this status.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["requestId"].as_str(), self.header("x-request-id"));
        self.body["code"].as_str().expect("a code")
    }
}

/// A design from its source.
pub(crate) fn design(source: &str) -> Design {
    let checked = check(source, &[]);
    let said: Vec<_> = checked.diagnostics.iter().map(|each| each.message.clone()).collect();
    checked.design.unwrap_or_else(|| panic!("{said:?}"))
}

impl TestServer {
    /// Serves a system on a store in memory.
    pub(crate) fn serve(system: System) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let store = Embedded::memory(Options::default()).expect("memory");
        let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
        let claims = Claims::of(&system.design);
        let name = system.name.clone();
        let url = runtime.block_on(async {
            let nagaya = Nagaya::open(system.design.clone(), store);
            nagaya.ensure().await.expect("the tables are created");
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let verifier = Verifier::new(claims.clone(), Clock::system()).trust(&Issuer::local(&issuer), &name);
            let mut server = Server::new(Limits::default());
            server.mount("", system, nagaya, verifier);
            tokio::spawn(server.run(listener, std::future::pending()));
            url
        });
        TestServer { url, issuer, name, claims, _runtime: runtime }
    }

    pub(crate) fn token(&self, tenant: Option<&str>, user: &str, roles: &[&str]) -> String {
        let roles: Vec<String> = roles.iter().map(|&role| role.to_owned()).collect();
        let member_of: Vec<String> = tenant.map(str::to_owned).into_iter().collect();
        let (audience, claims, ttl) = (self.name.as_str(), &self.claims, Duration::from_secs(600));
        let grant = Grant { audience, claims, user, tenant, roles: &roles, member_of: &member_of, ttl };
        self.issuer.issue(&grant).expect("a token")
    }

    /// A client of a tenant's user with a role.
    pub(crate) fn client(&self, tenant: &str, role: &str) -> Client<'_> {
        Client { server: self, token: Some(self.token(Some(tenant), "u1", &[role])), headers: Vec::new() }
    }

    /// A client of an operator.
    pub(crate) fn operator(&self) -> Client<'_> {
        let token = Some(self.token(None, "op", &["operator"]));
        Client { server: self, token, headers: vec![("nagaya-reason".to_owned(), "a test".to_owned())] }
    }

    /// A client without a token.
    pub(crate) fn nobody(&self) -> Client<'_> {
        Client { server: self, token: None, headers: Vec::new() }
    }
}

/// A client.
#[derive(Clone)]
pub(crate) struct Client<'h> {
    server: &'h TestServer,
    token: Option<String>,
    headers: Vec<(String, String)>,
}

impl Client<'_> {
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    pub(crate) fn token(&self, token: &str) -> Self {
        Client { token: Some(token.to_owned()), ..self.clone() }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Json) -> Answer {
        self.send("POST", path, Some(body.to_string().as_bytes()))
    }

    pub(crate) fn patch(&self, path: &str, body: &Json) -> Answer {
        self.send("PATCH", path, Some(body.to_string().as_bytes()))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None)
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Answer {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.server.url));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() && !self.headers.iter().any(|(name, _)| name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(body.unwrap_or_default().to_vec()).expect("a request");
        let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build();
        let mut response = ureq::Agent::new_with_config(config).run(request).expect("an answer");
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect();
        let text = response.body_mut().read_to_string().expect("a body");
        let body = if text.is_empty() { json!(null) } else { serde_json::from_str(&text).expect("JSON") };
        Answer { status, headers, body }
    }
}
