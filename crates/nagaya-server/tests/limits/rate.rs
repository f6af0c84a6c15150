//! The request rate of a tenant.

use std::{num::NonZeroU32, time::Duration};

use nagaya_server::Limits;
use nagaya_testing::{ManualClock, RawResponse, memory_store};

use crate::desk::Desk;

fn one_per_second() -> Limits {
    Limits { tenant_rate: 1, ..Limits::default() }
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
    assert_eq!(got.header("ratelimit-policy"), Some(r#""tenant";q=2;w=2"#));
    assert_eq!(got.header("ratelimit"), Some(r#""tenant";r=0;t=2"#));
}

#[tokio::test]
async fn single_tenants_have_the_rates_of_the_settings() {
    let tenant_rates = [("large".to_owned(), 1_000), ("free".to_owned(), 0)].into();
    let desk = Desk::open(Limits { tenant_rates, ..one_per_second() }).await;
    let policy = async |tenant| {
        let got = desk.connect(tenant).await.get("/notes").await;
        got.header("ratelimit-policy").map(str::to_owned)
    };
    assert_eq!(policy("large").await.as_deref(), Some(r#""tenant";q=2000;w=2"#));
    assert_eq!(policy("free").await, None, "without a limit");
    assert_eq!(policy("small").await.as_deref(), Some(r#""tenant";q=2;w=2"#));
    // A user without a tenant is no tenant of that name.
    let mut user = desk.server.connect().await.with_token(desk.server.token(None, "large", &[]));
    assert_eq!(user.get("/origin").await.header("ratelimit-policy"), Some(r#""tenant";q=2;w=2"#));
}

#[tokio::test]
async fn every_answer_says_what_is_left_of_the_rate() {
    let desk = Desk::open(Limits::default()).await;
    let got = desk.connect("acme").await.get("/notes").await;
    assert_eq!(got.header("ratelimit-policy"), Some(r#""tenant";q=400;w=2"#));
    assert_eq!(got.header("ratelimit"), Some(r#""tenant";r=399;t=1"#));
}

#[tokio::test]
async fn an_address_that_guesses_tokens_is_refused_and_known_tokens_go_on() {
    let limits = Limits { failed_authentications: NonZeroU32::new(5).expect("positive"), ..Limits::default() };
    let desk = Desk::open(limits).await;
    let mut known = desk.connect("acme").await;
    assert_eq!(known.get("/notes").await.status, 200);
    let mut guess = desk.server.connect().await.with_token("eyJhbGciOiJub25lIn0.e30.".to_owned());
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(guess.get("/notes").await.status.as_u16());
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429, 429]);
    assert_eq!(known.get("/notes").await.status, 200, "a token that was verified before");
    assert_eq!(desk.server.connect().await.get("/notes").await.status, 401, "no token is no guess");
    assert_eq!(desk.connect("other").await.get("/notes").await.status, 429, "a token that is new here");
}

#[tokio::test]
async fn a_token_that_has_expired_is_no_longer_known() {
    let limits = Limits { failed_authentications: NonZeroU32::new(5).expect("positive"), ..Limits::default() };
    let tokens = ManualClock::default();
    let desk =
        Desk::serve(memory_store(&ManualClock::default()), |server| server.limits(limits).token_clock(&tokens)).await;
    let mut old = desk.connect("acme").await;
    assert_eq!(old.get("/notes").await.status, 200);
    let mut guess = desk.server.connect().await.with_token("eyJhbGciOiJub25lIn0.e30.".to_owned());
    while guess.get("/notes").await.status != 429 {}
    assert_eq!(old.get("/notes").await.status, 200);
    tokens.advance(Duration::from_secs(2 * 3_600));
    assert_eq!(old.get("/notes").await.status, 429, "it is not verified again");
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
    let desk = Desk::open(Limits { tenant_rate: 0, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    for _ in 0..100 {
        assert_eq!(client.get("/notes").await.status, 200);
    }
}
