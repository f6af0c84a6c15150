//! What is paid for: once, another's, at the price that was seen.

use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use super::{
    add,
    bank::{Fate, banking, moved},
    buys, offer, seen, told,
};
use crate::harness::kitchen;

fn buy(user: &Client<'_>, key: &str, body: &Json) -> nagaya_testing::Response {
    user.with("idempotency-key", key).post("/v1/purchases", body)
}

/// Somebody's recipe or set that is in the catalog at this price; its id.
fn published(cook: &Client<'_>, path: &str, id: &str, price: u64) -> String {
    let made = cook.post(path, &json!({ "title": "Curry" })).data(201);
    let id = text(&made, id).to_owned();
    let copy = cook.post(&format!("{path}/{id}/publish"), &json!({ "price": price })).data(200);
    assert_eq!(copy["price"], price);
    cook.until(&format!("/v1/catalog{}/{id}", path.trim_start_matches("/v1")), |answer| answer.status == 200);
    id
}

/// Proves the part of K13 that something is bought once, and from somebody else.
#[test]
fn what_is_bought_is_not_bought_again() {
    a_thing_is_bought_once(&kitchen());
}

pub(crate) fn a_thing_is_bought_once(server: &TestServer) {
    let (cook, mio) = (server.user("pay-maker", "pay-maker"), server.user("pay-once", "pay-once"));
    cook.post("/v1/profile", &json!({ "displayName": "Cook" })).data(201);
    for user in [&cook, &mio] {
        add(user, "tok_visa");
    }
    for (kind, path, id) in [("RECIPE", "/v1/recipes", "recipeId"), ("SET", "/v1/sets", "setId")] {
        let id = published(&cook, path, id, 300);
        let body = json!({ "targetType": kind, "targetId": id });
        buy(&cook, "1", &body).problem(409, "own_item");
        let key = |nth: u8| format!("{kind}-{nth}");

        // What is not paid is not bought.
        let mut empty = body.clone();
        let card = mio.post("/v1/payment-methods", &json!({ "token": "tok_declined" }));
        empty["paymentMethodId"] = card.body["data"]["paymentMethodId"].clone();
        buy(&mio, &key(1), &empty).problem(402, "payment_declined");
        let bought = buy(&mio, &key(2), &body).data(201);
        buy(&mio, &key(3), &body).problem(409, "already_bought");
        // Also if it costs something else by now, and was out of the catalog.
        assert_eq!(cook.send("POST", &format!("{path}/{id}/withdraw"), None).status, 204);
        cook.post(&format!("{path}/{id}/publish"), &json!({ "price": 0 })).data(200);
        buy(&mio, &key(3), &body).problem(409, "already_bought");
        // Under its own key it is what it was; what was declined as well.
        assert_eq!(buy(&mio, &key(2), &body).data(201), bought);
        buy(&mio, &key(1), &empty).problem(402, "payment_declined");
    }
    assert!(cook.get("/v1/purchases").list().is_empty());
    let paid = mio.get("/v1/purchases?order=asc").list();
    assert_eq!(paid.iter().filter(|each| each["status"] == "paid").count(), 2);
    assert_eq!(told(&mio), ["receipt", "receipt"]);
}

/// Proves the part of K13 that nobody pays another price than the one that was seen.
#[test]
fn a_price_is_the_one_that_was_seen() {
    a_changed_price_is_not_paid(&kitchen());
}

pub(crate) fn a_changed_price_is_not_paid(server: &TestServer) {
    let (cook, mio) = (server.user("pay-dear", "pay-dear"), server.user("pay-looks", "pay-looks"));
    cook.post("/v1/profile", &json!({ "displayName": "Cook" })).data(201);
    add(&mio, "tok_visa");
    let id = published(&cook, "/v1/recipes", "recipeId", 300);
    let publish = |body: Json| cook.post(&format!("/v1/recipes/{id}/publish"), &body).data(200)["price"].clone();

    publish(json!({ "price": 900 }));
    let answer = buy(&mio, "1", &seen(&id, &json!(300)));
    answer.problem(409, "price_changed");
    assert!(text(&answer.body, "detail").contains("900 JPY"));
    // Published again it keeps its price; withdrawn, it has none.
    assert_eq!(publish(json!({})), 900);
    cook.send("POST", &format!("/v1/recipes/{id}/withdraw"), None);
    assert_eq!(publish(json!({})), 0);
    publish(json!({ "price": 500 }));
    assert!(mio.get("/v1/purchases").list().is_empty());
    mio.until(&format!("/v1/catalog/recipes/{id}"), |answer| answer.body["data"]["price"] == 500);
    assert_eq!(buy(&mio, "1", &seen(&id, &json!(500))).data(201)["amount"], 500);
}

/// Proves the part of K13 that a token is for the provider that gave it.
#[test]
fn what_was_under_way_is_not_paid_at_another_provider() {
    let (server, bank) = banking();
    let curry = offer(&server, 300);
    let mio = server.user("u_01", "u_01");
    add(&mio, "tok_visa");
    bank.fails("charge", Fate::Unheard);
    buy(&mio, "1", &buys(&curry)).problem(503, "payments_unavailable");
    bank.fails("subscribe", Fate::Unheard);
    let other = server.user("u_02", "u_02");
    add(&other, "tok_visa");
    other.post("/v1/subscription", &json!({ "plan": "premium" })).problem(503, "payments_unavailable");

    // The next provider would take the token.
    let server = moved(server);
    let (mio, other) = (server.user("u_01", "u_01"), server.user("u_02", "u_02"));
    buy(&mio, "1", &buys(&curry)).problem(402, "payment_declined");
    assert_eq!(mio.get("/v1/purchases").list()[0]["status"], "failed");
    other.post("/v1/subscription", &json!({ "plan": "premium" })).problem(409, "other_provider");
    other.get("/v1/subscription").problem(404, "not_found");
    // With a card of its own it is bought.
    let card = mio.post("/v1/payment-methods", &json!({ "token": "tok_jcb", "isDefault": true })).data(201);
    assert_eq!(buy(&mio, "2", &buys(&curry)).data(201)["paymentMethodId"], card["paymentMethodId"]);
}
