//! Remote issuers: available, unavailable, slow, hostile.

use std::time::{Duration, Instant};

use jsonwebtoken::Algorithm;
use nagaya_server::Issuer;
use nagaya_testing::LogLines;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;

use crate::common::{Key, Provider, TestClock, eventually, outcome, problem_line, verifier};

const FINE: &str = "u1@t1 admin";
const UNREACHABLE: &str = "503 issuer_unreachable: The keys of the token's issuer cannot be fetched.";
const NOT_PUBLISHED: &str = "401 bad_token: The token is signed by a key that its issuer does not publish.";

#[tokio::test]
async fn an_unreachable_issuer_is_trusted_by_its_cached_keys() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let mut provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let fresh = |user: &str| {
        let exp = crate::common::NOW + 80_000;
        key.sign(&provider.claims_with(json!({ "sub": user, "exp": exp })))
    };
    let tokens: Vec<_> = (0..6).map(|user| fresh(&format!("u{user}"))).collect();
    assert_eq!(outcome(&verifier, &tokens[0]).await, "u0@t1 admin");
    provider.stop().await;
    for (user, token) in tokens.iter().enumerate().skip(1) {
        hand.pass(3_000);
        assert_eq!(outcome(&verifier, token).await, format!("u{user}@t1 admin"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // An unknown key may be a new one.
    hand.pass(30);
    let unseen = Key::other("b").sign(&provider.claims_with(json!({ "exp": crate::common::NOW + 80_000 })));
    assert_eq!(outcome(&verifier, &unseen).await, UNREACHABLE);
    provider.publish(&[&key, &Key::other("b")]);
    provider.restart().await;
    hand.pass(5);
    assert_eq!(outcome(&verifier, &unseen).await, FINE);
}

/// An issuer may have removed a key meanwhile, because it was stolen.
#[tokio::test]
async fn cached_keys_are_trusted_for_a_limited_time() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let mut provider = Provider::start(&[&key]).await;
    let issuer = provider.issuer();
    let limited = verifier(&issuer, &hand).max_key_age(Some(Duration::from_secs(7_200)));
    let unlimited = verifier(&issuer, &hand).max_key_age(None);
    let token =
        |user: &str| key.sign(&provider.claims_with(json!({ "sub": user, "exp": crate::common::NOW + 80_000 })));
    let (known, new) = (token("u1"), token("u2"));
    assert_eq!(outcome(&limited, &known).await, FINE);
    provider.stop().await;
    hand.pass(7_200);
    assert_eq!(outcome(&limited, &known).await, FINE);
    hand.pass(1);
    assert_eq!(outcome(&limited, &known).await, UNREACHABLE, "also with a token in the cache");
    assert_eq!(outcome(&limited, &new).await, UNREACHABLE);
    assert_eq!(outcome(&unlimited, &new).await, "u2@t1 admin");
    provider.restart().await;
    hand.pass(30);
    assert_eq!(outcome(&limited, &known).await, FINE);
    assert_eq!(outcome(&limited, &new).await, "u2@t1 admin");
}

#[tokio::test]
async fn without_any_keys_the_answer_is_503_with_retry_after() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let mut provider = Provider::start(&[&key]).await;
    provider.stop().await;
    let verifier = verifier(&provider.issuer(), &hand);
    let token = key.sign(&provider.claims());
    let problem = verifier.caller(&token).await.expect_err("there are no keys");
    let response = problem.clone().into_response("r-1");
    assert_eq!(response.headers()["retry-after"], "5");
    assert_eq!(problem_line(problem).await, UNREACHABLE);
    provider.restart().await;
    // A failed fetch is not repeated at once, so as not to overload the issuer.
    assert_eq!(outcome(&verifier, &token).await, UNREACHABLE);
    assert_eq!(provider.asked(), 0);
    hand.pass(5);
    assert_eq!(outcome(&verifier, &token).await, FINE);
}

#[tokio::test]
async fn a_failed_background_refresh_is_retried_soon() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &hand);
    let token = key.sign(&provider.claims());
    assert_eq!(outcome(&verifier, &token).await, FINE);
    provider.answer("not JSON");
    hand.pass(600);
    assert_eq!(outcome(&verifier, &token).await, FINE);
    eventually(|| provider.asked() == 2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    provider.publish(&[&key]);
    hand.pass(29);
    assert_eq!(outcome(&verifier, &token).await, FINE);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(provider.asked(), 2);
    hand.pass(1);
    assert_eq!(outcome(&verifier, &token).await, FINE);
    eventually(|| provider.asked() == 3).await;
}

#[tokio::test]
async fn keys_can_be_fetched_before_the_first_token() {
    let key = Key::es256("a");
    let mut provider = Provider::start(&[&key, &Key::other("b")]).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    assert_eq!(verifier.key_count(), 0);
    assert!(verifier.fetch_keys().await);
    assert_eq!(verifier.key_count(), 2);
    provider.stop().await;
    assert_eq!(outcome(&verifier, &key.sign(&provider.claims())).await, FINE);
    let elsewhere = crate::common::verifier(&provider.issuer(), &TestClock::new());
    assert!(!elsewhere.fetch_keys().await, "it has stopped");
}

/// The operator of the server learns why all tokens are refused.
#[tokio::test]
async fn an_issuer_without_a_usable_key_is_logged() {
    let (log, _guard) = LogLines::capture("info");
    let provider = Provider::start(&[&Key::es256("a")]).await;
    let warnings = async || {
        verifier(&provider.issuer(), &TestClock::new()).fetch_keys().await;
        log.count("the issuer publishes no key that can verify tokens")
    };
    assert_eq!(warnings().await, 0);
    provider.publish(&[]);
    assert_eq!(warnings().await, 1);
}

#[tokio::test]
async fn an_issuer_without_discovery_works_with_a_jwks_url() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    provider.discover(|document| *document = json!({}));
    let issuer = Issuer::remote_with_keys(&provider.url(), &format!("{}/keys", provider.url())).expect("fine URLs");
    assert_eq!(outcome(&verifier(&issuer, &TestClock::new()), &key.sign(&provider.claims())).await, FINE);
}

/// Checks that an issuer with this discovery document is not used.
async fn check_discovery(change: impl FnOnce(&mut Json)) {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    provider.discover(change);
    assert_eq!(
        outcome(&verifier(&provider.issuer(), &TestClock::new()), &key.sign(&provider.claims())).await,
        UNREACHABLE
    );
    assert_eq!(provider.asked(), 0);
}

fn jwks_uri(document: &Json) -> &str {
    document["jwks_uri"].as_str().expect("a place")
}

#[tokio::test]
async fn a_discovery_document_must_belong_to_the_issuer() {
    check_discovery(|document| document["issuer"] = json!("https://other.example")).await;
    check_discovery(|document| {
        document["issuer"] = json!(format!("{}/", document["issuer"].as_str().unwrap_or_default()));
    })
    .await;
    check_discovery(|document| document["issuer"] = Json::Null).await;
    check_discovery(|document| document["jwks_uri"] = Json::Null).await;
    check_discovery(|document| document["jwks_uri"] = json!("http://keys.example/")).await;
    check_discovery(|document| document["jwks_uri"] = json!("file:///etc/passwd")).await;
    check_discovery(|document| document["jwks_uri"] = json!(jwks_uri(document).replace("//", "//user@"))).await;
    // A redirect could lead past these checks.
    check_discovery(|document| document["jwks_uri"] = json!(jwks_uri(document).replace("keys", "moved"))).await;
    check_discovery(|document| document["jwks_uri"] = json!(jwks_uri(document).replace("keys", "broken"))).await;
}

#[test]
fn only_https_is_used_beyond_this_machine() {
    let refusal = |url: &str| Issuer::remote(url).expect_err("it is refused").to_string();
    assert_eq!(
        refusal("http://issuer.example"),
        "http://issuer.example cannot be used as the URL of an issuer: it is not HTTPS, so that an attacker on the network could \
         replace the keys"
    );
    assert!(refusal("issuer.example").ends_with("it is not a URL"));
    assert!(refusal("https://issuer.example?x=1").contains("with a query or a fragment is not an issuer"));
    assert!(Issuer::remote_with_keys("https://issuer.example", "http://issuer.example/keys").is_err());
    assert!(Issuer::remote("https://cognito-idp.ap-northeast-1.amazonaws.com/ap-northeast-1_Example").is_ok());
}

/// Checks a valid token while the issuer publishes this body.
async fn check_keys(body: String, expected: &str) {
    let key = Key::es256("a");
    let provider = Provider::start(&[]).await;
    provider.answer(&body);
    let result = outcome(&verifier(&provider.issuer(), &TestClock::new()), &key.sign(&provider.claims())).await;
    assert_eq!(result, expected, "{body:.300}");
}

#[tokio::test]
async fn keys_of_unknown_types_are_ignored() {
    let fine = Key::es256("a").jwk();
    let beside = [
        json!({}),
        json!(null),
        json!("key"),
        json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256" }),
        json!({ "kty": "EC", "crv": "P-521", "x": "AA", "y": "AA", "kid": "b" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": "AA", "kid": "c" }),
        json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "d" }),
    ];
    for beside in beside {
        check_keys(json!({ "keys": [beside, fine] }).to_string(), FINE).await;
    }
}

#[tokio::test]
async fn a_response_that_is_not_a_key_set_is_a_failure() {
    check_keys(String::new(), UNREACHABLE).await;
    check_keys("<html>".to_owned(), UNREACHABLE).await;
    check_keys("[]".to_owned(), UNREACHABLE).await;
    check_keys(json!({ "keys": "a" }).to_string(), UNREACHABLE).await;
    let large = json!({ "keys": [Key::es256("a").jwk()], "more": "x".repeat(300 * 1024) });
    check_keys(large.to_string(), UNREACHABLE).await;
}

/// An unusable key verifies nothing, and causes no panic.
#[tokio::test]
async fn unusable_keys_verify_nothing() {
    check_keys(json!({ "keys": [] }).to_string(), NOT_PUBLISHED).await;
    let changed = |changes: Json| {
        let mut jwk = Key::es256("a").jwk();
        for (name, value) in changes.as_object().into_iter().flatten() {
            jwk[name] = value.clone();
        }
        json!({ "keys": [jwk] }).to_string()
    };
    for changes in [
        json!({ "use": "enc" }),
        json!({ "key_ops": ["sign"] }),
        json!({ "alg": "ES384" }),
        json!({ "alg": "HS256" }),
        json!({ "alg": "RSA-OAEP" }),
        json!({ "crv": "P-384" }),
        json!({ "x": "" }),
        json!({ "x": "AAAA" }),
        json!({ "x": "not base64!" }),
        // A point that is not on the curve.
        json!({ "y": Key::es256("a").jwk()["x"] }),
        json!({ "kid": "b" }),
        json!({ "kid": null }),
    ] {
        check_keys(changed(changes), NOT_PUBLISHED).await;
    }
    for ops in [json!({ "use": "sig" }), json!({ "key_ops": ["verify"] }), json!({ "alg": null })] {
        check_keys(changed(ops), FINE).await;
    }
}

#[tokio::test]
async fn a_key_of_another_curve_verifies_nothing() {
    let key = Key::ed25519("a");
    let provider = Provider::start(&[&key]).await;
    let mut jwk = key.jwk();
    jwk["crv"] = json!("P-256");
    provider.answer(&json!({ "keys": [jwk] }).to_string());
    let token = key.sign(&provider.claims());
    assert_eq!(outcome(&verifier(&provider.issuer(), &TestClock::new()), &token).await, NOT_PUBLISHED);
}

#[tokio::test]
async fn short_keys_verify_nothing() {
    let (ed, rsa) = (Key::ed25519("a"), Key::rsa("a", Algorithm::RS256));
    for (key, member) in [(&ed, "x"), (&rsa, "n")] {
        let provider = Provider::start(&[key]).await;
        let token = key.sign(&provider.claims());
        assert_eq!(outcome(&verifier(&provider.issuer(), &TestClock::new()), &token).await, FINE);
        let whole = key.jwk()[member].as_str().expect("a text").to_owned();
        for length in [0, 2, 4, whole.len() / 2 / 4 * 4] {
            let mut jwk = key.jwk();
            jwk[member] = json!(whole[..length]);
            provider.answer(&json!({ "keys": [jwk] }).to_string());
            assert_eq!(
                outcome(&verifier(&provider.issuer(), &TestClock::new()), &token).await,
                NOT_PUBLISHED,
                "{length}"
            );
        }
    }
}

/// With the neutral point as public key, the neutral point and zero are a signature of every message.
#[tokio::test]
async fn a_key_of_small_order_does_not_make_forged_tokens_valid() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": BASE64.encode(neutral), "kid": "a", "alg": "EdDSA" });
    let provider = Provider::start(&[]).await;
    provider.answer(&json!({ "keys": [jwk] }).to_string());
    let part = |json: Json| BASE64.encode(json.to_string());
    let signature = BASE64.encode([neutral, [0; 32]].concat());
    let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": "a" });
    let forged = format!("{}.{}.{signature}", part(header), part(provider.claims()));
    assert_eq!(outcome(&verifier(&provider.issuer(), &TestClock::new()), &forged).await, NOT_PUBLISHED);
}

#[tokio::test]
async fn an_issuer_that_does_not_respond_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let silent = tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok(connection) = listener.accept().await {
            connections.push(connection);
        }
    });
    let key = Key::es256("a");
    let other = Provider::start(&[&key]).await;
    let verifier = verifier(&Issuer::remote(&url).expect("a fine URL"), &TestClock::new());
    let token = key.sign(&other.claims_with(json!({ "iss": url })));
    let begun = Instant::now();
    assert_eq!(outcome(&verifier, &token).await, UNREACHABLE);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    silent.abort();
}

#[tokio::test]
async fn a_caller_that_disconnects_does_not_cancel_the_refresh_of_keys() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    let token = key.sign(&provider.claims());
    let impatient = tokio::time::timeout(Duration::from_nanos(1), verifier.caller(&token)).await;
    assert!(impatient.is_err());
    assert_eq!(outcome(&verifier, &token).await, FINE);
    assert_eq!(provider.asked(), 1);
}
