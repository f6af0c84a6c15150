//! Requests from other origins.

use axum::{body::Body, http::Method};
use nagaya_server::{Cors, Limits};
use nagaya_testing::{Connection, RawResponse};

use crate::desk::Desk;

const ORIGIN: &str = "https://app.example.com";

async fn desk(cors: Cors) -> Desk {
    Desk::open_with(Limits::default(), |server| server.cors(cors)).await
}

async fn preflight(client: &mut Connection, origin: &str, method: &str) -> RawResponse {
    preflight_of(client, "/notes", origin, method).await
}

async fn preflight_of(client: &mut Connection, path: &str, origin: &str, method: &str) -> RawResponse {
    let asked = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "authorization,x-evil"),
    ];
    client.send(Method::OPTIONS, path, &asked, Body::empty()).await
}

async fn get(client: &mut Connection, origin: &str) -> RawResponse {
    client.send(Method::GET, "/notes", &[("origin", origin)], Body::empty()).await
}

/// The names of all CORS headers.
fn cors_headers(got: &RawResponse) -> Vec<&str> {
    got.headers.keys().map(|name| name.as_str()).filter(|name| name.starts_with("access-control-")).collect()
}

/// The elements of a list, sorted.
fn list(got: &RawResponse, name: &str) -> Vec<String> {
    let mut parts: Vec<_> =
        got.header(name).unwrap_or_default().split(',').map(|part| part.trim().to_owned()).collect();
    parts.sort();
    parts
}

/// Proves T18.
#[tokio::test]
async fn cors_is_off_unless_origins_are_configured() {
    let desk = desk(Cors::default()).await;
    let mut client = desk.connect("acme").await;
    let got = get(&mut client, ORIGIN).await;
    assert_eq!((got.status.as_u16(), cors_headers(&got)), (200, vec![]));
    let got = preflight(&mut client, ORIGIN, "GET").await;
    assert_eq!(got.problem(), (405, "no_such_method".to_owned()));
    assert_eq!(cors_headers(&got), Vec::<&str>::new());
}

/// Proves T18.
#[tokio::test]
async fn only_the_configured_origin_is_allowed_with_the_necessary_headers() {
    let desk = desk(Cors::new([ORIGIN]).expect("an origin")).await;
    let mut client = desk.connect("acme").await;

    let got = preflight(&mut client, ORIGIN, "PATCH").await;
    assert_eq!(got.status, 200);
    assert_eq!(got.header("access-control-allow-origin"), Some(ORIGIN));
    let allowed = [
        "authorization",
        "content-type",
        "idempotency-key",
        "if-match",
        "if-none-match",
        "last-event-id",
        "nagaya-reason",
        "x-causation-id",
        "x-correlation-id",
        "x-request-id",
    ];
    assert_eq!(list(&got, "access-control-allow-headers"), allowed);
    assert_eq!(got.header("access-control-max-age"), Some("600"));
    assert_eq!(got.header("access-control-allow-credentials"), None);

    let got = get(&mut client, ORIGIN).await;
    assert_eq!((got.status.as_u16(), got.header("access-control-allow-origin")), (200, Some(ORIGIN)));
    assert_eq!(
        list(&got, "access-control-expose-headers"),
        ["etag", "location", "nagaya-projection-lag", "ratelimit", "ratelimit-policy", "retry-after", "x-request-id"],
    );
    assert!(list(&got, "vary").contains(&"origin".to_owned()), "{got:?}");
}

/// Proves T18.
#[tokio::test]
async fn a_preflight_names_the_methods_that_the_path_has() {
    let desk = desk(Cors::new([ORIGIN]).expect("an origin")).await;
    let mut client = desk.connect("acme").await;
    for (path, expected) in [
        ("/notes", &["GET", "HEAD", "POST"][..]),
        ("/notes/01ARZ3NDEKTSV4RRFFQ69G5FAV", &["DELETE", "GET", "HEAD", "PATCH"]),
        ("/slot", &["PUT"]),
        ("/openapi.json", &["GET", "HEAD"]),
    ] {
        let got = preflight_of(&mut client, path, ORIGIN, "PUT").await;
        assert_eq!((got.status.as_u16(), list(&got, "access-control-allow-methods")), (200, texts(expected)), "{path}");
    }
    let nowhere = preflight_of(&mut client, "/nowhere", ORIGIN, "PUT").await;
    assert_eq!(nowhere.header("access-control-allow-methods"), None);
    let elsewhere = preflight(&mut client, "https://evil.example", "POST").await;
    assert_eq!(elsewhere.header("access-control-allow-methods"), None, "other origins learn nothing");
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&each| each.to_owned()).collect()
}

/// Proves T18.
#[tokio::test]
async fn no_other_origin_is_allowed() {
    let desk = desk(Cors::new([ORIGIN, "http://localhost:5173"]).expect("origins")).await;
    let mut client = desk.connect("acme").await;
    let others = [
        "https://evil.example",
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com.evil.example",
        "https://evil.app.example.com",
        "https://app.example.co",
        "null",
    ];
    for origin in others {
        assert_eq!(preflight(&mut client, origin, "GET").await.header("access-control-allow-origin"), None, "{origin}");
        assert_eq!(get(&mut client, origin).await.header("access-control-allow-origin"), None, "{origin}");
    }
    let got = get(&mut client, "http://localhost:5173").await;
    assert_eq!(got.header("access-control-allow-origin"), Some("http://localhost:5173"), "each gets its own name only");
}

/// A page can show the problem to its user.
#[tokio::test]
async fn problems_are_readable_across_origins() {
    let limits = Limits { concurrent: 0, ..Limits::default() };
    let cors = Cors::new([ORIGIN]).expect("an origin");
    let desk = Desk::open_with(limits, |server| server.cors(cors)).await;
    let got = get(&mut desk.connect("acme").await, ORIGIN).await;
    assert_eq!(got.problem(), (503, "overloaded".to_owned()));
    assert_eq!(got.header("access-control-allow-origin"), Some(ORIGIN));
    let mut admin = desk.server.connect_admin().await;
    let got = admin.send(Method::GET, "/metrics", &[("origin", ORIGIN)], Body::empty()).await;
    assert_eq!(cors_headers(&got), Vec::<&str>::new(), "figures are for no page");
}

#[tokio::test]
async fn credentials_are_allowed_only_on_demand() {
    let desk = desk(Cors::new([ORIGIN]).expect("an origin").allow_credentials(true)).await;
    let got = preflight(&mut desk.connect("acme").await, ORIGIN, "GET").await;
    assert_eq!(got.header("access-control-allow-credentials"), Some("true"));
}
