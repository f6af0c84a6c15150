//! The attacker's client.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use nagaya_attack::{Action, AttackClient, BoxFuture, FurtherRoute, MAX_PAGES, Observation, UNSUPPORTED};
use nagaya_design::{Design, Entity, Field, Verb};
use nagaya_server::{Operation, Route};
use nagaya_tenancy::List;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

use super::positional;

/// The attacker's client.
pub(super) struct HttpClient {
    pub(super) agent: ureq::Agent,
    pub(super) url: String,
    pub(super) token: Option<String>,
    /// A token with the roles of operators where they count for nothing.
    pub(super) as_operator: String,
    /// The routes of the design.
    pub(super) routes: Vec<Route>,
    /// Those of the system: some replace routes of the design.
    pub(super) served: Vec<Arc<Route>>,
    pub(super) further_routes: Vec<FurtherRoute>,
    pub(super) design: Design,
    /// The number of requests so far: equal in both environments, so that their audit records are equal.
    pub(super) sent: AtomicU64,
    pub(super) called_routes: Arc<Mutex<BTreeSet<String>>>,
}

/// A request to a route.
#[derive(Default)]
pub(super) struct Request<'r> {
    pub(super) method: &'r str,
    /// The path, with `{name}` for parameters.
    pub(super) path: &'r str,
    /// The values of its parameters.
    pub(super) values: &'r [String],
    pub(super) query: &'r [(String, String)],
    pub(super) body: Option<&'r Json>,
    pub(super) expected: Option<i64>,
    /// What no sound client sends; it does not count as a call of the route.
    pub(super) unsound: Option<Unsound<'r>>,
}

/// A request that can be read in two ways.
#[derive(Clone, Copy)]
pub(super) enum Unsound<'r> {
    /// A header that is sent twice.
    Header(&'r str, &'r str),
    /// A body with a repeated member.
    Body(&'r str),
}

impl AttackClient for HttpClient {
    fn perform<'h>(&'h self, action: &'h Action) -> BoxFuture<'h, Option<Observation>> {
        Box::pin(async move {
            // The client blocks this thread; the servers run on others.
            tokio::task::block_in_place(|| {
                if self.sent.load(Ordering::Relaxed) == 0 {
                    self.probe();
                }
                self.answer(action)
            })
        })
    }

    fn further_routes(&self) -> Vec<FurtherRoute> {
        self.further_routes.clone()
    }
}

impl HttpClient {
    fn answer(&self, action: &Action) -> Option<Observation> {
        let find = |verb: Verb, name: &str| {
            let is_wanted = |(entity, each): (&Entity, Verb)| entity.name == *name && each == verb;
            let mut items = self.routes.iter().filter(|route| !matches!(route.operation, Operation::List(_)));
            items.find(|route| route.subject(&self.design).is_some_and(is_wanted))
        };
        let to = |route: &'_ Route, values: &[String], body: Option<&Json>, expected: Option<i64>| {
            let (method, path) = (route.method.as_str(), route.path.as_str());
            self.send(&Request { method, path, values, body, expected, ..Request::default() })
        };
        match action {
            Action::Get(name, id) => Some(to(find(Verb::Read, name)?, id, None, None)),
            Action::Create(name, fields) => {
                let route = find(Verb::Create, name)?;
                // The server refuses bodies with fields that it sets itself.
                let entity = self.design.entity(name)?;
                let is_set = |field: &Field| field.default.is_some() && field.why_not_writable().is_some();
                let mut fields = fields.clone();
                fields.retain(|name, _| !entity.field(name).is_some_and(is_set));
                Some(to(route, &[], Some(&Json::Object(fields)), None))
            }
            Action::Update(name, id, patch, expected) => {
                Some(to(find(Verb::Update, name)?, id, Some(&Json::Object(patch.clone())), *expected))
            }
            Action::Delete(name, id, expected) => Some(to(find(Verb::Delete, name)?, id, None, *expected)),
            Action::List(list) => self.list(list),
            Action::Call(FurtherRoute { method, path, .. }, values, body) => {
                let body = body.clone().map(Json::Object);
                Some(self.send(&Request { method, path, values, body: body.as_ref(), ..Request::default() }))
            }
            Action::GetMany(_) | Action::Set(_) => None,
        }
    }

    /// All pages of a list.
    fn list(&self, list: &List) -> Option<Observation> {
        let is_wanted = |route: &&Route| matches!(route.operation, Operation::List(id) if id.pattern_in(&self.design).name == list.access());
        let route = self.routes.iter().find(is_wanted)?;
        let mut text = String::new();
        let mut current = list.clone();
        for _ in 0..MAX_PAGES {
            let mut query = current.to_parameters();
            // Parameters of the path are not sent in the query.
            let mut values = Vec::new();
            for name in route.parameters() {
                let at = query.iter().position(|(each, _)| each == name)?;
                values.push(query.remove(at).1);
            }
            let (method, path) = (route.method.as_str(), route.path.as_str());
            let page = self.send(&Request { method, path, values: &values, query: &query, ..Request::default() });
            text += &page.text;
            let next = page.text.rsplit('\n').next().and_then(|body| serde_json::from_str::<Json>(body).ok());
            let next = next.and_then(|body| body["nextCursor"].as_str().map(str::to_owned));
            match next {
                Some(next) if page.code == "ok" => current = list.clone().cursor(next),
                _ => return Some(Observation { code: page.code, text }),
            }
        }
        Some(Observation { code: "ok".to_owned(), text })
    }

    pub(super) fn send(&self, request: &Request<'_>) -> Observation {
        self.send_with(self.token.as_deref(), request)
    }

    /// Sends a request with another token.
    pub(super) fn send_with(&self, token: Option<&str>, request: &Request<'_>) -> Observation {
        let Request { method, path, values, query, body, expected, unsound } = *request;
        if unsound.is_none() {
            let mut called_routes = self.called_routes.lock().unwrap_or_else(PoisonError::into_inner);
            called_routes.insert(positional(&format!("{method} {path}")));
        }
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let is_parameter = |segment: &str| segment.starts_with('{');
        // An id with another number of parts than the route is sent anyway.
        let prefix = path.split("/{").next().unwrap_or_default();
        let mut uri = match values.len() == path.split('/').filter(|segment| is_parameter(segment)).count() {
            true => {
                let mut values = values.iter();
                let segment = |segment: &str| match is_parameter(segment) {
                    true => encode(values.next().map_or("", String::as_str)),
                    false => segment.to_owned(),
                };
                path.split('/').map(segment).collect::<Vec<_>>().join("/")
            }
            false => format!("{prefix}/{}", values.iter().map(|part| encode(part)).collect::<Vec<_>>().join("/")),
        };
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        if !query.is_empty() {
            uri = format!("{uri}?{}", query.join("&"));
        }
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{uri}", self.url))
            .header("x-request-id", format!("r-{}", self.sent.fetch_add(1, Ordering::Relaxed)))
            .header("nagaya-reason", "an attack on the walls");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut body = body.map(Json::to_string);
        match unsound {
            Some(Unsound::Header(name, value)) => request = request.header(name, value).header(name, value),
            Some(Unsound::Body(text)) => body = Some(text.to_owned()),
            None => {}
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        if let Some(version) = expected {
            request = request.header("if-match", format!("\"v{version}\""));
        }
        let request = request.body(body.unwrap_or_default().into_bytes()).expect("a request");
        let mut answer = self.agent.run(request).expect("an answer");
        let status = answer.status().as_u16();
        let shown = |name: &str| !matches!(name, "date" | "x-request-id" | "content-length");
        let headers: Vec<String> = answer
            .headers()
            .iter()
            .filter(|(name, _)| shown(name.as_str()))
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?")))
            .collect();
        let text = answer.body_mut().read_to_string().expect("a body");
        let mut body: Json = if text.is_empty() { Json::Null } else { serde_json::from_str(&text).expect("JSON") };
        if let Json::Object(body) = &mut body {
            body.remove("requestId");
        }
        let code = match (status, body["code"].as_str()) {
            (200..=299, _) => "ok",
            // Names that differ between HTTP and tenancy.
            (_, Some("forbidden")) => "walled",
            (_, Some("no_token")) => UNSUPPORTED,
            // An id with another number of parts leads to another route, or to none.
            (_, Some("no_such_method")) => "not_found",
            (_, Some("bad_parameter")) => "invalid",
            (_, code) => code.unwrap_or("none"),
        };
        Observation { code: code.to_owned(), text: format!("\n{status} {}\n{body}", headers.join(", ")) }
    }
}
