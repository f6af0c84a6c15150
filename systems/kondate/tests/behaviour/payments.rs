//! Payment methods, purchases and the subscription with the local provider; below, with one that fails.

pub(crate) mod charges;
mod failures;
mod fake_provider;
mod needless_calls;
pub(crate) mod prices;
mod races;
mod settings;
mod stale_index;
pub(crate) mod webhook;

use std::{sync::Arc, time::Duration};

use nagaya_kondate::LocalPayments;
use nagaya_tenancy::{IdGenerator, Principal};
use nagaya_testing::{Client, ManualClock, TestServer, memory_store, text};
use serde_json::{Value as Json, json};

use crate::harness::{design, kondate_server, system_with};

/// Publishes a recipe with this price; its id.
pub(super) fn offer(server: &TestServer, price: u64) -> String {
    let recipe = server.block_on(async {
        let cook = server.nagaya.tenant(&Principal::new("pay-cook", "pay-cook")).expect("a tenant");
        let id = IdGenerator::random().ulid(server.clock.millis());
        let fields = json!({ "recipeId": id, "creatorName": "Cook", "title": "Curry", "price": price });
        cook.create("catalog_recipe", fields.as_object().expect("fields").clone()).await.expect("it is made")
    });
    recipe.text("recipeId").expect("an id").to_owned()
}

pub(super) fn add_method(user: &Client<'_>, token: &str) -> String {
    text(&user.post("/v1/payment-methods", &json!({ "token": token })).expect_data(201), "paymentMethodId").to_owned()
}

pub(super) fn purchase_body(recipe: &str) -> Json {
    json!({ "targetType": "RECIPE", "targetId": recipe })
}

/// The body of a purchase with the price that the caller saw.
pub(super) fn purchase_body_with_price(recipe: &str, amount: &Json) -> Json {
    let mut body = purchase_body(recipe);
    body["amount"] = amount.clone();
    body
}

/// The kinds of the user's notifications, oldest first.
pub(super) fn notification_kinds(user: &Client<'_>) -> Vec<String> {
    let mut kinds: Vec<_> =
        user.get("/v1/notifications").list().iter().map(|each| text(each, "kind").to_owned()).collect();
    kinds.reverse();
    kinds
}

/// The last digits of the payment methods, the default one in brackets.
fn methods(user: &Client<'_>) -> Vec<String> {
    let shown = |method: &Json| match method["isDefault"] == json!(true) {
        true => format!("[{}]", text(method, "last4")),
        false => text(method, "last4").to_owned(),
    };
    user.get("/v1/payment-methods").list().iter().map(shown).collect()
}

/// Proves the methods part of K13.
#[test]
fn payment_methods_are_tokens_with_one_default() {
    one_method_is_the_default(&kondate_server());
}

pub(crate) fn one_method_is_the_default(server: &TestServer) {
    let mio = server.client_of_user("pay-mio", "pay-mio");
    let added = mio.post("/v1/payment-methods", &json!({ "token": "tok_visa" }));
    let visa = added.expect_data(201);
    assert_eq!(
        (&visa["brand"], &visa["last4"], &visa["expMonth"], &visa["provider"], &visa["isDefault"]),
        (&json!("visa"), &json!("4242"), &json!(12), &json!("local"), &json!(true))
    );
    let place = format!("/v1/payment-methods/{}", text(&visa, "paymentMethodId"));
    assert_eq!(added.header("location"), Some(place.as_str()));
    // The token is never returned.
    for answer in [added, mio.get(&place), mio.get("/v1/payment-methods")] {
        assert!(!answer.body.to_string().contains("tok_visa"), "{:#}", answer.body);
    }

    // Another default can be chosen.
    let jcb = add_method(&mio, "tok_jcb");
    assert_eq!(methods(&mio), ["[4242]", "0505"]);
    mio.post("/v1/payment-methods", &json!({ "token": "tok_mastercard", "isDefault": true })).expect_data(201);
    assert_eq!(methods(&mio), ["4242", "0505", "[4444]"]);
    assert_eq!(
        mio.send("POST", &format!("/v1/payment-methods/{jcb}/default"), None).expect_data(200)["isDefault"],
        true
    );
    assert_eq!(methods(&mio), ["4242", "[0505]", "4444"]);
    mio.patch(&place, &json!({ "isDefault": true })).expect_problem(405, "no_such_method");

    // The same token is the same payment method.
    assert_eq!(mio.post("/v1/payment-methods", &json!({ "token": "tok_visa" })).expect_data(200)["last4"], "4242");
    mio.post("/v1/payment-methods", &json!({ "token": "tok_visa", "isDefault": true })).expect_data(200);
    assert_eq!(methods(&mio), ["[4242]", "0505", "4444"]);

    // Another user has no access to them.
    let other = server.client_of_user("pay-mio2", "pay-mio2");
    other.get(&place).expect_problem(404, "not_found");
    other.delete(&place).expect_problem(404, "not_found");
    other.send("POST", &format!("{place}/default"), None).expect_problem(404, "not_found");
    assert!(methods(&other).is_empty());

    // Removing the default method leaves none: the user chooses which card is charged next.
    assert_eq!(mio.delete(&place).status, 204);
    mio.delete(&place).expect_problem(404, "not_found");
    assert_eq!(methods(&mio), ["0505", "4444"]);
    add_method(&mio, "tok_visa");
    assert_eq!(methods(&mio), ["0505", "4444", "[4242]"]);
}

/// Proves the card number part of K13.
#[test]
fn card_numbers_are_refused() {
    a_card_number_is_never_accepted(&kondate_server());
}

pub(crate) fn a_card_number_is_never_accepted(server: &TestServer) {
    let mio = server.client_of_user("pay-number", "pay-number");
    for number in ["4242424242424242", "4242 4242 4242 4242", "3782-822463-10005"] {
        let answer = mio.post("/v1/payment-methods", &json!({ "token": number }));
        assert_eq!(answer.expect_problem(422, "invalid"), ["/token"]);
        assert!(!answer.body.to_string().contains(number));
        assert!(answer.body["detail"].as_str().expect("a sentence").contains("Never send one"));
    }
    // Tokens that the provider refuses, and invalid bodies.
    mio.post("/v1/payment-methods", &json!({ "token": "tok_expired" })).expect_problem(402, "payment_declined");
    mio.post("/v1/payment-methods", &json!({ "token": "nonsense" })).expect_problem(402, "payment_declined");
    let answer = mio.post("/v1/payment-methods", &json!({ "isDefault": 1, "last4": "4242" }));
    let mut wrong = answer.expect_problem(422, "invalid");
    wrong.sort();
    assert_eq!(wrong, ["/isDefault", "/last4", "/token"]);
    assert_eq!(mio.post("/v1/payment-methods", &json!({ "token": "" })).expect_problem(422, "invalid"), ["/token"]);
    assert!(methods(&mio).is_empty());
}

/// Proves the purchases part of K13.
#[test]
fn a_purchase_has_the_price_of_the_catalog() {
    a_purchase_is_charged_once_and_stored(&kondate_server());
}

pub(crate) fn a_purchase_is_charged_once_and_stored(server: &TestServer) {
    let mio = server.client_of_user("pay-buyer", "pay-buyer");
    let (curry, soup, free) = (offer(server, 300), offer(server, 300), offer(server, 0));
    let keyed = |key: &str| mio.with_header("idempotency-key", key);
    mio.get_until(&format!("/v1/catalog/recipes/{free}"), |answer| answer.status == 200);

    // A purchase needs an idempotency key and a payment method.
    assert_eq!(
        mio.post("/v1/purchases", &purchase_body(&curry)).expect_problem(400, "idempotency_key_required"),
        ["Idempotency-Key"]
    );
    keyed("1").post("/v1/purchases", &purchase_body(&curry)).expect_problem(409, "no_payment_method");
    let visa = add_method(&mio, "tok_visa");

    // The price is the catalog's; any other price is refused.
    for other in [1, 299, 301] {
        let answer = keyed("1").post("/v1/purchases", &purchase_body_with_price(&curry, &json!(other)));
        answer.expect_problem(409, "price_changed");
        assert!(text(&answer.body, "detail").contains("300 JPY"), "{:#}", answer.body);
    }
    for none in [json!(-1), json!("300"), json!(null)] {
        assert_eq!(
            keyed("1").post("/v1/purchases", &purchase_body_with_price(&curry, &none)).expect_problem(422, "invalid"),
            ["/amount"]
        );
    }
    let first = keyed("1").post("/v1/purchases", &purchase_body(&curry));
    let bought = first.expect_data(201);
    assert_eq!(
        (&bought["amount"], &bought["currency"], &bought["status"], &bought["title"], &bought["paymentMethodId"]),
        (&json!(300), &json!("JPY"), &json!("paid"), &json!("Curry"), &json!(visa))
    );
    assert_eq!(mio.get(first.header("location").expect("a place")).expect_data(200), bought);

    // A repeated request has the same result; another body under the key is refused.
    let again = keyed("1").post("/v1/purchases", &purchase_body(&curry));
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.header("location"), first.header("location"));
    keyed("1").post("/v1/purchases", &purchase_body(&free)).expect_problem(422, "idempotency_key_reused");
    // The key does not expire: a repeat never charges again.
    server.clock.advance(Duration::from_secs(3_000_000));
    let much_later = server.client_of_user("pay-buyer", "pay-buyer").with_header("idempotency-key", "1");
    assert_eq!(much_later.post("/v1/purchases", &purchase_body(&curry)).body, first.body);

    // A free item is not charged, and a declined card is recorded.
    let gift = server.client_of_user("pay-poor", "pay-poor").with_header("idempotency-key", "1");
    let gift = gift.post("/v1/purchases", &purchase_body(&free)).expect_data(201);
    assert_eq!((&gift["amount"], &gift["status"], &gift["paymentMethodId"]), (&json!(0), &json!("paid"), &json!(null)));
    let empty = add_method(&mio, "tok_declined");
    let mut with_empty = purchase_body(&soup);
    with_empty["paymentMethodId"] = json!(empty);
    for _ in 0..2 {
        keyed("2").post("/v1/purchases", &with_empty).expect_problem(402, "payment_declined");
    }
    server.clock.advance(Duration::from_secs(1));
    keyed("3").post("/v1/purchases", &purchase_body(&free)).expect_data(201);
    let history = mio.get("/v1/purchases").list();
    let history: Vec<_> = history.iter().map(|each| (text(each, "status"), each["amount"].as_u64())).collect();
    assert_eq!(history, [("paid", Some(0)), ("failed", Some(300)), ("paid", Some(300))]);
    assert_eq!(notification_kinds(&mio), ["receipt", "receipt"]);

    // Items that do not exist or belong to other users.
    keyed("4").post("/v1/purchases", &purchase_body("r_404404")).expect_problem(404, "not_found");
    keyed("4").post("/v1/purchases", &purchase_body("nonsense")).expect_problem(404, "not_found");
    let subscription = json!({ "targetType": "SUBSCRIPTION", "targetId": curry });
    assert_eq!(keyed("4").post("/v1/purchases", &subscription).expect_problem(422, "invalid"), ["/targetType"]);
    let other = server.client_of_user("pay-other", "pay-other").with_header("idempotency-key", "1");
    let mut with_visa = purchase_body(&curry);
    with_visa["paymentMethodId"] = json!(visa);
    other.post("/v1/purchases", &with_visa).expect_problem(404, "not_found");
    other.get(first.header("location").expect("a place")).expect_problem(404, "not_found");
    assert!(other.get("/v1/purchases").list().is_empty());
}

/// Proves the subscription part of K13.
#[test]
fn a_subscription_is_started_canceled_and_resumed() {
    a_subscription_can_be_started_canceled_and_resumed(&kondate_server());
}

pub(crate) fn a_subscription_can_be_started_canceled_and_resumed(server: &TestServer) {
    let mio = server.client_of_user("pay-subscriber", "pay-subscriber");
    let act = |act: &str| mio.send("POST", &format!("/v1/subscription/{act}"), None);
    let premium = json!({ "plan": "premium" });
    mio.get("/v1/subscription").expect_problem(404, "not_found");
    for nothing in ["cancel", "resume", "refresh"] {
        act(nothing).expect_problem(404, "not_found");
    }
    mio.post("/v1/subscription", &premium).expect_problem(409, "no_payment_method");
    for nothing in [json!({}), json!({ "plan": "" })] {
        assert_eq!(mio.post("/v1/subscription", &nothing).expect_problem(422, "invalid"), ["/plan"]);
    }
    let visa = add_method(&mio, "tok_visa");

    let started = mio.post("/v1/subscription", &premium).expect_data(201);
    assert_eq!(
        (&started["plan"], &started["status"], &started["paymentMethodId"], &started["cancelAtPeriodEnd"]),
        (&json!("premium"), &json!("active"), &json!(visa), &json!(false))
    );
    assert!(text(&started, "currentPeriodEnd") > text(&started, "startedAt"));
    assert_eq!(mio.get("/v1/subscription").expect_data(200), started);
    mio.post("/v1/subscription", &premium).expect_problem(409, "subscribed");
    mio.delete(&format!("/v1/payment-methods/{visa}")).expect_problem(409, "in_use");

    // A canceled subscription runs until its period ends; repeating the cancel changes nothing.
    let canceled = act("cancel").expect_data(200);
    assert_eq!((&canceled["status"], &canceled["cancelAtPeriodEnd"]), (&json!("active"), &json!(true)));
    assert_eq!(act("cancel").expect_data(200), canceled);
    assert_eq!(act("refresh").expect_data(200), canceled);
    mio.post("/v1/subscription", &premium).expect_problem(409, "subscribed");
    let resumed = act("resume").expect_data(200);
    assert_eq!((&resumed["status"], &resumed["cancelAtPeriodEnd"]), (&json!("active"), &json!(false)));
    assert_eq!(act("resume").expect_data(200), resumed);
    assert_eq!(notification_kinds(&mio), ["subscription_started", "subscription_ending", "subscription_resumed"]);

    // It cannot be written directly, and other users cannot read it.
    mio.patch("/v1/subscription", &json!({ "status": "active" })).expect_problem(405, "no_such_method");
    mio.delete("/v1/subscription").expect_problem(405, "no_such_method");
    let stale = mio.with_header("if-match", "\"v1\"");
    stale.send("POST", "/v1/subscription/cancel", None).expect_problem(412, "version_conflict");
    let other = server.client_of_user("pay-subscriber2", "pay-subscriber2");
    other.get("/v1/subscription").expect_problem(404, "not_found");
    other.send("POST", "/v1/subscription/cancel", None).expect_problem(404, "not_found");
    let with_visa = json!({ "plan": "premium", "paymentMethodId": visa });
    other.post("/v1/subscription", &with_visa).expect_problem(404, "not_found");
    let declined = json!({ "plan": "premium", "paymentMethodId": add_method(&other, "tok_declined") });
    other.post("/v1/subscription", &declined).expect_problem(402, "payment_declined");
    other.get("/v1/subscription").expect_problem(404, "not_found");
}

/// Proves the part of K13 in which time passes: the provider for development lives by the clock of the server.
#[test]
fn a_subscription_ends_with_its_period_and_another_one_starts() {
    let clock = ManualClock::default();
    let system = system_with(design(), Arc::new(LocalPayments::new(clock.clock())));
    let server = TestServer::builder(system).store(memory_store(&clock), &clock).start();
    let mio = || server.client_of_user("u_01", "u_01");
    let act = |act: &str| mio().send("POST", &format!("/v1/subscription/{act}"), None);
    let month = || clock.advance(Duration::from_secs(30 * 24 * 3_600));

    // A trial, then a paid period, then a renewal.
    let visa = add_method(&mio(), "tok_visa");
    mio().post("/v1/subscription", &json!({ "plan": "trial-premium" })).expect_data(201);
    month();
    assert_eq!(act("refresh").expect_data(200)["status"], "active");
    month();
    act("refresh").expect_data(200);
    // Canceled until its period ends; then it cannot be resumed.
    act("cancel").expect_data(200);
    month();
    act("resume").expect_problem(409, "not_running");
    assert_eq!(act("refresh").expect_data(200)["status"], "canceled");
    act("resume").expect_problem(409, "not_running");
    act("cancel").expect_problem(409, "not_running");
    assert_eq!(mio().delete(&format!("/v1/payment-methods/{visa}")).status, 204);
    let first = mio().get("/v1/subscription").expect_data(200);

    // A new subscription, with a card that fails at renewal.
    add_method(&mio(), "tok_unpaid");
    let second = mio().post("/v1/subscription", &json!({ "plan": "premium" })).expect_data(201);
    assert_eq!((&second["plan"], &second["cancelAtPeriodEnd"]), (&json!("premium"), &json!(false)));
    assert!(text(&second, "startedAt") > text(&first, "startedAt"));
    for status in ["past_due", "canceled"] {
        month();
        let refreshed = act("refresh").expect_data(200);
        assert_eq!((&refreshed["status"], &refreshed["startedAt"]), (&json!(status), &second["startedAt"]));
    }
    let kinds = ["started", "active", "renewed", "ending", "canceled", "started", "past_due", "canceled"];
    assert_eq!(notification_kinds(&mio()), kinds.map(|kind| format!("subscription_{kind}")));
}

/// Proves the part of K13 that what is over stands in nobody's way, also if nobody has asked how it stands.
#[test]
fn an_expired_subscription_is_updated_by_the_next_request() {
    for next in ["start", "remove", "resume", "cancel"] {
        let clock = ManualClock::default();
        let system = system_with(design(), Arc::new(LocalPayments::new(clock.clock())));
        let server = TestServer::builder(system).store(memory_store(&clock), &clock).start();
        let mio = || server.client_of_user("u_01", "u_01");
        let act = |act: &str| mio().send("POST", &format!("/v1/subscription/{act}"), None);
        let month = || clock.advance(Duration::from_secs(30 * 24 * 3_600));
        let (premium, visa) =
            (json!({ "plan": "premium" }), format!("/v1/payment-methods/{}", add_method(&mio(), "tok_visa")));
        let first = mio().post("/v1/subscription", &premium).expect_data(201);

        // A renewed subscription is active.
        month();
        mio().post("/v1/subscription", &premium).expect_problem(409, "subscribed");
        mio().delete(&visa).expect_problem(409, "in_use");
        assert!(text(&act("cancel").expect_data(200), "currentPeriodEnd") > text(&first, "currentPeriodEnd"));
        // An expired one is not.
        month();
        assert_eq!(mio().get("/v1/subscription").expect_data(200)["status"], "active");
        match next {
            "start" => {
                let second = mio().post("/v1/subscription", &premium).expect_data(201);
                assert!(text(&second, "startedAt") > text(&first, "startedAt"));
                assert_eq!(notification_kinds(&mio()).iter().filter(|kind| *kind == "subscription_started").count(), 2);
            }
            "remove" => assert_eq!(mio().delete(&visa).status, 204),
            act_of_it => drop(act(act_of_it).expect_problem(409, "not_running")),
        }
        let canceled = notification_kinds(&mio()).iter().filter(|kind| *kind == "subscription_canceled").count();
        assert_eq!(canceled, 1, "{next}");
    }
}
