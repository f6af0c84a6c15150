//! Several at once.

use nagaya_testing::{Client, Response, text};
use serde_json::{Value as Json, json};

use super::{add, bank::banking, buys, offer, told};

const AT_ONCE: usize = 8;

/// What several answer who ask at the same time.
fn at_once(asks: impl Fn(usize) -> Response + Sync) -> Vec<Response> {
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
fn the_same_purchase_at_once_is_one() {
    let (server, bank) = banking();
    let mio = server.user("u_01", "u_01");
    let curry = offer(&server, 300);
    add(&mio, "tok_1");
    let keyed = mio.with("idempotency-key", "k");
    let answers = at_once(|_| keyed.post("/v1/purchases", &buys(&curry)));
    let bought = answers[0].data(201);
    assert!(answers.iter().all(|answer| answer.data(201) == bought));
    assert_eq!(mio.get("/v1/purchases").list(), [bought]);
    assert_eq!(told(&mio), ["receipt"]);
    assert_eq!(bank.books().charges.len(), 1);

    // Different ones are several.
    let others: Vec<_> = (0..AT_ONCE).map(|_| offer(&server, 300)).collect();
    let buy = |nth: usize, id: &str| mio.with("idempotency-key", &nth.to_string()).post("/v1/purchases", &buys(id));
    let answers = at_once(|nth| buy(nth, &others[nth]));
    let mut ids: Vec<Json> = answers.iter().map(|answer| answer.data(201)["purchaseId"].clone()).collect();
    ids.sort_by_key(Json::to_string);
    ids.dedup();
    assert_eq!(ids.len(), AT_ONCE);
    assert_eq!(bank.books().charges.len(), 1 + AT_ONCE);
    assert_eq!(mio.get("/v1/purchases").list().len(), 1 + AT_ONCE);
}

/// Proves the part of K13 that nothing is paid twice, whatever the keys are.
#[test]
fn the_same_thing_at_once_under_several_keys_is_paid_once() {
    for _ in 0..10 {
        let (server, bank) = banking();
        let mio = server.user("u_01", "u_01");
        let curry = offer(&server, 300);
        add(&mio, "tok_1");
        let answers = at_once(|nth| mio.with("idempotency-key", &nth.to_string()).post("/v1/purchases", &buys(&curry)));
        let (paid, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
        assert_eq!((paid.len(), refused.len()), (1, AT_ONCE - 1), "{answers:#?}");
        for answer in refused {
            answer.problem(409, "already_bought");
        }
        assert_eq!(mio.get("/v1/purchases").list(), [paid[0].data(201)]);
        assert_eq!(told(&mio), ["receipt"]);
        assert_eq!(bank.books().charges.len(), 1);
    }
}

/// Proves the part of K13 that there is one subscription at most.
#[test]
fn of_several_subscriptions_at_once_one_starts() {
    let (server, bank) = banking();
    let mio = server.user("u_01", "u_01");
    add(&mio, "tok_1");
    let answers = at_once(|nth| mio.post("/v1/subscription", &json!({ "plan": format!("plan-{nth}") })));
    let started: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert_eq!(started.len(), 1, "{answers:#?}");
    for lost in answers.iter().filter(|answer| answer.status != 201) {
        lost.problem(409, "subscribed");
    }
    assert_eq!(mio.get("/v1/subscription").data(200), started[0].data(201));
    assert_eq!(bank.books().subscriptions.len(), 1);
    assert_eq!(told(&mio), ["subscription_started"]);
}

/// Proves the part of K13 that there is one default method at most.
#[test]
fn one_method_is_the_default_whoever_is_faster() {
    let (server, _) = banking();
    let mio = server.user("u_01", "u_01");
    let added = at_once(|nth| mio.post("/v1/payment-methods", &json!({ "token": format!("tok_{nth}") })));
    let ids: Vec<String> = added.iter().map(|answer| text(&answer.data(201), "paymentMethodId").to_owned()).collect();
    assert_eq!(defaults(&mio), 1);
    at_once(|nth| {
        let preferred = mio.send("POST", &format!("/v1/payment-methods/{}/default", ids[nth]), None);
        preferred.data(200);
        preferred
    });
    assert_eq!(defaults(&mio), 1);
    // The same token at once is one method.
    at_once(|_| mio.post("/v1/payment-methods", &json!({ "token": "tok_same" })));
    assert_eq!(mio.get("/v1/payment-methods").list().len(), AT_ONCE + 1);
}

/// Proves the part of K13 that nothing is paid with a method that is gone.
#[test]
fn a_method_goes_or_pays_and_not_both() {
    for _ in 0..10 {
        let (server, bank) = banking();
        let mio = server.user("u_01", "u_01");
        let id = add(&mio, "tok_1");
        let answers = at_once(|nth| match nth % 2 {
            0 => mio.delete(&format!("/v1/payment-methods/{id}")),
            _ => mio.post("/v1/subscription", &json!({ "plan": "premium", "paymentMethodId": id })),
        });
        let (removed, started) =
            (answers.iter().any(|answer| answer.status == 204), answers.iter().any(|answer| answer.status == 201));
        assert!(removed != started, "{answers:#?}");
        let books = bank.books();
        assert_eq!((books.forgotten.len(), books.subscriptions.len()), (usize::from(removed), usize::from(started)));
    }
}
