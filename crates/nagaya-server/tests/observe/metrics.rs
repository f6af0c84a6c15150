//! Metrics for Prometheus.

use axum::{body::Body, http::Method};
use nagaya_server::{Limits, Revocation, RevokedSubject};
use nagaya_store::{Item, Store as _, Write};
use serde_json::json;

use crate::desk::Desk;

async fn metrics(desk: &Desk) -> String {
    let got = desk.server.connect_admin().await.get("/metrics").await;
    assert_eq!(got.status, 200);
    assert_eq!(got.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert_eq!(got.header("cache-control"), Some("no-store"));
    got.text
}

#[track_caller]
fn has(metrics: &str, line: &str) {
    assert!(metrics.lines().any(|each| each == line), "no line {line} in\n{metrics}");
}

#[tokio::test]
async fn requests_are_counted_by_system_route_method_and_class() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    let made = client.post("/notes", &json!({ "title": "Buy milk" })).await.json();
    let id = made["data"]["noteId"].as_str().expect("an id").to_owned();
    assert_eq!(client.get(&format!("/notes/{id}")).await.status, 200);
    assert_eq!(client.get("/notes/01ARZ3NDEKTSV4RRFFQ69G5FAV").await.status, 404);
    assert_eq!(client.post("/notes", &json!({ "title": 7 })).await.status, 422);

    let metrics = metrics(&desk).await;
    let item = r#"system="desk",method="GET",route="/notes/{noteId}""#;
    has(&metrics, &format!(r#"nagaya_requests_total{{{item},status="2xx"}} 1"#));
    has(&metrics, &format!(r#"nagaya_requests_total{{{item},status="4xx"}} 1"#));
    has(&metrics, &format!(r#"nagaya_request_duration_seconds_count{{{item}}} 2"#));
    has(&metrics, &format!(r#"nagaya_request_duration_seconds_bucket{{le="+Inf",{item}}} 2"#));
    let making = r#"system="desk",method="POST",route="/notes""#;
    has(&metrics, &format!(r#"nagaya_requests_total{{{making},status="2xx"}} 1"#));
    has(&metrics, &format!(r#"nagaya_requests_total{{{making},status="4xx"}} 1"#));
    has(&metrics, "nagaya_connections 1");
    has(&metrics, "nagaya_requests_in_flight 0");
    has(&metrics, r#"nagaya_wall_breaches_total{system="desk"} 0"#);
    has(&metrics, r#"nagaya_tokens_checked_total{system="desk"} 1"#);
    assert!(!metrics.contains("acme") && !metrics.contains(&id), "no tenant and no id is among them");
}

#[tokio::test]
async fn unknown_paths_add_no_metrics() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    // Send one request of each kind first, because routes without requests have no metrics.
    client.get("/nowhere").await;
    client.get("/notes/x").await;
    let before = metrics(&desk).await.lines().count();
    for at in 0..50 {
        assert_eq!(client.get(&format!("/nowhere/{at}")).await.status, 404);
        assert_eq!(client.get(&format!("/notes/{at}?q={at}")).await.status, 400);
        let made_up = Method::from_bytes(format!("METHOD{at}").as_bytes()).expect("a method");
        assert_eq!(client.send(made_up, "/notes", &[], Body::empty()).await.status, 405);
    }
    let metrics = metrics(&desk).await;
    assert_eq!(metrics.lines().count(), before);
    has(&metrics, r#"nagaya_requests_total{system="none",method="none",route="none",status="4xx"} 101"#);
}

#[tokio::test]
async fn metrics_include_the_limits() {
    let limits = Limits { concurrent: 12, connections: 34, tenant_concurrent: 1, ..Limits::default() };
    let desk = Desk::open(limits).await;
    let mut client = desk.connect("acme").await;
    let figures_before = metrics(&desk).await;
    has(&figures_before, "nagaya_requests_in_flight_limit 12.0");
    has(&figures_before, "nagaya_connections_limit 34.0");
    has(&figures_before, r#"nagaya_tenants_over_quota{system="desk"} 0.0"#);
    has(&figures_before, r#"nagaya_token_revocations{system="desk"} 0.0"#);
    assert!(figures_before.contains("\nnagaya_process_max_fds ") || cfg!(not(target_os = "linux")));
    let revocation = |tenant: &str| {
        let subject = RevokedSubject::Tenant(tenant.to_owned());
        Revocation { subject, issued_before: 1 }
    };
    desk.server.revocations.replace([revocation("former"), revocation("gone")]);
    has(&metrics(&desk).await, r#"nagaya_token_revocations{system="desk"} 2.0"#);

    let mut held = desk.connect("acme").await;
    let wait_until_held = tokio::spawn(async move { held.get("/hold").await.status });
    desk.wait_until_held(1).await;
    for _ in 0..3 {
        assert_eq!(client.get("/notes").await.status, 429);
    }
    let figures_then = metrics(&desk).await;
    has(&figures_then, r#"nagaya_requests_rejected_total{reason="rate"} 3"#);
    has(&figures_then, r#"nagaya_tenants_over_quota{system="desk"} 1.0"#);
    assert!(!figures_then.contains("acme"));
    desk.release(1);
    assert_eq!(wait_until_held.await.expect("no panic"), 200);
}

#[tokio::test]
async fn an_item_behind_the_wrong_wall_raises_the_alarm() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    // Write directly to the store: an item of one tenant under a key of another.
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let item = Item::new().with("PK", "TENANT#acme").with("SK", format!("NOTE#{id}").as_str());
    let item = item.with("tenantId", "other").with("noteId", id).with("title", "Not yours");
    desk.store.write(Write::put("desk-main", item).into()).await.expect("written");

    let got = client.get(&format!("/notes/{id}")).await;
    assert_eq!(got.problem(), (500, "internal".to_owned()));
    assert!(!got.text.contains("Not yours"));
    has(&metrics(&desk).await, r#"nagaya_wall_breaches_total{system="desk"} 1"#);

    // Replacing the system does not reset the counter.
    desk.server
        .mounted
        .replace(nagaya_server::System::plain(desk.server.nagaya.design().clone()), desk.server.nagaya.clone());
    let metrics = metrics(&desk).await;
    assert!(!metrics.contains(r#"nagaya_wall_breaches_total{system="desk"} 0"#), "{metrics}");
}

#[tokio::test]
async fn a_panic_is_answered_and_counted() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    let got = client.post("/panic", &json!({ "email": "ann@example.com" })).await;
    assert_eq!(got.problem(), (500, "internal".to_owned()));
    assert!(!got.text.contains("ann") && !got.text.contains("panic"), "{got:?}");
    assert_eq!(got.json()["requestId"].as_str(), got.header("x-request-id"));

    assert_eq!(client.get("/notes").await.status, 200, "the connection goes on");
    let metrics = metrics(&desk).await;
    has(&metrics, r#"nagaya_requests_rejected_total{reason="panic"} 1"#);
    has(&metrics, r#"nagaya_requests_total{system="desk",method="POST",route="/panic",status="5xx"} 1"#);
}

#[tokio::test]
async fn a_client_that_disconnects_is_counted_too() {
    let desk = Desk::open(Limits::default()).await;
    let mut gone = desk.connect("acme").await;
    let asking = tokio::spawn(async move { gone.get("/hold").await.status });
    desk.wait_until_held(1).await;
    asking.abort();
    desk.wait_until_held(0).await;
    let metrics = metrics(&desk).await;
    has(&metrics, r#"nagaya_requests_total{system="desk",method="GET",route="/hold",status="4xx"} 1"#);
}
