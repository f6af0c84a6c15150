//! The request rate of a tenant.

use std::num::NonZeroU32;

use nagaya_server::Limits;
use nagaya_testing::RawResponse;

use crate::desk::Desk;

fn one_per_second() -> Limits {
    Limits { tenant_rate: NonZeroU32::new(1), ..Limits::default() }
}

/// Sends requests until one is refused.
async fn refused(desk: &Desk, tenant: &str) -> RawResponse {
    let mut client = desk.connect(tenant).await;
    // Two at once and one more per second: this fails only where a hundred requests take a minute.
    for _ in 0..100 {
        let got = client.get("/notes").await;
        if got.status != 200 {
            return got;
        }
    }
    panic!("nothing was refused");
}

#[tokio::test]
async fn a_tenant_over_its_rate_gets_retry_after() {
    let desk = Desk::open(one_per_second()).await;
    let got = refused(&desk, "acme").await;
    assert_eq!(got.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(got.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_flood_of_one_tenant_does_not_affect_others() {
    let desk = Desk::open(one_per_second()).await;
    refused(&desk, "flood").await;
    let mut calm = desk.connect("calm").await;
    assert_eq!(calm.get("/notes").await.status, 200);
    assert_eq!(refused(&desk, "flood").await.status, 429, "another connection is the same tenant");
    assert_eq!(desk.connect("third").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn callers_without_a_tenant_are_limited_by_user() {
    let desk = Desk::open(one_per_second()).await;
    let mut ann = desk.server.connect().await.with_token(desk.server.token(None, "ann", &[]));
    let mut bob = desk.server.connect().await.with_token(desk.server.token(None, "bob", &[]));
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(ann.get("/origin").await.status.as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(bob.get("/origin").await.status, 200);
}

#[tokio::test]
async fn without_a_rate_nothing_is_refused() {
    let desk = Desk::open(Limits { tenant_rate: None, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    for _ in 0..100 {
        assert_eq!(client.get("/notes").await.status, 200);
    }
}
