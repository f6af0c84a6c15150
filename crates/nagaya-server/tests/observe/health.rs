//! Health probes.

use std::time::Duration;

use axum::{body::Body, http::Method};
use nagaya_server::{Limits, Server};
use nagaya_store::Health;
use nagaya_testing::{LogLines, PausedTokioClock};
use serde_json::json;

use crate::desk::Desk;

#[tokio::test]
async fn a_server_is_ready_when_its_store_answers() {
    let desk = Desk::without_tables().await;
    let mut client = desk.server.connect().await;
    let clock = PausedTokioClock::pause();
    assert_eq!(client.get("/healthz").await.text, r#"{"status":"ok"}"#, "it lives without a store");
    let got = client.get("/readyz").await;
    assert_eq!(got.problem(), (503, "not_ready".to_owned()));
    assert!(got.text.contains("`desk`"), "{got:?}");

    desk.server.nagaya.ensure_tables().await.expect("the tables are made");
    clock.advance(Duration::from_secs(2)).await;
    let got = client.get("/readyz").await;
    assert_eq!((got.status.as_u16(), got.text.as_str()), (200, r#"{"status":"ready"}"#));
    assert_eq!(got.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn readiness_probes_the_mounted_system() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.server.connect().await;
    let clock = PausedTokioClock::pause();
    assert_eq!(client.get("/readyz").await.status, 200);
    // The system is replaced by one whose store has no tables.
    let empty = Desk::without_tables().await;
    let design = desk.server.nagaya.design().clone();
    desk.server.mounted.replace(nagaya_server::System::plain(design), empty.server.nagaya.clone());
    clock.advance(Duration::from_secs(2)).await;
    assert_eq!(client.get("/readyz").await.problem(), (503, "not_ready".to_owned()));
}

#[tokio::test]
async fn a_failed_store_makes_the_server_unready_and_the_reason_is_only_logged() {
    let (lines, _log) = LogLines::capture("info");
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.server.connect().await;
    let clock = PausedTokioClock::pause();
    assert_eq!(client.get("/readyz").await.status, 200);

    // A warning is logged, and the server stays ready.
    desk.store.set_health(Health::Warning("2 % of the disk are left".into()));
    clock.advance(Duration::from_secs(2)).await;
    assert_eq!(client.get("/readyz").await.status, 200);

    desk.store.set_health(Health::ReadOnly("1 % of the disk is left".into()));
    clock.advance(Duration::from_secs(2)).await;
    assert_eq!(client.get("/readyz").await.status, 200);

    desk.store.set_health(Health::Unavailable("cannot sync /var/db/1.log: input/output error".into()));
    clock.advance(Duration::from_secs(2)).await;
    let got = client.get("/readyz").await;
    assert_eq!(got.problem(), (503, "not_ready".to_owned()));
    assert_eq!(got.json()["detail"], "The store of `desk` is not available.");
    assert_eq!(got.header("retry-after"), Some("1"));
    assert_eq!(client.get("/healthz").await.status, 200, "restarting would not help");
    for _ in 0..10 {
        clock.advance(Duration::from_secs(2)).await;
        client.get("/readyz").await;
    }
    desk.store.set_health(Health::Ready);
    clock.advance(Duration::from_secs(2)).await;
    assert_eq!(client.get("/readyz").await.status, 200);

    let logged: Vec<_> = lines
        .server()
        .iter()
        .filter(|line| line["systems"].is_string())
        .map(|line| format!("{} {} {} {}", line["level"], line["systems"], line["message"], line["reason"]))
        .collect();
    assert_eq!(
        logged,
        [
            r#""WARN" "desk" "the store needs attention" "2 % of the disk are left""#,
            r#""ERROR" "desk" "the store is not available" "cannot sync /var/db/1.log: input/output error""#,
            r#""INFO" "desk" "the store is ready again" null"#,
        ]
    );
}

#[tokio::test]
async fn waiting_for_a_store_failure_ignores_short_outages() {
    let (sender, failed) = std::sync::mpsc::channel();
    let watch = move |server: &mut Server| drop(sender.send(server.wait_for_store_failure(Duration::from_secs(30))));
    let desk = Desk::open_with(Limits::default(), watch).await;
    let failed = tokio::spawn(failed.recv().expect("it is watched"));
    let clock = PausedTokioClock::pause();
    let pass = async |seconds: u64| {
        for _ in 0..seconds {
            clock.advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    };
    let down = || desk.store.set_health(Health::Unavailable("the disk is gone".into()));
    down();
    pass(20).await;
    desk.store.set_health(Health::Ready);
    pass(20).await;
    down();
    pass(20).await;
    assert!(!failed.is_finished(), "it has not been down for long enough at a time");
    pass(20).await;
    assert_eq!(failed.await.expect("no panic"), "the disk is gone");
}

#[tokio::test]
async fn probes_accept_get_and_head_only() {
    let desk = Desk::open(Limits::default()).await;
    for mut client in [desk.server.connect().await, desk.server.connect_admin().await] {
        for path in ["/healthz", "/readyz"] {
            let got = client.send(Method::HEAD, path, &[], Body::empty()).await;
            assert_eq!((got.status.as_u16(), got.text.as_str()), (200, ""), "{path}");
            let got = client.send(Method::DELETE, path, &[], Body::empty()).await;
            assert_eq!(got.status, 404, "{path}");
        }
    }
}

/// The metrics count the calls of all tenants together.
#[tokio::test]
async fn metrics_are_on_the_admin_listener_and_nothing_else_is() {
    let desk = Desk::open(Limits::default()).await;
    assert_eq!(desk.connect("acme").await.get("/metrics").await.status, 404);
    let mut admin = desk.server.connect_admin().await.with_token(desk.server.token(Some("acme"), "ann", &[]));
    assert_eq!(admin.get("/metrics").await.status, 200);
    for path in ["/notes", "/", "/docs", "/openapi.json"] {
        assert_eq!(admin.get(path).await.status, 404, "{path}");
    }
}

/// A handler may write to more than its store, for example objects.
#[tokio::test]
async fn a_full_store_refuses_writes_before_the_handler_runs() {
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    desk.store.set_health(Health::ReadOnly("1 % of the disk is left".into()));
    // The handler of this route panics.
    assert_eq!(client.post("/panic", &json!({})).await.problem(), (507, "insufficient_storage".to_owned()));
    assert_eq!(client.get("/notes").await.status, 200);
    desk.store.set_health(Health::Ready);
    assert_eq!(client.post("/panic", &json!({})).await.status, 500);
}
