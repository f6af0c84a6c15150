//! Refused tokens, and their problems.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value as Json, json};

use crate::common::{Key, NOW, Provider, TestClock, outcome, verifier};

/// Checks a token with these changed claims.
async fn check(changes: Json, expected: &str) {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let token = key.sign(&provider.claims_with(changes.clone()));
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    assert_eq!(outcome(&verifier, &token).await, expected, "{changes}");
}

/// Checks a token of any shape.
async fn check_token(token: impl FnOnce(&Provider, &Key) -> String, expected: &str) {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let token = token(&provider, &key);
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    assert_eq!(outcome(&verifier, &token).await, expected, "{token:.200}");
}

const NOT_SIGNED: &str = "401 bad_token: The token is not a signed JSON Web Token.";
const NOT_ACCEPTED: &str = "401 bad_token: The token is signed in a way that is not accepted here.";
const WRONG: &str = "401 bad_token: The signature of the token is wrong.";
const NOT_PUBLISHED: &str = "401 bad_token: The token is signed by a key that its issuer does not publish.";
const EXPIRED: &str = "401 bad_token: The token has expired.";
const TOO_EARLY: &str = "401 bad_token: The token is not valid yet.";
const FINE: &str = "u1@t1 admin";

/// Proves T15.
#[tokio::test]
async fn a_token_has_to_come_from_a_trusted_issuer() {
    check(json!({}), FINE).await;
    let expected = "401 bad_token: The token comes from an issuer that is not trusted here.";
    check(json!({ "iss": "https://elsewhere.example" }), expected).await;
    check(json!({ "iss": "" }), expected).await;
    let expected = "401 bad_token: The claim `iss` of the token is missing or unusable.";
    check(json!({ "iss": null }), expected).await;
    check(json!({ "iss": ["http://127.0.0.1"] }), expected).await;
}

/// Proves T15.
#[tokio::test]
async fn a_token_has_to_be_for_this_audience() {
    check(json!({ "aud": ["other", "todo"] }), FINE).await;
    let expected = "401 bad_token: The token is for another audience than `todo`.";
    check(json!({ "aud": "other" }), expected).await;
    check(json!({ "aud": "todo2" }), expected).await;
    check(json!({ "aud": [] }), expected).await;
    let expected = "401 bad_token: The claim `aud` of the token is missing or unusable.";
    check(json!({ "aud": null }), expected).await;
    check(json!({ "aud": 1 }), expected).await;
    check(json!({ "aud": ["todo", 1] }), expected).await;
    // The client id counts as an audience only where a token has none.
    check(
        json!({ "aud": "other", "client_id": "todo", "token_use": "access" }),
        "401 bad_token: The token is for another audience than `todo`.",
    )
    .await;
    check(json!({ "aud": null, "client_id": "todo" }), expected).await;
    check(json!({ "aud": null, "client_id": "todo", "token_use": "id" }), expected).await;
}

/// Proves T15.
#[tokio::test]
async fn a_token_is_valid_in_its_period_with_half_a_minute_of_leeway() {
    check(json!({ "exp": NOW + 1 }), FINE).await;
    check(json!({ "exp": NOW - 29 }), FINE).await;
    check(json!({ "exp": NOW - 29 + 1, "nbf": NOW + 30 }), FINE).await;
    check(json!({ "exp": f64::from(1_900_000_100) + 0.5 }), FINE).await;
    check(json!({ "exp": NOW - 30 }), EXPIRED).await;
    check(json!({ "exp": 0 }), EXPIRED).await;
    check(json!({ "exp": i64::MIN }), EXPIRED).await;
    check(json!({ "exp": u64::MAX }), TOO_LONG).await;
    check(json!({ "nbf": NOW + 31 }), TOO_EARLY).await;
    check(json!({ "nbf": i64::MAX }), TOO_EARLY).await;
    for (claim, value) in [("exp", Json::Null), ("exp", json!("1900000100")), ("exp", json!(true)), ("nbf", json!("x"))]
    {
        let expected = format!("401 bad_token: The claim `{claim}` of the token is missing or unusable.");
        check(json!({ claim: value }), &expected).await;
    }
}

const TOO_LONG: &str =
    "401 bad_token: The token is valid for longer than is accepted here: from `iat` to `exp` at most 86400 seconds.";

#[tokio::test]
async fn a_token_lives_for_a_day_at_most_and_was_issued_in_the_past() {
    check(json!({ "exp": NOW + 86_400 }), FINE).await;
    check(json!({ "exp": NOW + 86_401 }), TOO_LONG).await;
    check(json!({ "iat": NOW - 86_400 + 60, "exp": NOW + 60 }), FINE).await;
    check(json!({ "iat": NOW - 86_400, "exp": NOW + 60 }), TOO_LONG).await;
    check(json!({ "iat": i64::MIN }), TOO_LONG).await;
    check(json!({ "iat": NOW + 30 }), FINE).await;
    let future = "401 bad_token: The token was issued in the future, as its claim `iat` says.";
    check(json!({ "iat": NOW + 31 }), future).await;
    check(json!({ "iat": u64::MAX }), future).await;
    for issued in [Json::Null, json!("1900000000"), json!(true)] {
        check(json!({ "iat": issued }), "401 bad_token: The claim `iat` of the token is missing or unusable.").await;
    }
}

#[tokio::test]
async fn the_maximum_age_is_configurable() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let provider = Provider::start(&[&key]).await;
    let hour = || verifier(&provider.issuer(), &hand).max_token_age(Some(std::time::Duration::from_secs(3_600)));
    let unlimited = || verifier(&provider.issuer(), &hand).max_token_age(None);
    let token = |changes: Json| key.sign(&provider.claims_with(changes));
    assert_eq!(outcome(&hour(), &token(json!({ "exp": NOW + 3_600 }))).await, FINE);
    let expected = TOO_LONG.replace("86400", "3600");
    assert_eq!(outcome(&hour(), &token(json!({ "exp": NOW + 3_601 }))).await, expected);
    assert_eq!(outcome(&unlimited(), &token(json!({ "exp": u64::MAX }))).await, FINE);
    assert_eq!(outcome(&unlimited(), &token(json!({ "iat": null }))).await, FINE);
    // The future stays refused.
    assert!(outcome(&unlimited(), &token(json!({ "iat": NOW + 31 }))).await.contains("in the future"));
}

#[tokio::test]
async fn the_leeway_is_configurable() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let provider = Provider::start(&[&key]).await;
    let strict = verifier(&provider.issuer(), &hand).skew(std::time::Duration::ZERO);
    let token = key.sign(&provider.claims_with(json!({ "exp": NOW + 1 })));
    assert_eq!(outcome(&strict, &token).await, FINE);
    hand.pass(1);
    assert_eq!(outcome(&strict, &token).await, EXPIRED);
}

/// Proves T15.
#[tokio::test]
async fn a_token_has_to_be_signed_by_its_issuer() {
    // Signed by another key under the id of the issuer's key.
    check_token(|provider, _| Key::other("a").sign(&provider.claims()), WRONG).await;
    // Signed by a key that the issuer does not have.
    check_token(|provider, _| Key::other("b").sign(&provider.claims()), NOT_PUBLISHED).await;
    // Not signed.
    check_token(
        |provider, key| {
            let token = key.sign(&provider.claims());
            format!("{}.", token.rsplit_once('.').expect("it has three parts").0)
        },
        WRONG,
    )
    .await;
    // The signature of another payload.
    check_token(
        |provider, key| {
            let (fine, other) =
                (key.sign(&provider.claims()), key.sign(&provider.claims_with(json!({ "tenantId": "t2" }))));
            let parts: Vec<_> = fine.split('.').collect();
            let claims = other.split('.').nth(1).expect("it has three parts");
            format!("{}.{claims}.{}", parts[0], parts[2])
        },
        WRONG,
    )
    .await;
}

/// Proves T15.
#[tokio::test]
async fn a_token_without_a_signature_is_refused() {
    for algorithm in ["none", "None", "NONE", "nOnE", ""] {
        let make = |provider: &Provider, signature: &str| {
            let header = json!({ "alg": algorithm, "typ": "JWT", "kid": "a" });
            let part = |json: Json| BASE64.encode(json.to_string());
            format!("{}.{}.{signature}", part(header), part(provider.claims()))
        };
        check_token(|provider, _| make(provider, ""), NOT_SIGNED).await;
        check_token(|provider, _| make(provider, "AAAA"), NOT_SIGNED).await;
    }
}

/// Proves T15.
#[tokio::test]
async fn a_public_key_is_not_accepted_as_an_hmac_secret() {
    for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        check_token(
            |provider, key| {
                let jwk = key.jwk();
                let coordinate = |name: &str| BASE64.decode(jwk[name].as_str().expect("a text")).expect("base64");
                let point = [vec![4], coordinate("x"), coordinate("y")].concat();
                let header = Header { kid: Some("a".to_owned()), ..Header::new(algorithm) };
                encode(&header, &provider.claims(), &EncodingKey::from_secret(&point)).expect("it can be signed")
            },
            NOT_ACCEPTED,
        )
        .await;
    }
}

#[tokio::test]
async fn the_key_determines_the_algorithm() {
    let rsa = Key::rsa("r", Algorithm::RS256);
    let provider = Provider::start(&[&rsa]).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    assert_eq!(outcome(&verifier, &rsa.sign(&provider.claims())).await, FINE);
    let other = Key::rsa("r", Algorithm::PS256);
    assert_eq!(outcome(&verifier, &other.sign(&provider.claims())).await, NOT_PUBLISHED);
    let longer = Key::rsa("r", Algorithm::RS512);
    assert_eq!(outcome(&verifier, &longer.sign(&provider.claims())).await, NOT_ACCEPTED);
    // A key of another type under the same id.
    assert_eq!(outcome(&verifier, &Key::es256("r").sign(&provider.claims())).await, NOT_PUBLISHED);
}

#[tokio::test]
async fn a_key_inside_the_token_is_not_used() {
    let own = Key::es256("a");
    let attacker = Provider::start(&[&Key::other("b")]).await;
    let provider = Provider::start(&[&own]).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    let key = Key::other("a");
    let jwk = serde_json::from_value(key.jwk()).expect("it is a key");
    let header = Header { jwk: Some(jwk), jku: Some(format!("{}/keys", attacker.url())), ..key.header() };
    assert_eq!(outcome(&verifier, &key.sign_as(&header, &provider.claims())).await, WRONG);
    let header = Header { kid: Some("b".to_owned()), ..header };
    assert_eq!(outcome(&verifier, &key.sign_as(&header, &provider.claims())).await, NOT_PUBLISHED);
    assert_eq!(attacker.asked(), 0);
}

#[tokio::test]
async fn a_token_without_a_key_id_needs_a_single_key() {
    let (one, other) = (Key::es256("a"), Key::other("b"));
    let provider = Provider::start(&[&one]).await;
    let token = one.sign_as(&Header { kid: None, ..one.header() }, &provider.claims());
    assert_eq!(outcome(&verifier(&provider.issuer(), &TestClock::new()), &token).await, FINE);
    provider.publish(&[&one, &other]);
    assert_eq!(outcome(&verifier(&provider.issuer(), &TestClock::new()), &token).await, NOT_PUBLISHED);
}

#[tokio::test]
async fn a_token_of_another_type_is_refused() {
    let typed = |typ: &'static str| {
        move |provider: &Provider, key: &Key| {
            key.sign_as(&Header { typ: Some(typ.to_owned()), ..key.header() }, &provider.claims())
        }
    };
    check_token(typed("at+jwt"), FINE).await;
    check_token(typed("jwt"), FINE).await;
    check_token(typed("application/at+JWT"), FINE).await;
    check_token(typed("logout+jwt"), "401 bad_token: The token is not one for access: its type is another.").await;
    let critical = |provider: &Provider, key: &Key| {
        key.sign_as(&Header { crit: Some(vec!["exp".to_owned()]), ..key.header() }, &provider.claims())
    };
    check_token(critical, "401 bad_token: The token has critical headers that are not known here.").await;
}

/// Proves T15.
#[tokio::test]
async fn a_token_has_to_name_its_user() {
    let expected = "401 bad_token: The claim `sub` of the token is missing or unusable.";
    for sub in [Json::Null, json!(""), json!(7), json!(["u1"])] {
        check(json!({ "sub": sub }), expected).await;
    }
}

#[tokio::test]
async fn malformed_tokens_are_refused() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    let header = BASE64.encode(r#"{"alg":"ES256","kid":"a"}"#);
    let fine = key.sign(&provider.claims());
    let mut tokens = ["", ".", "..", "...", "a", "a.b", "a.b.c", "e30.e30.e30", "長屋.長屋.長屋", "\0", "Bearer x"]
        .map(str::to_owned)
        .to_vec();
    tokens.extend(
        ["[]", "{}", "null", "{\"iss\":", "\u{feff}{}"]
            .map(|claims| format!("{header}.{}.AAAA", BASE64.encode(claims))),
    );
    tokens.extend([
        format!("{fine}.x"),
        format!("x.{fine}"),
        format!("{fine}="),
        format!("{fine} "),
        format!(" {fine}"),
    ]);
    // Unclosed brackets.
    tokens.push(format!("{header}.{}.AAAA", BASE64.encode("[".repeat(4_000))));
    for token in tokens {
        let result = outcome(&verifier, &token).await;
        assert!(result.starts_with("401 bad_token: "), "{token}: {result}");
    }
    assert_eq!(provider.asked(), 0, "nothing is fetched for such tokens");
}

#[tokio::test]
async fn a_huge_token_is_refused_before_parsing() {
    let expected = "401 bad_token: The token is longer than 8192 bytes.";
    check_token(|provider, key| key.sign(&provider.claims_with(json!({ "more": "x".repeat(8_192) }))), expected).await;
    check_token(|_, _| "x".repeat(8_193), expected).await;
    check_token(|_, _| "x".repeat(8_192), NOT_SIGNED).await;
    check_token(|_, _| "x".repeat(1_000_000), expected).await;
}
