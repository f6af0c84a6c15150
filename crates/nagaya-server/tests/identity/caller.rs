//! The caller from the claims of a token.

use std::sync::Arc;

use jsonwebtoken::Algorithm;
use nagaya_server::{Claims, Issuer, LocalIssuer, Verifier};
use serde_json::{Value as Json, json};

use crate::common::{AUDIENCE, Key, NOW, Provider, TestClock, claims, claims_with_members, outcome, shown, verifier};

/// Checks the caller that these claims give, with the claim names of a design.
async fn check(names: Claims, changes: Json, expected: &str) {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let verifier =
        Verifier::new(names, TestClock::new().clock()).trust(&provider.issuer(), AUDIENCE).expect("one issuer");
    let token = key.sign(&provider.claims_with(changes.clone()));
    assert_eq!(outcome(&verifier, &token).await, expected, "{changes}");
}

fn tenant_in(name: &str) -> Claims {
    Claims { tenant: name.to_owned(), ..claims() }
}

fn roles_in(name: &str) -> Claims {
    Claims { roles: name.to_owned(), ..claims() }
}

fn unusable(claim: &str) -> String {
    format!("401 bad_token: The claim `{claim}` of the token is missing or unusable.")
}

/// Proves the token's part of T5.
#[tokio::test]
async fn the_tenant_is_in_the_claim_that_the_design_names() {
    check(tenant_in("familyId"), json!({ "familyId": "f1" }), "u1@f1 admin").await;
    check(tenant_in("custom:familyId"), json!({ "custom:familyId": "f1" }), "u1@f1 admin").await;
    check(tenant_in("https://a.example/tenant"), json!({ "https://a.example/tenant": "f1" }), "u1@f1 admin").await;
    check(tenant_in("app.tenant"), json!({ "app": { "tenant": "f1" } }), "u1@f1 admin").await;
    // A claim with the exact name has precedence over a path into a claim.
    check(tenant_in("app.tenant"), json!({ "app": { "tenant": "f1" }, "app.tenant": "f2" }), "u1@f2 admin").await;
    check(tenant_in("sub"), json!({}), "u1@u1 admin").await;
}

#[tokio::test]
async fn a_token_may_name_no_tenant_but_not_an_unusable_one() {
    check(tenant_in("familyId"), json!({}), "u1@- admin").await;
    check(tenant_in("app.tenant"), json!({ "app": { "other": "f1" } }), "u1@- admin").await;
    check(tenant_in("app.tenant"), json!({ "app": "f1" }), "u1@- admin").await;
    for tenant in [json!(""), json!(7), json!(["t1"]), json!({ "t1": true }), json!(false)] {
        check(claims(), json!({ "tenantId": tenant }), &unusable("tenantId")).await;
        check(tenant_in("app.tenant"), json!({ "app": { "tenant": tenant } }), &unusable("app.tenant")).await;
    }
    check(tenant_in("app.tenant"), json!({ "app": { "tenant": null } }), &unusable("app.tenant")).await;
}

#[tokio::test]
async fn roles_are_a_list_or_a_space_separated_string() {
    check(claims(), json!({ "roles": ["admin", "editor of things"] }), "u1@t1 admin,editor of things").await;
    check(claims(), json!({ "roles": "admin  editor" }), "u1@t1 admin,editor").await;
    check(claims(), json!({ "roles": "" }), "u1@t1 ").await;
    check(claims(), json!({ "roles": null }), "u1@t1 ").await;
    check(roles_in("cognito:groups"), json!({ "cognito:groups": ["admin"] }), "u1@t1 admin").await;
    check(roles_in("realm_access.roles"), json!({ "realm_access": { "roles": ["viewer"] } }), "u1@t1 viewer").await;
    check(claims(), json!({ "roles": ["admin", 1] }), &unusable("roles")).await;
    check(claims(), json!({ "roles": { "admin": true } }), &unusable("roles")).await;
}

/// Proves T15.
#[tokio::test]
async fn a_user_has_to_belong_to_the_tenant_of_the_token() {
    let stranger = "403 not_a_member: The user of the token does not belong to its tenant.";
    let names = claims_with_members;
    check(names(), json!({ "memberOf": ["t0", "t1"] }), "u1@t1 admin").await;
    check(names(), json!({ "memberOf": "t1" }), "u1@t1 admin").await;
    check(names(), json!({ "memberOf": ["t2"] }), stranger).await;
    check(names(), json!({ "memberOf": "t10" }), stranger).await;
    check(names(), json!({ "memberOf": "t0 t1" }), stranger).await;
    check(names(), json!({ "memberOf": [] }), stranger).await;
    check(names(), json!({ "memberOf": 1 }), &unusable("memberOf")).await;
    // A token that does not list the tenants proves no membership.
    check(names(), json!({}), &unusable("memberOf")).await;
    // A caller without a tenant needs no membership.
    check(names(), json!({ "memberOf": ["t2"], "tenantId": null }), "u1@- admin").await;
    check(names(), json!({ "tenantId": null }), "u1@- admin").await;
    // A design without the membership claim does not check it.
    check(claims(), json!({ "memberOf": ["t2"] }), "u1@t1 admin").await;
}

#[tokio::test]
async fn a_caller_is_known_by_issuer_and_user() {
    let key = Key::es256("a");
    let mut known = Vec::new();
    for provider in [Provider::start(&[&key]).await, Provider::start(&[&key]).await] {
        let verifier = verifier(&provider.issuer(), &TestClock::new());
        let token = key.sign(&provider.claims_with(json!({ "jti": "j-1" })));
        let caller = verifier.caller(&token).await.expect("the token is good");
        assert_eq!((&*caller.user, &*caller.issuer), ("u1", provider.url().as_str()));
        assert_eq!((caller.token_id.as_deref(), caller.issued), (Some("j-1"), Some(NOW)));
        known.push(caller.identity());
    }
    assert_ne!(known[0], known[1]);
}

/// Items name their users by `sub` alone.
#[tokio::test]
async fn a_system_has_one_issuer_so_that_one_id_is_one_person() {
    let (first, second) = ("https://login.example.com", "https://other.example.com");
    let remote = |url: &str| Issuer::remote(url).expect("a fine URL");
    let local = || Issuer::local(&Arc::new(LocalIssuer::in_memory().expect("keys can be made")));
    let trusting = |one: &Issuer, other: &Issuer| {
        let verifier = Verifier::new(claims(), TestClock::new().clock()).trust(one, "web").expect("one issuer");
        verifier.trust(other, "mobile").map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = trusting(&remote(first), &remote(second)).expect_err("two issuers");
    assert!(refused.contains(first) && refused.contains(second), "{refused}");
    assert!(refused.contains("let one of them issue all tokens"), "{refused}");
    for (one, other) in [(local(), remote(first)), (remote(first), local()), (local(), local())] {
        trusting(&one, &other).expect_err("two issuers");
    }
    // An issuer may have several audiences.
    let issuer = local();
    trusting(&issuer, &issuer.clone()).expect("one issuer");
    trusting(&remote(first), &remote(first)).expect("one issuer");
}

/// The claim of operators, and a tenant that is the user.
#[tokio::test]
async fn operator_roles_are_in_a_claim_of_their_own() {
    let key = Key::es256("a");
    let provider = Provider::start(&[&key]).await;
    let names = |tenant: &str| Claims { operator: "staff".to_owned(), ..tenant_in(tenant) };
    let caller = async |names: Claims, changes: Json| {
        let verifier =
            Verifier::new(names, TestClock::new().clock()).trust(&provider.issuer(), AUDIENCE).expect("one issuer");
        let caller = verifier.caller(&key.sign(&provider.claims_with(changes))).await.expect("the token is good");
        format!("{} {:?}", shown(&caller), caller.operator_roles)
    };
    let staff = json!({ "staff": ["operator"] });
    assert_eq!(caller(names("tenantId"), staff.clone()).await, r#"u1@t1 admin ["operator"]"#);
    assert_eq!(caller(names("sub"), staff.clone()).await, r#"u1@- admin ["operator"]"#);
    assert_eq!(caller(names("sub"), json!({})).await, "u1@u1 admin []");
    assert_eq!(caller(names("sub"), json!({ "staff": [] })).await, "u1@u1 admin []");
    assert_eq!(caller(claims(), staff).await, "u1@t1 admin []", "the design names another claim");
}

#[tokio::test]
async fn tokens_of_cognito_are_accepted() {
    let key = Key::rsa("abcdefgh=", Algorithm::RS256);
    let provider = Provider::start(&[&key]).await;
    let names = Claims {
        tenant: "custom:familyId".to_owned(),
        roles: "cognito:groups".to_owned(),
        member_of: Some("custom:memberOf".to_owned()),
        ..claims()
    };
    let verifier = Verifier::new(names, TestClock::new().clock())
        .trust(&provider.issuer(), "1example23456789")
        .expect("one issuer");
    let common = json!({
        "tenantId": null,
        "roles": null,
        "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee",
        "cognito:groups": ["admin"],
        "custom:familyId": "f1",
        "custom:memberOf": "f1",
    });
    let with = |more: Json| {
        let mut claims = provider.claims_with(common.clone());
        for (name, value) in more.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        claims
    };
    let id = with(json!({ "aud": "1example23456789", "token_use": "id" }));
    let mut access = with(json!({ "client_id": "1example23456789", "token_use": "access", "scope": "openid" }));
    access.as_object_mut().expect("claims").remove("aud");
    let mut other = access.clone();
    other["client_id"] = json!("another");
    let who = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee@f1 admin";
    assert_eq!(outcome(&verifier, &key.sign(&id)).await, who);
    assert_eq!(outcome(&verifier, &key.sign(&access)).await, who);
    let expected = "401 bad_token: The token is for another audience than `1example23456789`.";
    assert_eq!(outcome(&verifier, &key.sign(&other)).await, expected);
}

#[tokio::test]
async fn every_accepted_algorithm_works() {
    let keys = [
        Key::es256("a"),
        Key::es384("b"),
        Key::rsa("c", Algorithm::RS256),
        Key::rsa("d", Algorithm::PS256),
        Key::ed25519("e"),
    ];
    let provider = Provider::start(&keys.each_ref()).await;
    let verifier = verifier(&provider.issuer(), &TestClock::new());
    for key in &keys {
        assert_eq!(outcome(&verifier, &key.sign(&provider.claims())).await, "u1@t1 admin", "{:?}", key.algorithm);
    }
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn an_issuer_may_have_several_audiences() {
    let (one, other) = (Key::es256("a"), Key::other("a"));
    let (first, second) = (Provider::start(&[&one]).await, Provider::start(&[&other]).await);
    let issuer = first.issuer();
    let verifier = Verifier::new(claims(), TestClock::new().clock()).trust(&issuer, "web").expect("one issuer");
    let verifier = verifier.trust(&issuer, "mobile").expect("one issuer");
    let check = async |key: &Key, provider: &Provider, audience: &str| {
        let token = key.sign(&provider.claims_with(json!({ "aud": audience })));
        outcome(&verifier, &token).await
    };
    assert_eq!(check(&one, &first, "web").await, "u1@t1 admin");
    assert_eq!(check(&one, &first, "mobile").await, "u1@t1 admin");
    let expected = "401 bad_token: The token is for another audience than `web` or `mobile`.";
    assert_eq!(check(&one, &first, "todo").await, expected);
    // The key of another issuer is not accepted, even with the same id.
    assert_eq!(check(&other, &first, "web").await, "401 bad_token: The signature of the token is wrong.");
    let expected = "401 bad_token: The token comes from an issuer that is not trusted here.";
    assert_eq!(check(&other, &second, "web").await, expected);
}
