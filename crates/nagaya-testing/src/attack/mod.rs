//! The attack suite through a server: every route of a system, called from the wrong side of the wall.
//!
//! The attacker observes status, headers and body, except for the request id and the date.

mod client;
mod probes;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use axum::extract::Request;
use nagaya_attack::{AttackClient, BoxFuture, Engine, FurtherRoute, Gateway, Options};
use nagaya_design::Design;
use nagaya_embedded::EmbeddedStore;
use nagaya_server::{
    Claims, Grant, Issuer, Limits, LocalIssuer, Operation, RequestHandler, Route, Server, System, Verifier, document,
    positional, routes,
};
use nagaya_store::{Clock, StoreFuture};
use nagaya_tenancy::{Nagaya, Principal};
use serde_json::Value as Json;
use tokio::net::TcpListener;

use self::client::HttpClient;

/// The attack suite through a server.
pub struct HttpGateway {
    make_system: Box<dyn Fn(&Nagaya) -> System + Send + Sync>,
    /// Whether the system has rules of its own, so that an attack may be refused for another reason than the expected one.
    has_rules: bool,
    /// Whether the attacker has no token.
    is_visitor: bool,
    /// Routes that are not called, as `POST /path`.
    left_out: &'static [&'static str],
    /// The routes of the system, and those that were called: parameters are named by position.
    served_routes: Mutex<BTreeSet<String>>,
    called_routes: Arc<Mutex<BTreeSet<String>>>,
}

impl HttpGateway {
    /// Attacks of a tenant's user on a system, which is made for the data layer of each environment. It has to take the time and
    /// its ids from there, so that answers can be compared. Its background work does not run.
    pub fn new(make_system: impl Fn(&Nagaya) -> System + Send + Sync + 'static) -> Self {
        let make_system = Box::new(make_system);
        HttpGateway {
            make_system,
            has_rules: true,
            is_visitor: false,
            left_out: &[],
            served_routes: Mutex::default(),
            called_routes: Arc::default(),
        }
    }

    /// Attacks on the routes of a design alone.
    pub fn plain() -> Self {
        let gateway = HttpGateway::new(|nagaya| System::plain(nagaya.design().clone()));
        HttpGateway { has_rules: false, ..gateway }
    }

    /// The same attacks without a token.
    #[must_use]
    pub fn without_token(self) -> Self {
        HttpGateway { is_visitor: true, ..self }
    }

    /// The same without custom routes, as `POST /path`, whose effect on others is what they are for.
    #[must_use]
    pub fn without_routes(self, left_out: &'static [&'static str]) -> Self {
        HttpGateway { left_out, ..self }
    }

    /// Makes all attacks, on stores in memory.
    ///
    /// # Panics
    ///
    /// When an attack succeeds, or when a route was not attacked.
    pub async fn attack(self, design: &Design) {
        // Most routes refuse a visitor before they read anything: a sample of the attacks is enough.
        let options = Options { one_in: if self.is_visitor { 5 } else { 1 }, ..Options::default() };
        nagaya_attack::run_through(&self, design, &Memory, options).await.assert();
        if self.is_visitor {
            return;
        }
        let called = self.called_routes.lock().unwrap_or_else(PoisonError::into_inner);
        let served = self.served_routes.lock().unwrap_or_else(PoisonError::into_inner);
        let missed: Vec<_> = served.difference(&called).collect();
        assert!(!served.is_empty() && missed.is_empty(), "not attacked: {missed:?}");
    }
}

impl Gateway for HttpGateway {
    fn open<'d>(&'d self, nagaya: &'d Nagaya, attacker: &'d Principal) -> BoxFuture<'d, Box<dyn AttackClient>> {
        Box::pin(async move {
            let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let (system, design) = ((self.make_system)(nagaya), nagaya.design());
            let claims = Claims::from_design(design);
            let verifier = Verifier::new(claims.clone(), Clock::system());
            let verifier = verifier.trust(&Issuer::local(&issuer), &system.name).expect("one issuer");
            let grant = |claims: &Claims, roles: &[String]| {
                let grant = Grant {
                    audience: &system.name,
                    claims,
                    user: &attacker.user,
                    tenant: Some(&attacker.tenant),
                    roles,
                    member_of: &[attacker.tenant.to_string()],
                    ttl: Duration::from_secs(3600),
                };
                issuer.issue(&grant).expect("a token")
            };
            // A role with all permissions, so that only walls can refuse.
            let roles: Vec<String> = design.roles.iter().map(|role| role.name.clone()).take(1).collect();
            let token = Some(grant(&claims, &roles)).filter(|_| !self.is_visitor);
            // The roles of operators, beside a tenant and in the claim for the roles of tenants.
            let operators = claims.operator_roles.clone();
            let as_operator = grant(&Claims { operator_roles: Vec::new(), ..claims.clone() }, &operators);
            let mut server = Server::new(Limits { tenant_rate: 0, ..Limits::default() });
            let document = document(&system, "", 0);
            let mut served = system.served_routes();
            // Streams have no end.
            served
                .retain(|route| !is_stream(operation_of(&document, route)) && !self.left_out.contains(&&*name(route)));
            self.served_routes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(served.iter().map(|route| positional(&name(route))));
            let further_routes = further_routes(&served, &document);
            server.mount("", system, nagaya.clone(), verifier);
            tokio::spawn(serve(server.app(), listener));
            let config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build();
            let client: Box<dyn AttackClient> = Box::new(HttpClient {
                agent: ureq::Agent::new_with_config(config),
                url,
                token,
                as_operator,
                routes: routes(design),
                served,
                further_routes,
                design: design.clone(),
                sent: AtomicU64::new(0),
                called_routes: Arc::clone(&self.called_routes),
            });
            client
        })
    }

    fn has_rules(&self) -> bool {
        self.has_rules
    }
}

/// The custom routes, with examples of their bodies.
fn further_routes(served: &[Arc<Route>], document: &Json) -> Vec<FurtherRoute> {
    let custom = served.iter().filter(|route| matches!(route.operation, Operation::Custom(_)));
    let further = |route: &Arc<Route>| {
        let schema = &operation_of(document, route)["requestBody"]["content"]["application/json"]["schema"];
        let body = match example(document, schema) {
            Json::Object(body) if !schema.is_null() => Some(body),
            _ => None,
        };
        let parameters = route.parameters().map(str::to_owned).collect();
        FurtherRoute { method: route.method.to_string(), path: route.path.clone(), parameters, body }
    };
    custom.map(further).collect()
}

/// A route as `POST /path`.
fn name(route: &Route) -> String {
    format!("{} {}", route.method, route.path)
}

/// What the OpenAPI document says about a route.
fn operation_of<'d>(document: &'d Json, route: &Route) -> &'d Json {
    &document["paths"][&route.path][route.method.as_str().to_lowercase()]
}

/// Answers requests without the background work of a server: what it changes is not what an attacker changes.
async fn serve(app: RequestHandler, listener: TcpListener) {
    let answer = move |request: Request| {
        let app = app.clone();
        async move { app.answer("127.0.0.1", request).await }
    };
    axum::serve(listener, axum::Router::new().fallback(answer)).await.expect("it serves");
}

fn is_stream(operation: &Json) -> bool {
    let answers = operation["responses"].as_object().into_iter().flatten();
    let mut types = answers.flat_map(|(_, answer)| answer["content"].as_object().into_iter().flatten());
    types.any(|(media_type, _)| !media_type.ends_with("json"))
}

/// A value that a schema describes, as far as its type and its choices say.
fn example(document: &Json, schema: &Json) -> Json {
    if let Some(referred) = schema["$ref"].as_str().and_then(|path| document.pointer(path.strip_prefix('#')?)) {
        return example(document, referred);
    }
    let given = [&schema["const"], &schema["default"], &schema["enum"][0], &schema["examples"][0], &schema["example"]];
    if let Some(given) = given.into_iter().find(|value| !value.is_null()) {
        return given.clone();
    }
    if let Some(choice) = ["oneOf", "anyOf"].into_iter().find_map(|kind| schema[kind].as_array()?.first()) {
        return example(document, choice);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("object");
    match kind {
        "string" => "x".into(),
        "integer" | "number" => schema["minimum"].as_i64().unwrap_or(1).into(),
        "boolean" => true.into(),
        "array" => Json::Array(vec![example(document, &schema["items"])]),
        _ => {
            let members = schema["properties"].as_object().into_iter().flatten();
            Json::Object(members.map(|(name, schema)| (name.clone(), example(document, schema))).collect())
        }
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
