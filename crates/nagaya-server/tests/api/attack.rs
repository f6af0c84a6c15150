//! The attack suite through HTTP: every route, called from the wrong side of the wall.
//!
//! The attacker observes status, headers and body, except for the request id and the date.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nagaya_attack::{
    self as attack, Action, AttackClient, BoxFuture, Engine, Gateway, MAX_PAGES, Observation, Options, UNSUPPORTED,
};
use nagaya_design::{Design, Entity, Field, Verb};
use nagaya_embedded::EmbeddedStore;
use nagaya_server::{Claims, Grant, Issuer, Limits, LocalIssuer, Operation, Route, Server, System, Verifier, routes};
use nagaya_store::{Clock, StoreFuture};
use nagaya_tenancy::{Nagaya, Principal};
use nagaya_testing::{TestServer, system_design};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;

/// The attack suite through a server.
#[derive(Default)]
struct Http {
    /// Whether the attacker has no token.
    visitor: bool,
    /// The routes that were called.
    called_routes: Arc<Mutex<BTreeSet<String>>>,
}

impl Gateway for Http {
    fn open<'d>(&'d self, nagaya: &'d Nagaya, attacker: &'d Principal) -> BoxFuture<'d, Box<dyn AttackClient>> {
        Box::pin(async move {
            let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let system = System::plain(nagaya.design().clone());
            let claims = Claims::from_design(nagaya.design());
            let verifier = Verifier::new(claims.clone(), Clock::system())
                .trust(&Issuer::local(&issuer), &system.name)
                .expect("one issuer");
            // A role with all permissions, so that only walls can refuse.
            let roles: Vec<String> = nagaya.design().roles.iter().map(|role| role.name.clone()).take(1).collect();
            let token = issuer.issue(&Grant {
                audience: &system.name,
                claims: &claims,
                user: &attacker.user,
                tenant: Some(&attacker.tenant),
                roles: &roles,
                member_of: &[attacker.tenant.to_string()],
                ttl: Duration::from_secs(3600),
            });
            let mut server = Server::new(Limits { tenant_rate: 0, ..Limits::default() });
            server.mount("", system, nagaya.clone(), verifier);
            tokio::spawn(server.run(listener, std::future::pending()));
            let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build();
            let client: Box<dyn AttackClient> = Box::new(Client {
                agent: ureq::Agent::new_with_config(config),
                url,
                token: Some(token.expect("a token")).filter(|_| !self.visitor),
                routes: routes(nagaya.design()),
                design: nagaya.design().clone(),
                sent: AtomicU64::new(0),
                called_routes: Arc::clone(&self.called_routes),
            });
            client
        })
    }
}

/// The attacker's client.
struct Client {
    agent: ureq::Agent,
    url: String,
    token: Option<String>,
    routes: Vec<Route>,
    design: Design,
    /// The number of requests so far: equal in both environments, so that their audit records are equal.
    sent: AtomicU64,
    called_routes: Arc<Mutex<BTreeSet<String>>>,
}

impl AttackClient for Client {
    fn perform<'h>(&'h self, action: &'h Action) -> BoxFuture<'h, Option<Observation>> {
        Box::pin(async move {
            // The client blocks this thread; the servers run on others.
            tokio::task::block_in_place(|| {
                if self.sent.load(Ordering::Relaxed) == 0 {
                    self.attack_operator_log();
                }
                self.answer(action)
            })
        })
    }
}

impl Client {
    fn answer(&self, action: &Action) -> Option<Observation> {
        let find = |verb: Verb, name: &str| {
            let is_wanted = |(entity, each): (&Entity, Verb)| entity.name == *name && each == verb;
            let mut items = self.routes.iter().filter(|route| !matches!(route.operation, Operation::List(_)));
            items.find(|route| route.subject(&self.design).is_some_and(is_wanted))
        };
        match action {
            Action::Get(name, id) => {
                let route = find(Verb::Read, name)?;
                Some(self.send(route, id, &[], None, None))
            }
            Action::Create(name, fields) => {
                let route = find(Verb::Create, name)?;
                // The server refuses bodies with fields that it sets itself.
                let entity = self.design.entity(name)?;
                let is_set = |field: &Field| field.default.is_some() && field.why_not_writable().is_some();
                let mut fields = fields.clone();
                fields.retain(|name, _| !entity.field(name).is_some_and(is_set));
                Some(self.send(route, &[], &[], Some(&Json::Object(fields)), None))
            }
            Action::Update(name, id, patch, expected) => {
                let route = find(Verb::Update, name)?;
                Some(self.send(route, id, &[], Some(&Json::Object(patch.clone())), *expected))
            }
            Action::Delete(name, id, expected) => {
                let route = find(Verb::Delete, name)?;
                Some(self.send(route, id, &[], None, *expected))
            }
            Action::List(list) => self.list(list),
            Action::GetMany(_) | Action::Set(_) => None,
        }
    }

    /// What operators did names tenants and items of all, and is refused.
    fn attack_operator_log(&self) {
        for route in self.routes.iter().filter(|route| route.operation == Operation::OperatorLog) {
            let refused = self.send(route, &[], &[], None, None);
            assert!(["walled", UNSUPPORTED].contains(&refused.code.as_str()), "{}", refused.text);
        }
    }

    /// All pages of a list.
    fn list(&self, list: &nagaya_tenancy::List) -> Option<Observation> {
        let is_wanted = |route: &&Route| matches!(route.operation, Operation::List(id) if id.pattern_in(&self.design).name == list.access());
        let route = self.routes.iter().find(is_wanted)?;
        let mut text = String::new();
        let mut current = list.clone();
        for _ in 0..MAX_PAGES {
            let mut query = current.to_parameters();
            // Parameters of the path are not sent in the query.
            let mut path = Vec::new();
            for name in route.parameters() {
                let at = query.iter().position(|(each, _)| each == name)?;
                path.push(query.remove(at).1);
            }
            let page = self.send(route, &path, &query, None, None);
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

    fn send(
        &self,
        route: &Route,
        path: &[String],
        query: &[(String, String)],
        body: Option<&Json>,
        expected: Option<i64>,
    ) -> Observation {
        self.called_routes.lock().expect("no panic").insert(format!("{} {}", route.method, route.path));
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        // An id with another number of parts than the route is sent anyway.
        let prefix = route.path.split("/{").next().unwrap_or_default();
        let mut uri = match path.len() == route.parameters().count() {
            true => {
                let mut parts = path.iter();
                let segment = |segment: &str| match segment.starts_with('{') {
                    true => encode(parts.next().map_or("", String::as_str)),
                    false => segment.to_owned(),
                };
                route.path.split('/').map(segment).collect::<Vec<_>>().join("/")
            }
            false => format!("{prefix}/{}", path.iter().map(|part| encode(part)).collect::<Vec<_>>().join("/")),
        };
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        if !query.is_empty() {
            uri = format!("{uri}?{}", query.join("&"));
        }
        let mut request = ureq::http::Request::builder()
            .method(route.method.as_str())
            .uri(format!("{}{uri}", self.url))
            .header("x-request-id", format!("r-{}", self.sent.fetch_add(1, Ordering::Relaxed)));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        if let Some(version) = expected {
            request = request.header("if-match", format!("\"v{version}\""));
        }
        let body = body.map(Json::to_string).unwrap_or_default();
        let request = request.body(body.into_bytes()).expect("a request");
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

/// A store in memory.
struct Memory;

impl Engine for Memory {
    type Store = EmbeddedStore;

    fn open(&self, clock: Clock) -> StoreFuture<'_, EmbeddedStore> {
        let options = nagaya_embedded::Options { clock, sweep_interval: None, ..nagaya_embedded::Options::default() };
        Box::pin(std::future::ready(EmbeddedStore::in_memory(options)))
    }
}

async fn attack(system: &str, visitor: bool) {
    let design = system_design(system);
    let http = Http { visitor, ..Http::default() };
    // Most routes refuse a visitor before they read anything: a sample of the attacks is enough.
    let options = Options { one_in: if visitor { 5 } else { 1 }, ..Options::default() };
    attack::run_through(&http, &design, &Memory, options).await.assert();
    if visitor {
        return;
    }
    let called_routes = http.called_routes.lock().expect("no panic");
    let missed: Vec<_> = routes(&design)
        .iter()
        .map(|route| format!("{} {}", route.method, route.path))
        .filter(|route| !called_routes.contains(route))
        .collect();
    assert_eq!(missed, [""; 0], "every route is attacked");
}

/// Proves the HTTP part of N3.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_aiagent_in_one_table() {
    attack("aiagent/single", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_aiagent_in_twelve_tables() {
    attack("aiagent/multi", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_todo() {
    attack("todo/todo", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_kondate() {
    attack("kondate/kondate", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_crosses_the_walls_of_management() {
    attack("management/management", false).await;
}

/// Verdicts, authors and counters are the server's: no body sets them, in no system.
#[test]
fn no_route_accepts_fields_that_the_server_sets() {
    for system in ["aiagent/single", "aiagent/multi", "todo/todo", "kondate/kondate", "management/management"] {
        let design = system_design(system);
        let roles: Vec<_> = design.roles.iter().map(|role| role.name.clone()).take(1).collect();
        let roles: Vec<_> = roles.iter().map(String::as_str).collect();
        let routes = routes(&design);
        let creates = routes.iter().filter(|route| route.parameters().next().is_none());
        let server = TestServer::in_memory(System::plain(design.clone()));
        let client = server.user_with("t1", "u1", &roles);
        let mut tried = 0;
        for route in creates {
            let Some((entity, Verb::Create)) = route.subject(&design) else { continue };
            for field in entity.fields.iter().filter(|field| field.why_not_writable().is_some()) {
                let answer = client.post(&route.path, &serde_json::json!({ field.name.as_str(): "x" }));
                if answer.status == 403 {
                    continue;
                }
                let pointers = answer.expect_problem(422, "invalid");
                let pointer = format!("/{}", field.name);
                assert!(pointers.contains(&pointer), "{system} {}: {} is accepted", route.path, field.name);
                tried += 1;
            }
        }
        assert!(tried > 0 || system == "todo/todo", "{system}: nothing was tried");
    }
}

/// Proves the public part of N3: a visitor sees what is public, and nothing of a tenant's own items.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn no_attack_without_a_token_crosses_the_walls_of_kondate() {
    attack("kondate/kondate", true).await;
}
