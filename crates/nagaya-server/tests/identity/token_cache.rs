//! The cache of verified tokens.

use std::sync::Arc;

use serde_json::json;

use crate::common::{Key, NOW, Provider, TestClock, outcome, verifier};

#[tokio::test]
async fn a_cached_token_is_not_verified_again() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    let token = key.sign(&provider.claims());
    let first = verifier.caller(&token).await.expect("the token is good");
    let second = verifier.caller(&token).await.expect("the token is good");
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(verifier.uncached_tokens(), 1);
    // Another token of the same user is verified.
    let other = key.sign(&provider.claims_with(json!({ "tenantId": "t2" })));
    assert_eq!(outcome(&verifier, &other).await, "u1@t2 admin");
    assert_eq!(outcome(&verifier, &token).await, "u1@t1 admin");
    assert_eq!(verifier.uncached_tokens(), 2);
}

#[tokio::test]
async fn a_cached_token_still_expires() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let token = key.sign(&provider.claims_with(json!({ "exp": NOW + 100 })));
    assert_eq!(outcome(&verifier, &token).await, "u1@t1 admin");
    hand.pass(129);
    assert_eq!(outcome(&verifier, &token).await, "u1@t1 admin");
    assert_eq!(verifier.uncached_tokens(), 1);
    hand.pass(1);
    assert_eq!(outcome(&verifier, &token).await, "401 bad_token: The token has expired.");
}

#[tokio::test]
async fn a_refused_token_is_not_cached() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let early = key.sign(&provider.claims_with(json!({ "nbf": NOW + 60 })));
    for _ in 0..2 {
        assert_eq!(outcome(&verifier, &early).await, "401 bad_token: The token is not valid yet.");
    }
    assert_eq!(verifier.uncached_tokens(), 2);
    hand.pass(30);
    assert_eq!(outcome(&verifier, &early).await, "u1@t1 admin");
}

/// The cache hashes only the end of a token, so two tokens with the same end share a slot.
#[tokio::test]
async fn a_token_with_the_suffix_of_a_cached_one_is_not_accepted() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    let token = key.sign(&provider.claims());
    assert_eq!(outcome(&verifier, &token).await, "u1@t1 admin");
    let (_, signature) = token.rsplit_once('.').expect("it has three parts");
    let other = Key::other("a").sign(&provider.claims_with(json!({ "tenantId": "t2" })));
    let (forged, _) = other.rsplit_once('.').expect("it has three parts");
    let forged = format!("{forged}.{signature}");
    assert_eq!(outcome(&verifier, &forged).await, "401 bad_token: The signature of the token is wrong.");
}
