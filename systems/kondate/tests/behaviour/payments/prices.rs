//! A purchase is charged once, for items of other users, at the price that the caller saw.

use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use super::{
    add_method,
    fake_provider::{InjectedFailure, server_with_fake_provider, with_local_provider},
    notification_kinds, offer, purchase_body, purchase_body_with_price,
};
use crate::harness::kondate_server;

fn buy(user: &Client<'_>, key: &str, body: &Json) -> nagaya_testing::Response {
    user.with_header("idempotency-key", key).post("/v1/purchases", body)
}

/// Publishes a recipe or set at this price; its id.
fn published(cook: &Client<'_>, path: &str, id: &str, price: u64) -> String {
    let made = cook.post(path, &json!({ "title": "Curry" })).expect_data(201);
    let id = text(&made, id).to_owned();
    let copy = cook.post(&format!("{path}/{id}/publish"), &json!({ "price": price })).expect_data(200);
    assert_eq!(copy["price"], price);
    cook.get_until(&format!("/v1/catalog{}/{id}", path.trim_start_matches("/v1")), |answer| answer.status == 200);
    id
}

/// Proves the part of K13 that something is bought once, and from somebody else.
#[test]
fn an_item_is_not_charged_twice() {
    an_item_is_bought_once(&kondate_server());
}

pub(crate) fn an_item_is_bought_once(server: &TestServer) {
    let (cook, mio) = (server.client_of_user("pay-maker", "pay-maker"), server.client_of_user("pay-once", "pay-once"));
    cook.post("/v1/profile", &json!({ "displayName": "Cook" })).expect_data(201);
    for user in [&cook, &mio] {
        add_method(user, "tok_visa");
    }
    for (kind, path, id) in [("RECIPE", "/v1/recipes", "recipeId"), ("SET", "/v1/sets", "setId")] {
        let id = published(&cook, path, id, 300);
        let body = json!({ "targetType": kind, "targetId": id });
        buy(&cook, "1", &body).expect_problem(409, "own_item");
        let key = |nth: u8| format!("{kind}-{nth}");

        // A declined purchase is not a purchase.
        let mut empty = body.clone();
        let card = mio.post("/v1/payment-methods", &json!({ "token": "tok_declined" }));
        empty["paymentMethodId"] = card.body["data"]["paymentMethodId"].clone();
        buy(&mio, &key(1), &empty).expect_problem(402, "payment_declined");
        let bought = buy(&mio, &key(2), &body).expect_data(201);
        buy(&mio, &key(3), &body).expect_problem(409, "already_bought");
        // Also if the price has changed, and the item was withdrawn for a while.
        assert_eq!(cook.send("POST", &format!("{path}/{id}/withdraw"), None).status, 204);
        cook.post(&format!("{path}/{id}/publish"), &json!({ "price": 0 })).expect_data(200);
        buy(&mio, &key(3), &body).expect_problem(409, "already_bought");
        // Repeated under its own key, each purchase has its first result, also the declined one.
        assert_eq!(buy(&mio, &key(2), &body).expect_data(201), bought);
        buy(&mio, &key(1), &empty).expect_problem(402, "payment_declined");
    }
    assert!(cook.get("/v1/purchases").list().is_empty());
    let paid = mio.get("/v1/purchases?order=asc").list();
    assert_eq!(paid.iter().filter(|each| each["status"] == "paid").count(), 2);
    assert_eq!(notification_kinds(&mio), ["receipt", "receipt"]);
}

/// Proves the part of K13 that something free is bought once, and is paid when it costs something.
#[test]
fn a_free_item_is_bought_once_and_again_only_for_a_price() {
    let server = kondate_server();
    let (cook, mio) =
        (server.client_of_user("pay-gives", "pay-gives"), server.client_of_user("pay-takes", "pay-takes"));
    cook.post("/v1/profile", &json!({ "displayName": "Cook" })).expect_data(201);
    add_method(&mio, "tok_visa");
    let id = published(&cook, "/v1/recipes", "recipeId", 0);
    let publish = |price: u64| {
        cook.post(&format!("/v1/recipes/{id}/publish"), &json!({ "price": price })).expect_data(200);
    };

    let gift = buy(&mio, "1", &purchase_body(&id)).expect_data(201);
    assert_eq!(gift["amount"], 0);
    buy(&mio, "2", &purchase_body(&id)).expect_problem(409, "already_bought");
    assert_eq!(buy(&mio, "1", &purchase_body(&id)).expect_data(201), gift, "a repeated request has its first result");
    publish(300);
    assert_eq!(mio.get(&format!("/v1/catalog/recipes/{id}")).expect_data(200)["preview"], true);
    assert_eq!(buy(&mio, "2", &purchase_body(&id)).expect_data(201)["amount"], 300);
    for price in [300, 0, 500] {
        publish(price);
        buy(&mio, "3", &purchase_body(&id)).expect_problem(409, "already_bought");
        assert_eq!(mio.get(&format!("/v1/catalog/recipes/{id}")).expect_data(200).get("preview"), None);
    }
    assert_eq!(mio.get("/v1/purchases").list().len(), 2);
}

/// Proves the part of K13 that nobody pays another price than the one that was seen.
#[test]
fn the_price_must_be_the_one_that_the_caller_saw() {
    a_changed_price_is_not_charged(&kondate_server());
}

pub(crate) fn a_changed_price_is_not_charged(server: &TestServer) {
    let (cook, mio) = (server.client_of_user("pay-dear", "pay-dear"), server.client_of_user("pay-looks", "pay-looks"));
    cook.post("/v1/profile", &json!({ "displayName": "Cook" })).expect_data(201);
    add_method(&mio, "tok_visa");
    let id = published(&cook, "/v1/recipes", "recipeId", 300);
    let publish = |body: Json| cook.post(&format!("/v1/recipes/{id}/publish"), &body).expect_data(200)["price"].clone();

    publish(json!({ "price": 900 }));
    let answer = buy(&mio, "1", &purchase_body_with_price(&id, &json!(300)));
    answer.expect_problem(409, "price_changed");
    assert!(text(&answer.body, "detail").contains("900 JPY"));
    // Publishing again keeps the price; a withdrawn item has none.
    assert_eq!(publish(json!({})), 900);
    cook.send("POST", &format!("/v1/recipes/{id}/withdraw"), None);
    assert_eq!(publish(json!({})), 0);
    publish(json!({ "price": 500 }));
    assert!(mio.get("/v1/purchases").list().is_empty());
    mio.get_until(&format!("/v1/catalog/recipes/{id}"), |answer| answer.body["data"]["price"] == 500);
    assert_eq!(buy(&mio, "1", &purchase_body_with_price(&id, &json!(500))).expect_data(201)["amount"], 500);
}

/// Proves the part of K13 that a token is for the provider that gave it.
#[test]
fn a_pending_purchase_is_not_charged_by_another_provider() {
    let (server, provider) = server_with_fake_provider();
    let curry = offer(&server, 300);
    let mio = server.client_of_user("u_01", "u_01");
    add_method(&mio, "tok_visa");
    provider.inject("charge", InjectedFailure::RequestLost);
    buy(&mio, "1", &purchase_body(&curry)).expect_problem(503, "payments_unavailable");
    provider.inject("subscribe", InjectedFailure::RequestLost);
    let other = server.client_of_user("u_02", "u_02");
    add_method(&other, "tok_visa");
    other.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(503, "payments_unavailable");

    // The next provider would accept the token.
    let server = with_local_provider(server);
    let (mio, other) = (server.client_of_user("u_01", "u_01"), server.client_of_user("u_02", "u_02"));
    buy(&mio, "1", &purchase_body(&curry)).expect_problem(402, "payment_declined");
    assert_eq!(mio.get("/v1/purchases").list()[0]["status"], "failed");
    other.post("/v1/subscription", &json!({ "plan": "premium" })).expect_problem(409, "other_provider");
    other.get("/v1/subscription").expect_problem(404, "not_found");
    // With a card of the new provider the purchase succeeds.
    let card = mio.post("/v1/payment-methods", &json!({ "token": "tok_jcb", "isDefault": true })).expect_data(201);
    assert_eq!(buy(&mio, "2", &purchase_body(&curry)).expect_data(201)["paymentMethodId"], card["paymentMethodId"]);
}
