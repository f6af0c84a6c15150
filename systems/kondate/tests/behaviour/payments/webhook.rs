//! Messages of the payment provider.

use std::{sync::Arc, time::Duration};

use nagaya_kondate::{ChargeState, LocalPayments, SubscriptionCharge, SubscriptionState, webhook_signature};
use nagaya_testing::{ManualClock, Response, TestServer, memory_store, text};
use serde_json::json;

use super::{
    add_method,
    fake_provider::{InjectedFailure, server_with_fake_provider},
    notification_kinds,
};
use crate::harness::{design, kondate_server, system_with};

const PATH: &str = "/v1/payments/webhook";

/// Sends a message that was signed at this time.
fn send_signed_at(server: &TestServer, seconds: i64, body: &str) -> Response {
    let signature = webhook_signature(LocalPayments::WEBHOOK_SECRET, seconds, body.as_bytes());
    let provider = server.anonymous_client().with_header("payment-signature", &signature);
    provider.request_bytes("POST", PATH, Some(body.as_bytes()))
}

fn send(server: &TestServer, subscription: &str) -> Response {
    let body = json!({ "type": "subscription.updated", "subscription": subscription }).to_string();
    send_signed_at(server, server.clock.millis() / 1_000, &body)
}

/// Proves the part of K13 that a message of the provider refreshes the subscription.
#[test]
fn a_signed_message_refreshes_a_subscription() {
    a_message_refreshes_the_subscription(&kondate_server());

    // With the clock of the server, a period passes.
    let clock = ManualClock::default();
    let system = system_with(design(), Arc::new(LocalPayments::new(clock.clock())));
    let server = TestServer::builder(system).store(memory_store(&clock), &clock).start();
    let mio = || server.client_of_user("u_01", "u_01");
    add_method(&mio(), "tok_visa");
    let started = mio().post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    clock.advance(Duration::from_secs(30 * 24 * 3_600));
    // Repeated deliveries change nothing more.
    for _ in 0..3 {
        assert_eq!(send(&server, text(&started, "providerSubscriptionId")).status, 204);
    }
    let renewed = mio().get("/v1/subscription").expect_data(200);
    assert!(text(&renewed, "currentPeriodEnd") > text(&started, "currentPeriodEnd"));
    assert_eq!(mio().get("/v1/purchases").list().len(), 2);
    assert_eq!(notification_kinds(&mio()), ["subscription_started", "subscription_renewed"]);
}

pub(crate) fn a_message_refreshes_the_subscription(server: &TestServer) {
    let mio = server.client_of_user("pay-hook", "pay-hook");
    add_method(&mio, "tok_visa");
    let started = mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    assert_eq!(send(server, text(&started, "providerSubscriptionId")).status, 204);
    assert_eq!(mio.get("/v1/subscription").expect_data(200), started);
    // Unknown subscriptions and other messages have the same answer.
    assert_eq!(send(server, "sub_unknown").status, 204);
    assert_eq!(send_signed_at(server, server.clock.millis() / 1_000, "{}").status, 204);
}

#[test]
fn a_message_that_the_provider_has_not_sent_just_now_is_refused() {
    let (server, provider) = server_with_fake_provider();
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_1");
    let started = mio.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    let calls = provider.state().calls.len();
    let body = json!({ "subscription": started["providerSubscriptionId"] }).to_string();
    let now = server.clock.millis() / 1_000;
    for seconds in [now - 301, now + 301] {
        send_signed_at(&server, seconds, &body).expect_problem(401, "bad_signature");
    }
    let other_secret = webhook_signature(b"guess", now, body.as_bytes());
    let other_body = webhook_signature(LocalPayments::WEBHOOK_SECRET, now, b"{}");
    for signature in [other_secret.as_str(), other_body.as_str(), "t=0,v1=00", "x"] {
        for client in [server.anonymous_client(), server.client_of_user("u_02", "u_02")] {
            let client = client.with_header("payment-signature", signature);
            client.request_bytes("POST", PATH, Some(body.as_bytes())).expect_problem(401, "bad_signature");
        }
    }
    server.anonymous_client().request_bytes("POST", PATH, Some(body.as_bytes())).expect_problem(401, "bad_signature");
    assert_eq!(provider.state().calls.len(), calls, "the provider was asked");
}

/// Proves the part of K13 that a message changes the subscription of its user, and of nobody else.
#[test]
fn a_message_changes_one_users_subscription() {
    let (server, provider) = server_with_fake_provider();
    let (mio, yui) = (server.client_of_user("u_01", "u_01"), server.client_of_user("u_02", "u_02"));
    let [of_mio, of_yui] = [&mio, &yui].map(|user| {
        add_method(user, "tok_1");
        user.post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201)
    });
    provider.state().subscription_state = Some(SubscriptionState::PastDue);
    let charge = SubscriptionCharge {
        id: "ch_1".to_owned(),
        charged_at: 1_893_456_000_000,
        amount: 480,
        currency: "JPY".to_owned(),
        state: ChargeState::Failed,
    };
    provider.state().subscription_charges = vec![charge];
    // A provider that does not answer sends the message again.
    provider.inject("status", InjectedFailure::RequestLost);
    send(&server, text(&of_mio, "providerSubscriptionId")).expect_problem(503, "payments_unavailable");
    assert_eq!(send(&server, text(&of_mio, "providerSubscriptionId")).status, 204);
    assert_eq!(mio.get("/v1/subscription").expect_data(200)["status"], "past_due");
    assert_eq!(mio.get("/v1/purchases").list()[0]["status"], "failed");
    assert_eq!(yui.get("/v1/subscription").expect_data(200), of_yui);
    assert!(yui.get("/v1/purchases").list().is_empty());

    // A subscription that got another id is found by that too.
    provider.state().subscription_state = Some(SubscriptionState::Active);
    provider.state().subscription_id = Some("sub_moved".to_owned());
    mio.send("POST", "/v1/subscription/refresh", None).expect_data(200);
    provider.state().subscription_state = Some(SubscriptionState::Canceled);
    assert_eq!(send(&server, "sub_moved").status, 204);
    assert_eq!(mio.get("/v1/subscription").expect_data(200)["status"], "canceled");
}
