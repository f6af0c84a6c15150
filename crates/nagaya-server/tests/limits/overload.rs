//! More concurrent requests than the limit.

use axum::{body::Body, http::Method};
use nagaya_server::Limits;

use crate::desk::Desk;

#[tokio::test]
async fn over_the_limit_requests_get_503_and_probes_are_answered() {
    let desk = Desk::open(Limits { concurrent: 2, ..Limits::default() }).await;
    let (mut first, mut second) = (desk.connect("acme").await, desk.connect("acme").await);
    let held = tokio::spawn(async move { (first.get("/hold").await, second.get("/notes").await, first) });
    let mut third = desk.connect("acme").await;
    let also_held = tokio::spawn(async move { (third.get("/hold").await, third) });
    desk.wait_until_held(2).await;

    let mut late = desk.connect("acme").await;
    let got = late.get("/notes").await;
    assert_eq!(got.problem(), (503, "overloaded".to_owned()));
    assert_eq!(got.header("retry-after"), Some("1"));
    assert!(got.header("x-request-id").is_some());
    // Probes are still answered.
    assert_eq!(late.get("/healthz").await.text, r#"{"status":"ok"}"#);
    assert_eq!(late.get("/readyz").await.text, r#"{"status":"ready"}"#);
    let metrics = late.get("/metrics").await.text;
    assert!(metrics.contains("\nnagaya_requests_in_flight 2\n"), "{metrics}");
    assert!(metrics.contains("\nnagaya_requests_rejected_total{reason=\"overload\"} 1\n"), "{metrics}");

    // The accepted requests succeed, and release their permits.
    desk.release(2);
    let (got, after, _) = held.await.expect("no panic");
    assert_eq!((got.status.as_u16(), after.status.as_u16()), (200, 200));
    assert_eq!(also_held.await.expect("no panic").0.status, 200);
    assert_eq!(late.get("/notes").await.status, 200);
}

#[tokio::test]
async fn slow_requests_of_one_tenant_leave_capacity_for_others() {
    let desk = Desk::open(Limits { tenant_concurrent: 1, ..Limits::default() }).await;
    let mut slow = desk.connect("slow").await;
    let held = tokio::spawn(async move { slow.get("/hold").await });
    desk.wait_until_held(1).await;

    let got = desk.connect("slow").await.get("/notes").await;
    assert_eq!(got.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(got.header("retry-after"), Some("1"));
    assert_eq!(desk.connect("quick").await.get("/notes").await.status, 200);

    desk.release(1);
    assert_eq!(held.await.expect("no panic").status, 200);
    assert_eq!(desk.connect("slow").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn a_client_that_disconnects_releases_its_permit() {
    let desk = Desk::open(Limits { concurrent: 1, tenant_concurrent: 1, ..Limits::default() }).await;
    let mut gone = desk.connect("acme").await;
    let asking = tokio::spawn(async move { gone.try_send(Method::GET, "/hold", &[], Body::empty()).await.map(drop) });
    desk.wait_until_held(1).await;
    asking.abort();
    desk.wait_until_held(0).await;
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_until_one_ends() {
    let desk = Desk::open(Limits { connections: 2, ..Limits::default() }).await;
    let (mut first, mut second) = (desk.connect("acme").await, desk.connect("acme").await);
    assert_eq!(first.get("/notes").await.status, 200);
    assert_eq!(second.get("/notes").await.status, 200);

    let mut third = desk.connect("acme").await;
    let waiting = tokio::spawn(async move { third.get("/notes").await.status });
    let metrics = first.get("/metrics").await.text;
    assert!(metrics.contains("\nnagaya_connections 2\n"), "{metrics}");
    assert!(!waiting.is_finished());
    drop(second);
    assert_eq!(waiting.await.expect("no panic"), 200);
}
