//! Failures of the provider, of the store, or of the server between the provider and the record.

use std::time::Duration;

use nagaya_kondate::SubscriptionState;
use nagaya_store::ErrorKind;
use nagaya_testing::{Call, Fault, text};
use serde_json::json;

use super::{
    add_method,
    fake_provider::{InjectedFailure, restart, server_with_fake_provider},
    notification_kinds, offer, purchase_body,
};
use crate::harness::instrumented_server;

/// Proves the part of K13 that a charge is never made twice, and never without its record.
#[test]
fn a_charge_whose_answer_is_lost_is_recorded_once() {
    for failure in [InjectedFailure::RequestLost, InjectedFailure::ResponseLost] {
        let (server, provider) = server_with_fake_provider();
        let curry = offer(&server, 300);
        add_method(&server.client_of_user("u_01", "u_01"), "tok_1");
        provider.inject("charge", failure);
        let mio = server.client_of_user("u_01", "u_01").with_header("idempotency-key", "k");
        let answer = mio.post("/v1/purchases", &purchase_body(&curry));
        answer.expect_problem(503, "payments_unavailable");
        assert!(answer.header("retry-after").is_some());
        assert!(mio.get("/v1/purchases").list().is_empty());

        let server = restart(server, &provider);
        let mio = server.client_of_user("u_01", "u_01").with_header("idempotency-key", "k");
        let bought = mio.post("/v1/purchases", &purchase_body(&curry)).expect_data(201);
        assert_eq!(mio.post("/v1/purchases", &purchase_body(&curry)).expect_data(201), bought);
        assert_eq!(mio.get("/v1/purchases").list(), std::slice::from_ref(&bought));
        assert_eq!(notification_kinds(&mio), ["receipt"]);
        assert_eq!(provider.state().charges.keys().collect::<Vec<_>>(), [text(&bought, "purchaseId")], "{failure:?}");
    }
}

/// Proves the part of K13 that what was begun ends, also if nobody asks for it again.
#[test]
fn the_next_request_completes_an_interrupted_payment() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    let (curry, soup) = (offer(&server, 300), offer(&server, 200));
    add_method(&mio, "tok_1");
    let keyed = |key: &str| mio.with_header("idempotency-key", key);

    provider.inject("charge", InjectedFailure::ResponseLost);
    keyed("a").post("/v1/purchases", &purchase_body(&curry)).expect_problem(503, "payments_unavailable");
    keyed("b").post("/v1/purchases", &purchase_body(&soup)).expect_data(201);
    let amounts = |path| mio.get(path).list().iter().map(|each| each["amount"].as_u64()).collect::<Vec<_>>();
    assert_eq!(amounts("/v1/purchases?order=asc"), [Some(300), Some(200)]);
    assert_eq!(keyed("a").post("/v1/purchases", &purchase_body(&curry)).expect_data(201)["amount"], 300);

    provider.inject("subscribe", InjectedFailure::ResponseLost);
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(503, "payments_unavailable");
    mio.get("/v1/subscription").expect_problem(404, "not_found");
    add_method(&mio, "tok_2");
    assert_eq!(mio.get("/v1/subscription").expect_data(200)["status"], "active");
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(409, "subscribed");

    let other = add_method(&mio, "tok_3");
    provider.inject("forget", InjectedFailure::ResponseLost);
    mio.delete(&format!("/v1/payment-methods/{other}")).expect_problem(503, "payments_unavailable");
    mio.delete(&format!("/v1/payment-methods/{other}")).expect_problem(404, "not_found");

    let state = provider.state();
    assert_eq!((state.charges.len(), state.subscriptions.len()), (2, 1));
    assert!(state.forgotten.contains("tok_3"));
}

/// Proves the part of K13 that the price is the one of the moment in which something was bought.
#[test]
fn an_interrupted_purchase_keeps_its_original_price() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01").with_header("idempotency-key", "k");
    let curry = offer(&server, 300);
    let (first, second) = (add_method(&mio, "tok_1"), add_method(&mio, "tok_2"));
    provider.inject("charge", InjectedFailure::ResponseLost);
    mio.post("/v1/purchases", &purchase_body(&curry)).expect_problem(503, "payments_unavailable");
    // Meanwhile the default card and the price of the recipe change.
    server.block_on(async {
        let cook = server.nagaya.tenant(&nagaya_tenancy::Principal::new("pay-cook", "pay-cook")).expect("a tenant");
        let list = nagaya_tenancy::List::by("catalog_recipe_by_id").with("recipeId", &curry);
        let recipe = cook.list(&list).await.expect("a list").records.remove(0);
        let patch = json!({ "price": 900 }).as_object().expect("fields").clone();
        let id = recipe.id();
        let id: Vec<_> = id.iter().map(String::as_str).collect();
        cook.update("catalog_recipe", &id, patch, None).await.expect("it is changed");
    });
    mio.send("POST", &format!("/v1/payment-methods/{second}/default"), None).expect_data(200);
    let bought = mio.post("/v1/purchases", &purchase_body(&curry)).expect_data(201);
    assert_eq!((&bought["amount"], &bought["paymentMethodId"]), (&json!(300), &json!(first)));
}

/// Proves the part of K13 that only what can follow does.
#[test]
fn an_impossible_subscription_status_changes_nothing() {
    for from in SubscriptionState::ALL {
        for to in SubscriptionState::ALL {
            let (server, provider) = server_with_fake_provider();
            let mio = server.client_of_user("u_01", "u_01");
            add_method(&mio, "tok_1");
            // A new subscription cannot start as canceled, but can become canceled.
            let start = if from.is_running() { from } else { SubscriptionState::Active };
            provider.state().subscription_state = Some(start);
            mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
            provider.state().subscription_state = Some(from);
            let before = mio.send("POST", "/v1/subscription/refresh", None).expect_data(200);
            let notified = notification_kinds(&mio).len();

            provider.state().subscription_state = Some(to);
            let answer = mio.send("POST", "/v1/subscription/refresh", None);
            if from.can_become(to) {
                assert_eq!(answer.expect_data(200)["status"], to.name());
                assert_eq!(notification_kinds(&mio).len(), notified + usize::from(from != to), "{from:?} {to:?}");
            } else {
                answer.expect_problem(502, "bad_standing");
                assert_eq!(mio.get("/v1/subscription").expect_data(200), before);
                assert_eq!(notification_kinds(&mio).len(), notified);
            }
        }
    }
}

#[test]
fn a_subscription_that_starts_as_expired_is_not_stored() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_1");
    provider.state().subscription_state = Some(SubscriptionState::Canceled);
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(502, "bad_standing");
    mio.get("/v1/subscription").expect_problem(404, "not_found");
    provider.state().subscription_state = None;
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
}

/// Proves the part of K13 that a provider which is away is told from one that refuses.
#[test]
fn an_unavailable_provider_changes_nothing() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    provider.inject("card", InjectedFailure::RequestLost);
    mio.post("/v1/payment-methods", &json!({ "token": "tok_1" })).expect_problem(503, "payments_unavailable");
    assert!(mio.get("/v1/payment-methods").list().is_empty());
    add_method(&mio, "tok_1");
    let before = mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    for act in ["cancel", "status"] {
        provider.inject(act, InjectedFailure::ResponseLost);
        let route = if act == "status" { "refresh" } else { act };
        mio.send("POST", &format!("/v1/subscription/{route}"), None).expect_problem(503, "payments_unavailable");
        assert_eq!(mio.get("/v1/subscription").expect_data(200), before);
    }
    // A repeated request succeeds.
    assert_eq!(mio.send("POST", "/v1/subscription/cancel", None).expect_data(200)["cancelAtPeriodEnd"], true);
    provider.inject("resume", InjectedFailure::ResponseLost);
    mio.send("POST", "/v1/subscription/resume", None).expect_problem(503, "payments_unavailable");
    assert_eq!(mio.send("POST", "/v1/subscription/resume", None).expect_data(200)["cancelAtPeriodEnd"], false);
}

/// A provider that ends a subscription late does not extend it.
#[test]
fn a_subscription_is_not_resumed_after_its_period() {
    let (server, provider) = server_with_fake_provider();
    add_method(&server.client_of_user("u_01", "u_01"), "tok_1");
    server.client_of_user("u_01", "u_01").post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    server.client_of_user("u_01", "u_01").send("POST", "/v1/subscription/cancel", None).expect_data(200);
    server.clock.advance(Duration::from_secs(10 * 366 * 24 * 3_600));
    let much_later = server.client_of_user("u_01", "u_01");
    much_later.send("POST", "/v1/subscription/resume", None).expect_problem(409, "period_over");
    much_later.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(409, "subscribed");
    // The state of the subscription is unknown.
    provider.inject("status", InjectedFailure::RequestLost);
    much_later.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(503, "payments_unavailable");
    provider.state().subscription_state = Some(SubscriptionState::Canceled);
    provider.state().ends = false;
    much_later.send("POST", "/v1/subscription/resume", None).expect_problem(409, "not_running");
}

/// An item that cannot be read now may be there.
#[test]
fn a_store_that_is_away_is_no_missing_item() {
    let (server, store) = instrumented_server();
    let mio = server.client_of_user("u_01", "u_01").with_header("idempotency-key", "1");
    let curry = offer(&server, 300);
    add_method(&mio, "tok_visa");
    let fault = Fault::fail_before(|| ErrorKind::Busy.into());
    let fault = store.inject(fault.matching(|call| matches!(call, Call::Query(query) if query.index.is_some())));
    let answer = mio.post("/v1/purchases", &purchase_body(&curry));
    assert_eq!(answer.status, 503, "{:#}", answer.body);
    fault.remove();
    mio.post("/v1/purchases", &purchase_body(&curry)).expect_data(201);
}
