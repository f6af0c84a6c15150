//! Key rotation.

use std::sync::Arc;

use nagaya_server::{Issuer, LocalIssuer};
use serde_json::json;

use crate::common::{Key, Provider, TestClock, eventually, issue, outcome, verifier};

const FINE: &str = "u1@t1 admin";
const NOT_PUBLISHED: &str = "401 bad_token: The token is signed by a key that its issuer does not publish.";

/// Proves T15.
#[tokio::test]
async fn a_new_key_is_found_by_the_first_token_that_it_signs() {
    let (old, new, hand) = (Key::es256("old"), Key::other("new"), TestClock::new());
    let provider = Provider::start(&[&old]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    assert_eq!(outcome(&verifier, &old.sign(&provider.claims())).await, FINE);
    provider.publish(&[&old, &new]);
    hand.pass(30);
    assert_eq!(outcome(&verifier, &new.sign(&provider.claims())).await, FINE);
    assert_eq!(outcome(&verifier, &old.sign(&provider.claims())).await, FINE);
    assert_eq!(provider.asked(), 2);
}

#[tokio::test]
async fn unknown_keys_cause_one_refresh_per_half_minute() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    for id in ["b", "c", "d", "e"] {
        assert_eq!(outcome(&verifier, &Key::other(id).sign(&provider.claims())).await, NOT_PUBLISHED);
    }
    assert_eq!(provider.asked(), 1);
    hand.pass(29);
    assert_eq!(outcome(&verifier, &Key::other("f").sign(&provider.claims())).await, NOT_PUBLISHED);
    assert_eq!(provider.asked(), 1);
    hand.pass(1);
    assert_eq!(outcome(&verifier, &Key::other("g").sign(&provider.claims())).await, NOT_PUBLISHED);
    assert_eq!(provider.asked(), 2);
    // A clock that goes back does not stop refreshes.
    hand.pass(-3600);
    assert_eq!(outcome(&verifier, &Key::other("h").sign(&provider.claims())).await, NOT_PUBLISHED);
    assert_eq!(provider.asked(), 3);
}

#[tokio::test]
async fn concurrent_callers_cause_one_refresh() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let verifier = Arc::new(verifier(&provider.issuer(), &TestClock::new()));
    let callers: Vec<_> = (0..20)
        .map(|user| {
            let token = key.sign(&provider.claims_with(json!({ "sub": format!("u{user}") })));
            let verifier = Arc::clone(&verifier);
            tokio::spawn(async move { verifier.caller(&token).await.is_ok() })
        })
        .collect();
    for caller in callers {
        assert!(caller.await.expect("it does not panic"));
    }
    assert_eq!(provider.asked(), 1);
}

/// Proves T15.
#[tokio::test]
async fn tokens_of_a_removed_key_are_refused() {
    let (old, new, hand) = (Key::es256("old"), Key::other("new"), TestClock::new());
    let provider = Provider::start(&[&old, &new]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let (by_old, by_new) = (old.sign(&provider.claims()), new.sign(&provider.claims()));
    assert_eq!(outcome(&verifier, &by_old).await, FINE);
    assert_eq!(outcome(&verifier, &by_new).await, FINE);

    // Cached tokens alone refresh the keys every ten minutes, in the background.
    provider.publish(&[&new]);
    hand.pass(599);
    assert_eq!(outcome(&verifier, &by_old).await, FINE);
    hand.pass(1);
    assert_eq!(outcome(&verifier, &by_new).await, FINE);
    eventually(|| provider.asked() == 2).await;
    let mut result = outcome(&verifier, &by_old).await;
    for _ in 0..500 {
        if result != FINE {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        result = outcome(&verifier, &by_old).await;
    }
    assert_eq!(result, NOT_PUBLISHED);
    let uncached = verifier.uncached_tokens();
    assert_eq!(outcome(&verifier, &by_new).await, FINE);
    assert_eq!(verifier.uncached_tokens(), uncached, "the tokens of the other key stay known");
}

#[tokio::test]
async fn after_a_long_pause_the_first_token_waits_for_a_refresh() {
    let (old, new, hand) = (Key::es256("old"), Key::other("new"), TestClock::new());
    let provider = Provider::start(&[&old]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let token = old.sign(&provider.claims());
    assert_eq!(outcome(&verifier, &token).await, FINE);
    provider.publish(&[&new]);
    hand.pass(1_200);
    assert_eq!(outcome(&verifier, &token).await, NOT_PUBLISHED);
    assert_eq!(provider.asked(), 2);
}

#[tokio::test]
async fn until_that_pause_a_token_does_not_wait_for_a_refresh() {
    let (old, new, hand) = (Key::es256("old"), Key::other("new"), TestClock::new());
    let provider = Provider::start(&[&old]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let token = old.sign(&provider.claims());
    assert_eq!(outcome(&verifier, &token).await, FINE);
    provider.publish(&[&new]);
    hand.pass(1_199);
    assert_eq!(outcome(&verifier, &token).await, FINE);
}

#[tokio::test]
async fn tokens_of_a_replaced_key_are_refused() {
    let (old, new, hand) = (Key::es256("a"), Key::other("a"), TestClock::new());
    let provider = Provider::start(&[&old]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let token = old.sign(&provider.claims());
    assert_eq!(outcome(&verifier, &token).await, FINE);
    provider.publish(&[&new]);
    hand.pass(30);
    // Any token with an unknown key triggers a refresh.
    assert_eq!(outcome(&verifier, &new.sign_as(&Key::es256("b").header(), &provider.claims())).await, NOT_PUBLISHED);
    assert_eq!(outcome(&verifier, &token).await, "401 bad_token: The signature of the token is wrong.");
    assert_eq!(outcome(&verifier, &new.sign(&provider.claims())).await, FINE);
}

#[tokio::test]
async fn the_newest_key_of_the_local_issuer_is_accepted_after_many_rotations() {
    let hand = TestClock::new();
    let local = Arc::new(LocalIssuer::in_memory().expect("keys can be made").with_clock(hand.clock()));
    let verifier = verifier(&Issuer::local(&local), &hand);
    for _ in 0..70 {
        local.rotate().expect("keys can be made");
    }
    assert_eq!(outcome(&verifier, &issue(&local)).await, FINE);
}

#[tokio::test]
async fn the_local_issuer_signs_with_its_newest_key_and_verifies_with_all() {
    let hand = TestClock::new();
    let local = Arc::new(LocalIssuer::in_memory().expect("keys can be made").with_clock(hand.clock()));
    let verifier = verifier(&Issuer::local(&local), &hand);
    let issue = || issue(&local);
    let id = |token: &str| jsonwebtoken::decode_header(token).expect("a header").kid.expect("a key");
    let first = issue();
    assert_eq!(outcome(&verifier, &first).await, FINE);
    let newest = local.rotate().expect("keys can be made");
    let second = issue();
    assert_ne!(id(&first), id(&second));
    assert_eq!(id(&second), newest);
    assert_eq!(outcome(&verifier, &first).await, FINE);
    assert_eq!(outcome(&verifier, &second).await, FINE);
    assert_eq!(verifier.uncached_tokens(), 2);
    local.remove_older_keys().expect("keys can be forgotten");
    assert!(outcome(&verifier, &first).await.starts_with(NOT_PUBLISHED));
    assert_eq!(outcome(&verifier, &second).await, FINE);
    assert_eq!(verifier.uncached_tokens(), 3);
}
