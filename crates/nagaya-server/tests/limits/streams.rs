//! Streams of events end with their token.

use std::time::Duration;

use axum::{body::Body, http::Method};
use http_body_util::BodyExt as _;
use nagaya_server::{Revocation, RevokedSubject};
use nagaya_testing::{ManualClock, PausedTokioClock, memory_store};

use crate::desk::Desk;

/// A token of the desk is valid for an hour.
const AFTER_EXPIRY: Duration = Duration::from_secs(2 * 3_600);

/// Opens a stream, and checks that it goes on until this is done to its token.
async fn check(end_token: impl FnOnce(&Desk, &ManualClock)) {
    let tokens = ManualClock::default();
    let desk = Desk::serve(memory_store(&ManualClock::default()), |server| server.token_clock(&tokens)).await;
    let clock = PausedTokioClock::pause();
    let mut client = desk.connect("acme").await;
    let stream = client.begin(Method::GET, "/stream", &[], Body::empty()).await.expect("an answer");
    assert_eq!(stream.status(), 200);
    let reading = tokio::spawn(stream.into_body().collect());
    desk.wait_until_held(1).await;
    // Each request lets the server do what is due.
    let pass_a_minute = async || {
        for _ in 0..60 {
            clock.advance(Duration::from_secs(1)).await;
            desk.connect("other").await.get("/notes").await;
        }
    };
    pass_a_minute().await;
    assert!(!reading.is_finished(), "its token is valid");
    end_token(&desk, &tokens);
    pass_a_minute().await;
    assert!(reading.is_finished(), "its token is no longer valid");
    let read = reading.await.expect("no panic").expect("a stream that has ended, not one that broke").to_bytes();
    assert_eq!(read, "onetwothree");
}

#[tokio::test]
async fn a_stream_ends_when_its_token_expires() {
    check(|_, tokens| tokens.advance(AFTER_EXPIRY)).await;
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked() {
    check(|desk, _| {
        let subject = RevokedSubject::Tenant("acme".to_owned());
        desk.server.revocations.replace([Revocation { subject, issued_before: i64::MAX }]);
    })
    .await;
}
