//! The charges of a subscription are in the purchase history.

use std::{sync::Arc, time::Duration};

use nagaya_kondate::{ChargeState, LocalPayments, SubscriptionCharge};
use nagaya_testing::{Client, ManualClock, TestServer, memory_store, text};
use serde_json::{Value as Json, json};

use super::{
    add_method,
    fake_provider::{InjectedFailure, server_with_fake_provider},
};
use crate::harness::{design, kondate_server, system_with};

/// The purchases of a user, oldest first: what, how much, and their states.
fn history(user: &Client<'_>) -> Vec<(String, u64, String)> {
    let listed = user.get("/v1/purchases?order=asc").list();
    let purchase = |each: &Json| {
        let state = text(each, "status").to_owned();
        (text(each, "title").to_owned(), each["amount"].as_u64().expect("an amount"), state)
    };
    listed.iter().map(purchase).collect()
}

fn entry(title: &str, amount: u64, state: &str) -> (String, u64, String) {
    (title.to_owned(), amount, state.to_owned())
}

/// Proves the part of K13 that the history has the charges of a subscription.
#[test]
fn a_subscription_that_starts_is_in_the_history() {
    the_first_charge_is_a_purchase(&kondate_server());
}

pub(crate) fn the_first_charge_is_a_purchase(server: &TestServer) {
    let mio = server.client_of_user("pay-first", "pay-first");
    let visa = add_method(&mio, "tok_visa");
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    let purchase = mio.get("/v1/purchases").list().remove(0);
    let about = ["targetType", "targetId", "title", "amount", "currency", "status", "paymentMethodId"];
    let about = about.map(|field| purchase[field].clone());
    let expected = json!(["SUBSCRIPTION", "premium", "premium", 480, "JPY", "paid", visa]);
    assert_eq!(Json::from(about.to_vec()), expected);
    mio.send("POST", "/v1/subscription/refresh", None).expect_data(200);
    assert_eq!(mio.get("/v1/purchases").list(), [purchase]);
    assert!(server.client_of_user("pay-firs", "pay-firs").get("/v1/purchases").list().is_empty());
}

/// Proves the part of K13 that the history has every charge of a subscription, also of periods in which nobody asked.
#[test]
fn renewals_are_in_the_history() {
    let clock = ManualClock::default();
    let system = system_with(design(), Arc::new(LocalPayments::new(clock.clock())));
    let server = TestServer::builder(system).store(memory_store(&clock), &clock).start();
    let month = || clock.advance(Duration::from_secs(30 * 24 * 3_600));
    let mio = || server.client_of_user("u_01", "u_01");
    let refresh = || mio().send("POST", "/v1/subscription/refresh", None).expect_data(200);

    add_method(&mio(), "tok_visa");
    mio().post("/v1/subscription", &json!({ "plan": "trial-premium" })).expect_data(201);
    assert_eq!(history(&mio()), []);
    (0..3).for_each(|_| month());
    refresh();
    let paid = entry("trial-premium", 480, "paid");
    assert_eq!(history(&mio()), [paid.clone(), paid.clone(), paid.clone()]);
    // Each has the day of its charge.
    let days: Vec<_> = mio()
        .get("/v1/purchases?order=asc")
        .list()
        .iter()
        .map(|each| text(each, "purchasedAt")[..10].to_owned())
        .collect();
    assert_eq!(days, ["2030-01-31", "2030-03-02", "2030-04-01"]);
    // A cancellation is no charge.
    mio().send("POST", "/v1/subscription/cancel", None).expect_data(200);
    month();
    refresh();
    assert_eq!(history(&mio()).len(), 3);

    // A charge that fails is in the history too.
    add_method(&mio(), "tok_unpaid");
    let unpaid = json!({ "plan": "standard" });
    let methods = mio().get("/v1/payment-methods").list();
    let unpaid_card = methods.iter().find(|method| method["last4"] == "0341").expect("it is there");
    let mut body = unpaid.clone();
    body["paymentMethodId"] = unpaid_card["paymentMethodId"].clone();
    mio().post("/v1/subscription", &body).expect_data(201);
    month();
    refresh();
    assert_eq!(history(&mio())[3..], [entry("standard", 280, "paid"), entry("standard", 280, "failed")]);
}

#[test]
fn charges_are_stored_once_and_follow_their_state() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    let refresh = || mio.send("POST", "/v1/subscription/refresh", None);
    let charge = |id: &str, charged_at: i64, state| SubscriptionCharge {
        id: id.to_owned(),
        charged_at,
        amount: 480,
        currency: "JPY".to_owned(),
        state,
    };
    let at = 1_893_456_000_000;
    add_method(&mio, "tok_1");
    provider.state().subscription_charges = vec![charge("ch_1", at, ChargeState::Paid)];
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    // Two charges of the same time are two; one that was paid later or refunded is the same.
    provider.state().subscription_charges.push(charge("ch_2", at, ChargeState::Failed));
    for _ in 0..2 {
        refresh().expect_data(200);
    }
    let mut states: Vec<_> = history(&mio).into_iter().map(|(.., state)| state).collect();
    states.sort();
    assert_eq!(states, ["failed", "paid"]);
    provider.state().subscription_charges =
        vec![charge("ch_1", at, ChargeState::Refunded), charge("ch_2", at, ChargeState::Paid)];
    refresh().expect_data(200);
    let mut states: Vec<_> = history(&mio).into_iter().map(|(.., state)| state).collect();
    states.sort();
    assert_eq!(states, ["paid", "refunded"]);

    // A provider that does not answer changes nothing, and the next request goes on.
    provider.state().subscription_charges.push(charge("ch_3", at + 1_000, ChargeState::Paid));
    provider.inject("charges", InjectedFailure::RequestLost);
    refresh().expect_problem(503, "payments_unavailable");
    assert_eq!(history(&mio).len(), 2);
    refresh().expect_data(200);
    assert_eq!(history(&mio).len(), 3);
    // The last ones are kept, however many there are.
    let many = (0..60).map(|n| charge(&format!("ch_many_{n}"), at + 60_000 * n, ChargeState::Paid));
    provider.state().subscription_charges = many.collect();
    refresh().expect_data(200);
    assert_eq!(mio.get("/v1/purchases?limit=1000").list().len(), 3 + 24);
}
