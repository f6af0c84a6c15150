//! A test issuer, and a verifier that trusts it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::StatusCode, response::IntoResponse as _, routing::get};
use http_body_util::BodyExt as _;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use nagaya_server::{Caller, Claims, Grant, Issuer, LocalIssuer, Problem, Verifier};
use nagaya_store::Clock;
use serde_json::{Value as Json, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// The time at which tests start, in seconds.
pub(crate) const NOW: i64 = 1_900_000_000;
/// The audience of the verifier.
pub(crate) const AUDIENCE: &str = "todo";

/// A token of the local issuer for the user whom [`Provider::claims`] names too.
pub(crate) fn issue(issuer: &LocalIssuer) -> String {
    let grant = Grant {
        audience: AUDIENCE,
        claims: &claims(),
        user: "u1",
        tenant: Some("t1"),
        roles: &["admin".to_owned()],
        member_of: &[],
        ttl: Duration::from_secs(3600),
    };
    issuer.issue(&grant).expect("a token can be made")
}

/// A key of an issuer.
pub(crate) struct Key {
    pub(crate) id: &'static str,
    pub(crate) algorithm: Algorithm,
    pub(crate) encoding: EncodingKey,
}

impl Key {
    pub(crate) fn es256(id: &'static str) -> Self {
        let encoding = EncodingKey::from_ec_der(include_bytes!("keys/p256.der"));
        Key { id, algorithm: Algorithm::ES256, encoding }
    }

    pub(crate) fn other(id: &'static str) -> Self {
        let encoding = EncodingKey::from_ec_der(include_bytes!("keys/p256-other.der"));
        Key { id, algorithm: Algorithm::ES256, encoding }
    }

    pub(crate) fn es384(id: &'static str) -> Self {
        Key { id, algorithm: Algorithm::ES384, encoding: EncodingKey::from_ec_der(include_bytes!("keys/p384.der")) }
    }

    pub(crate) fn rsa(id: &'static str, algorithm: Algorithm) -> Self {
        Key { id, algorithm, encoding: EncodingKey::from_rsa_der(include_bytes!("keys/rsa.der")) }
    }

    pub(crate) fn ed25519(id: &'static str) -> Self {
        let encoding = EncodingKey::from_ed_der(include_bytes!("keys/ed25519.der"));
        Key { id, algorithm: Algorithm::EdDSA, encoding }
    }

    /// The public part, as an issuer publishes it.
    pub(crate) fn jwk(&self) -> Json {
        let mut jwk = Jwk::from_encoding_key(&self.encoding, self.algorithm).expect("the key is sound");
        jwk.common.key_id = Some(self.id.to_owned());
        serde_json::to_value(jwk).expect("a key can be written")
    }

    pub(crate) fn header(&self) -> Header {
        Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) }
    }

    pub(crate) fn sign(&self, claims: &Json) -> String {
        self.sign_as(&self.header(), claims)
    }

    pub(crate) fn sign_as(&self, header: &Header, claims: &Json) -> String {
        encode(header, claims, &self.encoding).expect("a token can be signed")
    }
}

/// An issuer that serves its keys by HTTP.
pub(crate) struct Provider {
    address: SocketAddr,
    published: Arc<Mutex<String>>,
    discovery: Arc<Mutex<Option<Json>>>,
    asked: Arc<AtomicUsize>,
    server: Option<JoinHandle<()>>,
}

impl Provider {
    pub(crate) async fn start(keys: &[&Key]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let mut provider = Provider {
            address,
            published: Arc::default(),
            discovery: Arc::default(),
            asked: Arc::default(),
            server: None,
        };
        provider.publish(keys);
        provider.discover(|_| {});
        provider.serve(listener);
        provider
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn issuer(&self) -> Issuer {
        Issuer::remote(&self.url()).expect("the URL is fine")
    }

    /// Publishes these keys and no others.
    pub(crate) fn publish(&self, keys: &[&Key]) {
        let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
        self.answer(&json!({ "keys": keys }).to_string());
    }

    /// Serves this body instead of its keys.
    pub(crate) fn answer(&self, body: &str) {
        *self.published.lock().expect("no panic") = body.to_owned();
    }

    /// Changes the discovery document.
    pub(crate) fn discover(&self, change: impl FnOnce(&mut Json)) {
        let mut document = json!({ "issuer": self.url(), "jwks_uri": format!("{}/keys", self.url()) });
        change(&mut document);
        *self.discovery.lock().expect("no panic") = Some(document);
    }

    /// How often its keys have been fetched.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Stops the server: connections are refused.
    pub(crate) async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
        }
    }

    pub(crate) async fn restart(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the port is still free");
        self.serve(listener);
    }

    fn serve(&mut self, listener: TcpListener) {
        let (published, asked) = (Arc::clone(&self.published), Arc::clone(&self.asked));
        let (discovery, elsewhere) = (Arc::clone(&self.discovery), format!("{}/keys", self.url()));
        let router = Router::new()
            .route(
                "/.well-known/openid-configuration",
                get(async move || discovery.lock().expect("no panic").clone().unwrap_or_default().to_string()),
            )
            .route(
                "/keys",
                get(async move || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    published.lock().expect("no panic").clone()
                }),
            )
            .route(
                "/broken",
                get(async move || {
                    (StatusCode::INTERNAL_SERVER_ERROR, json!({ "keys": [Key::es256("a").jwk()] }).to_string())
                }),
            )
            .route("/moved", get(async move || (StatusCode::FOUND, [("location", elsewhere)]).into_response()));
        self.server = Some(tokio::spawn(async move {
            axum::serve(listener, router).await.expect("it serves until it is stopped");
        }));
    }

    /// Valid claims.
    pub(crate) fn claims(&self) -> Json {
        json!({
            "iss": self.url(),
            "aud": AUDIENCE,
            "sub": "u1",
            "iat": NOW,
            "exp": NOW + 3600,
            "tenantId": "t1",
            "roles": ["admin"],
        })
    }

    /// Valid claims with changes; `null` removes a claim.
    pub(crate) fn claims_with(&self, changes: Json) -> Json {
        let mut claims = self.claims();
        let (Some(claims_), Json::Object(changes)) = (claims.as_object_mut(), changes) else { return claims };
        for (name, value) in changes {
            if value.is_null() {
                claims_.remove(&name);
            } else {
                claims_.insert(name, value);
            }
        }
        claims
    }
}

/// A clock that the test advances.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub(crate) fn new() -> Self {
        TestClock(Arc::new(AtomicI64::new(NOW * 1000)))
    }

    pub(crate) fn clock(&self) -> Clock {
        let time = Arc::clone(&self.0);
        Clock::new(move || time.load(Ordering::SeqCst))
    }

    pub(crate) fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }
}

pub(crate) fn claims() -> Claims {
    Claims {
        tenant: "tenantId".to_owned(),
        roles: "roles".to_owned(),
        member_of: None,
        operator: "operatorRoles".to_owned(),
        operator_roles: vec!["operator".to_owned()],
    }
}

/// The same with a claim for the tenants of the user.
pub(crate) fn claims_with_members() -> Claims {
    Claims { member_of: Some("memberOf".to_owned()), ..claims() }
}

pub(crate) fn verifier(issuer: &Issuer, hand: &TestClock) -> Verifier {
    Verifier::new(claims(), hand.clock()).trust(issuer, AUDIENCE).expect("one issuer")
}

/// Status, code and detail of a problem.
pub(crate) async fn problem_line(problem: Problem) -> String {
    let (status, code) = (problem.status().as_u16(), problem.code().to_owned());
    let body = problem.into_response("r-1").into_body().collect().await.expect("a problem has a body").to_bytes();
    let body: Json = serde_json::from_slice(&body).expect("a problem is JSON");
    format!("{status} {code}: {}", body["detail"].as_str().expect("a problem has a detail"))
}

/// The caller in one line, or the problem.
pub(crate) async fn outcome(verifier: &Verifier, token: &str) -> String {
    match verifier.caller(token).await {
        Ok(caller) => shown(&caller),
        Err(problem) => problem_line(problem).await,
    }
}

pub(crate) fn shown(caller: &Caller) -> String {
    format!("{}@{} {}", caller.user, caller.tenant.as_deref().unwrap_or("-"), caller.roles.join(","))
}

/// Waits for background work.
pub(crate) async fn eventually(what: impl Fn() -> bool) {
    for _ in 0..500 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not happen");
}
