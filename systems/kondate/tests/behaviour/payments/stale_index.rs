//! Prices while an index is stale.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use nagaya_testing::{InstrumentedStore, ManualClock, TestServer, memory_store, text};
use serde_json::json;

use super::{add_method, purchase_body_with_price};
use crate::harness::system;

/// Proves the part of K13 that the price is the catalog's, also while an index has an older one.
#[test]
fn a_stale_index_does_not_set_the_price() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    // Once it is frozen, an index repeats its last answer to each query.
    let (stopped, known) = (Arc::<AtomicBool>::default(), Mutex::new(BTreeMap::new()));
    let is_stopped = Arc::clone(&stopped);
    store.rewrite_pages(move |query, page| {
        if query.index.is_none() {
            return page;
        }
        let mut known = known.lock().expect("no panic");
        let last = known.entry(format!("{query:?}")).or_insert_with(|| page.clone());
        if !is_stopped.load(Ordering::SeqCst) {
            last.clone_from(&page);
        }
        last.clone()
    });
    let server = TestServer::builder(system()).store(store, &clock).start();
    let (cook, mio) = (server.client_of_user("u_01", "u_01"), server.client_of_user("u_02", "u_02"));
    cook.post("/v1/profile", &json!({ "displayName": "Cook" })).expect_data(201);
    add_method(&mio, "tok_visa");
    let id = text(&cook.post("/v1/recipes", &json!({ "title": "Curry" })).expect_data(201), "recipeId").to_owned();
    let publish =
        |price: u64| cook.post(&format!("/v1/recipes/{id}/publish"), &json!({ "price": price })).expect_data(200);
    let buy = |amount: u64| {
        mio.with_header("idempotency-key", "k").post("/v1/purchases", &purchase_body_with_price(&id, &json!(amount)))
    };
    publish(300);
    buy(1).expect_problem(409, "price_changed");

    stopped.store(true, Ordering::SeqCst);
    publish(900);
    let answer = buy(300);
    answer.expect_problem(409, "price_changed");
    assert!(text(&answer.body, "detail").contains("900 JPY"));
    cook.send("POST", &format!("/v1/recipes/{id}/withdraw"), None);
    buy(900).expect_problem(404, "not_found");
    assert!(mio.get("/v1/purchases").list().is_empty());
}
