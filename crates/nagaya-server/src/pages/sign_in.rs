//! Signing in on the page of a system: a token of the local issuer for a chosen tenant and role, for development.
//!
//! It works only while the server listens on a loopback address, and only for requests that a browser on this machine sends
//! to a loopback host: a page of another site that points its own name at this machine (DNS rebinding) gets 404, and so does
//! a request that came through a proxy.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, header, uri::Authority},
    response::Response,
    routing::{MethodRouter, get},
};
use nagaya_design::Design;
use serde::Deserialize;
use serde_json::json;

use crate::{Answer, Claims, Grant, LocalIssuer, Problem, ProblemCode, System, body, fallback, identity::is_loopback};

/// How long a token is valid.
const TTL: Duration = Duration::from_secs(12 * 60 * 60);
/// Bytes of the largest body.
const MAX_BODY: usize = 4 * 1024;
/// Headers that proxies add.
const FORWARDED: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];
/// The user of a token, unless the tenant is the user.
const USER: &str = "me";

/// The local issuer, once the server listens on a loopback address.
#[derive(Debug, Default)]
pub(crate) struct SignIn(OnceLock<Arc<LocalIssuer>>);

impl SignIn {
    /// Lets pages sign in with this issuer.
    pub(crate) fn enable(&self, issuer: &Arc<LocalIssuer>) {
        let _ = self.0.set(Arc::clone(issuer));
    }

    /// The issuer, for a request that comes from this machine.
    fn issuer(&self, headers: &HeaderMap) -> Option<&LocalIssuer> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
        let host = host.to_str().ok()?;
        // A name before an `@` is not the host, but a proxy may take it for one.
        let is_local = !host.contains('@') && is_loopback(host.parse::<Authority>().ok()?.host());
        let is_forwarded = FORWARDED.iter().any(|name| headers.contains_key(*name));
        let is_foreign = headers.get(header::ORIGIN).is_some_and(|origin| *origin != format!("http://{host}"));
        self.0.get().filter(|_| is_local && !is_forwarded && !is_foreign).map(AsRef::as_ref)
    }
}

/// What the page asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInRequest {
    /// Empty: a token without a tenant.
    #[serde(default)]
    tenant: String,
    /// Empty: a token without a role.
    #[serde(default)]
    role: String,
}

/// `GET`: the roles to choose from. `POST`: a token for a tenant and a role.
pub(super) fn routes(sign_in: &Arc<SignIn>, system: &System) -> MethodRouter {
    let (design, audience) = (&system.design, system.name.clone());
    let roles = json!({ "roles": roles(design) });
    let claims = Claims::from_design(design);
    let (for_roles, for_tokens) = (Arc::clone(sign_in), Arc::clone(sign_in));
    get(async move |request: Request| match for_roles.issuer(request.headers()) {
        Some(_) => answer(Answer::data(roles.clone())),
        None => fallback::not_found(request).await,
    })
    .post(async move |request: Request| {
        let (parts, mut body) = request.into_parts();
        let Some(issuer) = for_tokens.issuer(&parts.headers) else {
            return fallback::not_found(Request::from_parts(parts, body)).await;
        };
        match token(issuer, &audience, &claims, &parts.headers, &mut body).await {
            Ok(token) => answer(Answer::data(json!({ "token": token }))),
            Err(problem) => fallback::refuse(Request::from_parts(parts, body), problem).await,
        }
    })
}

fn roles(design: &Design) -> Vec<&str> {
    match design.roles.as_slice() {
        [] => design.operator_roles(),
        roles => roles.iter().map(|role| role.name.as_str()).collect(),
    }
}

async fn token(
    issuer: &LocalIssuer,
    audience: &str,
    claims: &Claims,
    headers: &HeaderMap,
    body: &mut axum::body::Body,
) -> Result<String, Problem> {
    // Browsers send this type to another origin only after a preflight, which is refused.
    if headers.get(header::CONTENT_TYPE).is_none_or(|value| value != "application/json") {
        return Err(Problem::from_code(ProblemCode::NOT_JSON, "Send JSON, with `Content-Type: application/json`."));
    }
    let bytes = body::read(body, MAX_BODY, |_| Ok(())).await?;
    let wanted: SignInRequest = serde_json::from_slice(&bytes).map_err(|error| {
        Problem::from_code(ProblemCode::BAD_BODY, format!("The body is not a sign-in request: {error}."))
    })?;
    // A token with a tenant gives no rights of an operator.
    let is_operator = claims.operator_roles.contains(&wanted.role);
    let tenant = Some(wanted.tenant).filter(|tenant| !tenant.is_empty() && !is_operator);
    let roles: Vec<_> = Some(wanted.role).filter(|role| !role.is_empty()).into_iter().collect();
    let grant = Grant {
        audience,
        claims,
        user: USER,
        tenant: tenant.as_deref(),
        roles: &roles,
        member_of: tenant.as_slice(),
        ttl: TTL,
    };
    issuer.issue(&grant).map_err(|error| Problem::internal().with_cause(error.to_string()))
}

fn answer(answer: Answer) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
