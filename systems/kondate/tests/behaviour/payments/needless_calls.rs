//! What the provider is not asked for, and what the user is not told.

use std::time::Duration;

use nagaya_testing::text;
use serde_json::json;

use super::{
    add_method,
    fake_provider::{server_with_fake_provider, with_local_provider},
    notification_kinds, offer, purchase_body,
};

/// Proves the part of K13 that a provider is asked only for what it alone knows.
#[test]
fn a_change_of_the_subscription_that_is_none_asks_the_provider_for_nothing() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    let act = |act: &str| mio.send("POST", &format!("/v1/subscription/{act}"), None).expect_data(200);
    let premium = json!({ "plan": "premium" });
    let visa = format!("/v1/payment-methods/{}", add_method(&mio, "tok_visa"));
    mio.post("/v1/subscription", &premium).expect_data(201);
    // While its period runs, the stored state is the present one.
    mio.post("/v1/subscription", &premium).expect_problem(409, "subscribed");
    mio.delete(&visa).expect_problem(409, "in_use");
    act("resume");
    act("cancel");
    act("cancel");
    act("resume");
    assert_eq!(provider.state().calls, ["card", "subscribe", "charges", "cancel", "resume"]);
}

/// Proves the part of K13 that a provider is asked only for what it knows.
#[test]
fn a_subscription_at_another_provider_stays_as_it_is() {
    let (server, _) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_visa");
    let started = mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);

    let server = with_local_provider(server);
    let check = || {
        let mio = server.client_of_user("u_01", "u_01");
        for act in ["refresh", "cancel", "resume"] {
            mio.send("POST", &format!("/v1/subscription/{act}"), None).expect_problem(409, "other_provider");
        }
        mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(409, "subscribed");
        assert_eq!(mio.get("/v1/subscription").expect_data(200), started);
    };
    check();
    // Also after its period.
    server.clock.advance(Duration::from_secs(10 * 366 * 24 * 3_600));
    check();
}

/// A provider may give a subscription another id; the user does not see it.
#[test]
fn a_user_is_told_of_a_new_period_only() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_visa");
    let started = mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    provider.state().subscription_id = Some("sub_2".to_owned());
    let moved = mio.send("POST", "/v1/subscription/refresh", None).expect_data(200);
    assert_eq!(moved["providerSubscriptionId"], "sub_2");
    assert_eq!(moved["currentPeriodEnd"], started["currentPeriodEnd"]);
    assert_eq!(notification_kinds(&mio), ["subscription_started"]);
}

/// Proves the part of K13 that nothing free is charged, and that the receipt says so.
#[test]
fn a_free_item_is_not_charged_to_a_named_method() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    let (free, curry) = (offer(&server, 0), offer(&server, 300));
    let visa = add_method(&mio, "tok_visa");
    for (key, recipe) in [("1", &free), ("2", &curry)] {
        let mut body = purchase_body(recipe);
        body["paymentMethodId"] = json!(visa);
        mio.with_header("idempotency-key", key).post("/v1/purchases", &body).expect_data(201);
    }
    assert_eq!(provider.state().charges.values().collect::<Vec<_>>(), [&300]);
    let receipts = mio.get("/v1/notifications").list();
    let receipts: Vec<_> = receipts.iter().rev().map(|receipt| text(receipt, "body")).collect();
    assert_eq!(receipts, ["Free of charge.", "Paid: 300 JPY."]);
}
