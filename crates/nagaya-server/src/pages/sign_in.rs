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

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    use http_body_util::BodyExt as _;
    use serde_json::Value as Json;

    use super::*;

    fn headers<const N: usize>(all: [(&'static str, &'static str); N]) -> HeaderMap {
        all.into_iter().map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_a_page_that_this_machine_has_loaded_from_itself_signs_in() {
        let sign_in = SignIn::default();
        let local = ("host", "localhost:8080");
        let is_given = |headers: &HeaderMap| sign_in.issuer(headers).is_some();
        assert!(!is_given(&headers([local])), "it is not enabled");
        sign_in.enable(&Arc::new(LocalIssuer::in_memory().expect("keys can be made")));
        assert!(is_given(&headers([local])));
        assert!(is_given(&headers([local, ("origin", "http://localhost:8080")])));
        for host in ["api.example.com", "localhost@127.0.0.1", "127.0.0.1.example.com"] {
            assert!(!is_given(&headers([("host", host)])), "{host}");
        }
        assert!(!is_given(&headers([("host", "api.example.com"), ("origin", "http://api.example.com")])));
        assert!(!is_given(&headers([local, ("origin", "http://localhost:9090")])));
        assert!(!is_given(&headers([local, ("via", "1.1 proxy")])));
        assert!(!is_given(&headers([])));
    }

    #[tokio::test]
    async fn a_token_is_for_the_tenant_and_the_role_that_are_wanted() {
        let issuer = LocalIssuer::in_memory().expect("keys can be made");
        let claims = Claims {
            tenant: "tenantId".to_owned(),
            roles: "roles".to_owned(),
            member_of: None,
            operator: "operatorRoles".to_owned(),
            operator_roles: vec!["operator".to_owned()],
        };
        let sign_in = async |kind: &'static str, body: &'static str| {
            let token =
                token(&issuer, "desk", &claims, &headers([("content-type", kind)]), &mut Body::from(body)).await;
            let token = token.map_err(|problem| problem.code().to_owned())?;
            let claims = BASE64.decode(token.split('.').nth(1).expect("it has three parts")).expect("base64");
            let claims: Json = serde_json::from_slice(&claims).expect("JSON");
            Ok::<_, String>(json!([claims["tenantId"], claims["roles"], claims["operatorRoles"], claims["aud"]]))
        };
        for (body, expected) in [
            (r#"{"tenant":"t1","role":"admin"}"#, json!(["t1", ["admin"], null, "desk"])),
            (r#"{"tenant":"t1"}"#, json!(["t1", null, null, "desk"])),
            (r#"{"role":"admin"}"#, json!([null, ["admin"], null, "desk"])),
            // An operator belongs to no tenant.
            (r#"{"tenant":"t1","role":"operator"}"#, json!([null, null, ["operator"], "desk"])),
        ] {
            assert_eq!(sign_in("application/json", body).await, Ok(expected), "{body}");
        }
        assert_eq!(sign_in("text/plain", "{}").await, Err("not_json".to_owned()));
        assert_eq!(sign_in("application/json", "{").await, Err("bad_body".to_owned()));
    }

    #[tokio::test]
    async fn a_token_is_not_kept_by_caches() {
        let answer = answer(Answer::data(json!({ "token": "t" })));
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["cache-control"]),
            (200, &HeaderValue::from_static("no-store"))
        );
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(body, r#"{"data":{"token":"t"}}"#);
    }
}
