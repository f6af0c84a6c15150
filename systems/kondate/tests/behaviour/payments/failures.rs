//! What happens when the provider fails, or the server between the provider and the record.

use std::time::Duration;

use nagaya_kondate::SubscriptionState;
use nagaya_testing::text;
use serde_json::json;

use super::{
    add,
    bank::{Fate, banking, restarted},
    buys, offer, told,
};

/// Proves the part of K13 that a charge is never made twice, and never without its record.
#[test]
fn a_charge_whose_answer_is_lost_is_recorded_once() {
    for fate in [Fate::Unheard, Fate::Unanswered] {
        let (server, bank) = banking();
        let curry = offer(&server, 300);
        add(&server.user("u_01", "u_01"), "tok_1");
        bank.fails("charge", fate);
        let mio = server.user("u_01", "u_01").with("idempotency-key", "k");
        let answer = mio.post("/v1/purchases", &buys(&curry));
        answer.problem(503, "payments_unavailable");
        assert!(answer.header("retry-after").is_some());
        assert!(mio.get("/v1/purchases").list().is_empty());

        let server = restarted(server, &bank);
        let mio = server.user("u_01", "u_01").with("idempotency-key", "k");
        let bought = mio.post("/v1/purchases", &buys(&curry)).data(201);
        assert_eq!(mio.post("/v1/purchases", &buys(&curry)).data(201), bought);
        assert_eq!(mio.get("/v1/purchases").list(), std::slice::from_ref(&bought));
        assert_eq!(told(&mio), ["receipt"]);
        assert_eq!(bank.books().charges.keys().collect::<Vec<_>>(), [text(&bought, "purchaseId")], "{fate:?}");
    }
}

/// Proves the part of K13 that what was begun ends, also if nobody asks for it again.
#[test]
fn whoever_comes_next_ends_what_was_left() {
    let (server, bank) = banking();
    let mio = server.user("u_01", "u_01");
    let (curry, soup) = (offer(&server, 300), offer(&server, 200));
    add(&mio, "tok_1");
    let keyed = |key: &str| mio.with("idempotency-key", key);

    bank.fails("charge", Fate::Unanswered);
    keyed("a").post("/v1/purchases", &buys(&curry)).problem(503, "payments_unavailable");
    keyed("b").post("/v1/purchases", &buys(&soup)).data(201);
    let amounts = |path| mio.get(path).list().iter().map(|each| each["amount"].as_u64()).collect::<Vec<_>>();
    assert_eq!(amounts("/v1/purchases?order=asc"), [Some(300), Some(200)]);
    assert_eq!(keyed("a").post("/v1/purchases", &buys(&curry)).data(201)["amount"], 300);

    bank.fails("subscribe", Fate::Unanswered);
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).problem(503, "payments_unavailable");
    mio.get("/v1/subscription").problem(404, "not_found");
    add(&mio, "tok_2");
    assert_eq!(mio.get("/v1/subscription").data(200)["status"], "active");
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).problem(409, "subscribed");

    let other = add(&mio, "tok_3");
    bank.fails("forget", Fate::Unanswered);
    mio.delete(&format!("/v1/payment-methods/{other}")).problem(503, "payments_unavailable");
    mio.delete(&format!("/v1/payment-methods/{other}")).problem(404, "not_found");

    let books = bank.books();
    assert_eq!((books.charges.len(), books.subscriptions.len()), (2, 1));
    assert!(books.forgotten.contains("tok_3"));
}

/// Proves the part of K13 that the price is the one of the moment in which something was bought.
#[test]
fn a_purchase_that_is_ended_later_costs_what_it_did() {
    let (server, bank) = banking();
    let mio = server.user("u_01", "u_01").with("idempotency-key", "k");
    let curry = offer(&server, 300);
    let (first, second) = (add(&mio, "tok_1"), add(&mio, "tok_2"));
    bank.fails("charge", Fate::Unanswered);
    mio.post("/v1/purchases", &buys(&curry)).problem(503, "payments_unavailable");
    // Meanwhile another card is the default, and the recipe has another price.
    server.block_on(async {
        let cook = server.nagaya.tenant(&nagaya_tenancy::Principal::new("pay-cook", "pay-cook")).expect("a tenant");
        let list = nagaya_tenancy::List::by("catalog_recipe_by_id").with("recipeId", &curry);
        let recipe = cook.list(&list).await.expect("a list").records.remove(0);
        let patch = json!({ "price": 900 }).as_object().expect("fields").clone();
        let id = recipe.id();
        let id: Vec<_> = id.iter().map(String::as_str).collect();
        cook.update("catalog_recipe", &id, patch, None).await.expect("it is changed");
    });
    mio.send("POST", &format!("/v1/payment-methods/{second}/default"), None).data(200);
    let bought = mio.post("/v1/purchases", &buys(&curry)).data(201);
    assert_eq!((&bought["amount"], &bought["paymentMethodId"]), (&json!(300), &json!(first)));
}

/// Proves the part of K13 that only what can follow does.
#[test]
fn a_standing_that_cannot_be_changes_nothing() {
    for from in SubscriptionState::ALL {
        for to in SubscriptionState::ALL {
            let (server, bank) = banking();
            let mio = server.user("u_01", "u_01");
            add(&mio, "tok_1");
            // Nothing starts as canceled; it can become so.
            let start = if from.is_running() { from } else { SubscriptionState::Active };
            bank.books().state = Some(start);
            mio.post("/v1/subscription", &json!({ "plan": "premium" })).data(201);
            bank.books().state = Some(from);
            let before = mio.send("POST", "/v1/subscription/refresh", None).data(200);
            let news = told(&mio).len();

            bank.books().state = Some(to);
            let answer = mio.send("POST", "/v1/subscription/refresh", None);
            if from.can_become(to) {
                assert_eq!(answer.data(200)["status"], to.name());
                assert_eq!(told(&mio).len(), news + usize::from(from != to), "{from:?} {to:?}");
            } else {
                answer.problem(502, "bad_standing");
                assert_eq!(mio.get("/v1/subscription").data(200), before);
                assert_eq!(told(&mio).len(), news);
            }
        }
    }
}

#[test]
fn a_subscription_that_starts_as_over_is_none() {
    let (server, bank) = banking();
    let mio = server.user("u_01", "u_01");
    add(&mio, "tok_1");
    bank.books().state = Some(SubscriptionState::Canceled);
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).problem(502, "bad_standing");
    mio.get("/v1/subscription").problem(404, "not_found");
    bank.books().state = None;
    mio.post("/v1/subscription", &json!({ "plan": "premium" })).data(201);
}

/// Proves the part of K13 that a provider which is away is told from one that refuses.
#[test]
fn an_absent_provider_changes_nothing() {
    let (server, bank) = banking();
    let mio = server.user("u_01", "u_01");
    bank.fails("card", Fate::Unheard);
    mio.post("/v1/payment-methods", &json!({ "token": "tok_1" })).problem(503, "payments_unavailable");
    assert!(mio.get("/v1/payment-methods").list().is_empty());
    add(&mio, "tok_1");
    let before = mio.post("/v1/subscription", &json!({ "plan": "premium" })).data(201);
    for act in ["cancel", "standing"] {
        bank.fails(act, Fate::Unanswered);
        let route = if act == "standing" { "refresh" } else { act };
        mio.send("POST", &format!("/v1/subscription/{route}"), None).problem(503, "payments_unavailable");
        assert_eq!(mio.get("/v1/subscription").data(200), before);
    }
    // Asked again, it is done.
    assert_eq!(mio.send("POST", "/v1/subscription/cancel", None).data(200)["cancelAtPeriodEnd"], true);
    bank.fails("resume", Fate::Unanswered);
    mio.send("POST", "/v1/subscription/resume", None).problem(503, "payments_unavailable");
    assert_eq!(mio.send("POST", "/v1/subscription/resume", None).data(200)["cancelAtPeriodEnd"], false);
}

/// A provider that is slow to end something does not give it back.
#[test]
fn nothing_is_resumed_after_its_period() {
    let (server, bank) = banking();
    add(&server.user("u_01", "u_01"), "tok_1");
    server.user("u_01", "u_01").post("/v1/subscription", &json!({ "plan": "premium" })).data(201);
    server.user("u_01", "u_01").send("POST", "/v1/subscription/cancel", None).data(200);
    server.clock.advance(Duration::from_secs(10 * 366 * 24 * 3_600));
    let much_later = server.user("u_01", "u_01");
    much_later.send("POST", "/v1/subscription/resume", None).problem(409, "period_over");
    much_later.post("/v1/subscription", &json!({ "plan": "premium" })).problem(409, "subscribed");
    // Nobody knows how it stands.
    bank.fails("standing", Fate::Unheard);
    much_later.post("/v1/subscription", &json!({ "plan": "premium" })).problem(503, "payments_unavailable");
    bank.books().state = Some(SubscriptionState::Canceled);
    bank.books().ends = false;
    much_later.send("POST", "/v1/subscription/resume", None).problem(409, "not_running");
}
