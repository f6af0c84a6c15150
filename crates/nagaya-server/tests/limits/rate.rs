//! The rate of a tenant.

use std::num::NonZeroU32;

use nagaya_server::Limits;

use crate::{client::Got, harness::TestServer};

fn one_a_second() -> Limits {
    Limits { tenant_rate: NonZeroU32::new(1), ..Limits::default() }
}

/// Asks until it is refused.
async fn refused(server: &TestServer, tenant: &str) -> Got {
    let mut client = server.connect(tenant).await;
    // Two at once, and one more each second: a machine that takes a minute for a hundred requests is not to be tested on.
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
    let server = TestServer::open(one_a_second()).await;
    let got = refused(&server, "acme").await;
    assert_eq!(got.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(got.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_flood_of_one_tenant_leaves_the_others_alone() {
    let server = TestServer::open(one_a_second()).await;
    refused(&server, "flood").await;
    let mut calm = server.connect("calm").await;
    assert_eq!(calm.get("/notes").await.status, 200);
    assert_eq!(refused(&server, "flood").await.status, 429, "another connection is the same tenant");
    assert_eq!(server.connect("third").await.get("/notes").await.status, 200);
}

#[tokio::test]
async fn callers_without_a_tenant_are_limited_by_user() {
    let server = TestServer::open(one_a_second()).await;
    let mut ann = server.anonymous().await.with_token(server.token("", "ann"));
    let mut bob = server.anonymous().await.with_token(server.token("", "bob"));
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(ann.get("/origin").await.status.as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(bob.get("/origin").await.status, 200);
}

#[tokio::test]
async fn without_a_rate_nothing_is_refused() {
    let server = TestServer::open(Limits { tenant_rate: None, ..Limits::default() }).await;
    let mut client = server.connect("acme").await;
    for _ in 0..100 {
        assert_eq!(client.get("/notes").await.status, 200);
    }
}
