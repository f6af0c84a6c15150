//! Concurrent payment requests.

use nagaya_testing::{Client, Response, text};
use serde_json::{Value as Json, json};

use super::{add_method, fake_provider::server_with_fake_provider, notification_kinds, offer, purchase_body};

const AT_ONCE: usize = 8;

/// The responses to concurrent requests.
fn run_concurrently(asks: impl Fn(usize) -> Response + Sync) -> Vec<Response> {
    std::thread::scope(|scope| {
        let asks = &asks;
        let asked: Vec<_> = (0..AT_ONCE).map(|nth| scope.spawn(move || asks(nth))).collect();
        asked.into_iter().map(|each| each.join().expect("no panic")).collect()
    })
}

fn defaults(user: &Client<'_>) -> usize {
    user.get("/v1/payment-methods").list().iter().filter(|method| method["isDefault"] == json!(true)).count()
}

/// Proves the part of K13 that a repeated purchase is paid once.
#[test]
fn concurrent_repeats_of_a_purchase_are_charged_once() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    let curry = offer(&server, 300);
    add_method(&mio, "tok_1");
    let keyed = mio.with_header("idempotency-key", "k");
    let answers = run_concurrently(|_| keyed.post("/v1/purchases", &purchase_body(&curry)));
    let bought = answers[0].expect_data(201);
    assert!(answers.iter().all(|answer| answer.expect_data(201) == bought));
    assert_eq!(mio.get("/v1/purchases").list(), [bought]);
    assert_eq!(notification_kinds(&mio), ["receipt"]);
    assert_eq!(provider.state().charges.len(), 1);

    // Different keys and items are different purchases.
    let others: Vec<_> = (0..AT_ONCE).map(|_| offer(&server, 300)).collect();
    let buy = |nth: usize, id: &str| {
        mio.with_header("idempotency-key", &nth.to_string()).post("/v1/purchases", &purchase_body(id))
    };
    let answers = run_concurrently(|nth| buy(nth, &others[nth]));
    let mut ids: Vec<Json> = answers.iter().map(|answer| answer.expect_data(201)["purchaseId"].clone()).collect();
    ids.sort_by_key(Json::to_string);
    ids.dedup();
    assert_eq!(ids.len(), AT_ONCE);
    assert_eq!(provider.state().charges.len(), 1 + AT_ONCE);
    assert_eq!(mio.get("/v1/purchases").list().len(), 1 + AT_ONCE);
}

/// Proves the part of K13 that nothing is paid twice, whatever the keys are.
#[test]
fn concurrent_purchases_of_one_item_are_charged_once() {
    for _ in 0..10 {
        let (server, provider) = server_with_fake_provider();
        let mio = server.client_of_user("u_01", "u_01");
        let curry = offer(&server, 300);
        add_method(&mio, "tok_1");
        let answers = run_concurrently(|nth| {
            mio.with_header("idempotency-key", &nth.to_string()).post("/v1/purchases", &purchase_body(&curry))
        });
        let (paid, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
        assert_eq!((paid.len(), refused.len()), (1, AT_ONCE - 1), "{answers:#?}");
        for answer in refused {
            answer.expect_problem(409, "already_bought");
        }
        assert_eq!(mio.get("/v1/purchases").list(), [paid[0].expect_data(201)]);
        assert_eq!(notification_kinds(&mio), ["receipt"]);
        assert_eq!(provider.state().charges.len(), 1);
    }
}

/// Proves the part of K13 that there is one subscription at most.
#[test]
fn one_of_several_concurrent_subscriptions_starts() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_1");
    let plans = ["standard", "premium"];
    let answers = run_concurrently(|nth| mio.post("/v1/subscription", &json!({ "plan": plans[nth % 2] })));
    let started: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(started.len(), 1, "{answers:#?}");
    for lost in answers.iter().filter(|answer| answer.status != 201) {
        lost.expect_problem(409, "subscribed");
    }
    assert_eq!(mio.get("/v1/subscription").expect_data(200), started[0].expect_data(201));
    assert_eq!(provider.state().subscriptions.len(), 1);
    assert_eq!(notification_kinds(&mio), ["subscription_started"]);
}

/// Proves the part of K13 that there is one default method at most.
#[test]
fn concurrent_requests_leave_one_default_method() {
    let (server, _) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    let added = run_concurrently(|nth| mio.post("/v1/payment-methods", &json!({ "token": format!("tok_{nth}") })));
    let ids: Vec<String> =
        added.iter().map(|answer| text(&answer.expect_data(201), "paymentMethodId").to_owned()).collect();
    assert_eq!(defaults(&mio), 1);
    run_concurrently(|nth| {
        let preferred = mio.send("POST", &format!("/v1/payment-methods/{}/default", ids[nth]), None);
        preferred.expect_data(200);
        preferred
    });
    assert_eq!(defaults(&mio), 1);
    // The same token concurrently is one method.
    run_concurrently(|_| mio.post("/v1/payment-methods", &json!({ "token": "tok_same" })));
    assert_eq!(mio.get("/v1/payment-methods").list().len(), AT_ONCE + 1);
}

/// Proves the part of K13 that nothing is paid with a method that is gone.
#[test]
fn a_removed_method_is_not_charged() {
    for _ in 0..10 {
        let (server, provider) = server_with_fake_provider();
        let mio = server.client_of_user("u_01", "u_01");
        let id = add_method(&mio, "tok_1");
        let answers = run_concurrently(|nth| match nth % 2 {
            0 => mio.delete(&format!("/v1/payment-methods/{id}")),
            _ => mio.post("/v1/subscription", &json!({ "plan": "premium", "paymentMethodId": id })),
        });
        let (removed, started) =
            (answers.iter().any(|answer| answer.status == 204), answers.iter().any(|answer| answer.status == 201));
        assert!(removed != started, "{answers:#?}");
        let state = provider.state();
        assert_eq!((state.forgotten.len(), state.subscriptions.len()), (usize::from(removed), usize::from(started)));
    }
}
