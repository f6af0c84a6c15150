//! A store whose indexes stop hearing of changes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use nagaya_store::{
    Answer, Capabilities, Changes, From, Item, Key, Page, Query, Scan, Store, TableSpec, WriteSet, Written,
};
use nagaya_testing::{House, Time, memory, runtime, text};
use serde_json::json;

use super::{add, seen};
use crate::house::system;

/// A store whose indexes say again what they said, once they are stopped.
struct Stale {
    store: Arc<dyn Store>,
    stopped: Arc<AtomicBool>,
    said: Arc<Mutex<BTreeMap<String, Page>>>,
}

impl Store for Stale {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        self.store.ensure(tables)
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        self.store.get(table, key)
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        self.store.batch_get(keys)
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        if query.index.is_none() {
            return self.store.query(query);
        }
        Box::pin(async move {
            let asked = format!("{query:?}");
            let said = self.said.lock().expect("nobody panics with it").get(&asked).cloned();
            match said.filter(|_| self.stopped.load(Ordering::SeqCst)) {
                Some(said) => Ok(said),
                None => {
                    let page = self.store.query(query).await?;
                    self.said.lock().expect("nobody panics with it").insert(asked, page.clone());
                    Ok(page)
                }
            }
        })
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        self.store.scan(scan)
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        self.store.write(set)
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        self.store.changes(table, from, limit)
    }
}

/// Proves the part of K13 that the price is the catalog's, also while an index has an older one.
#[test]
fn nothing_is_bought_at_a_price_that_an_index_remembers() {
    let (time, stopped) = (Time::default(), Arc::<AtomicBool>::default());
    let store = Stale { store: memory(&time), stopped: Arc::clone(&stopped), said: Arc::default() };
    let house = House::serve_on(runtime(), system(), Arc::new(store), time);
    let (cook, mio) = (house.user("u_01", "u_01"), house.user("u_02", "u_02"));
    cook.post("/v1/profile", &json!({ "displayName": "Cook" })).data(201);
    add(&mio, "tok_visa");
    let id = text(&cook.post("/v1/recipes", &json!({ "title": "Curry" })).data(201), "recipeId").to_owned();
    let publish = |price: u64| cook.post(&format!("/v1/recipes/{id}/publish"), &json!({ "price": price })).data(200);
    let buy = |amount: u64| mio.with("idempotency-key", "k").post("/v1/purchases", &seen(&id, &json!(amount)));
    publish(300);
    buy(1).problem(409, "price_changed");

    stopped.store(true, Ordering::SeqCst);
    publish(900);
    let answer = buy(300);
    answer.problem(409, "price_changed");
    assert!(text(&answer.body, "detail").contains("900 JPY"));
    cook.send("POST", &format!("/v1/recipes/{id}/withdraw"), None);
    buy(900).problem(404, "not_found");
    assert!(mio.get("/v1/purchases").list().is_empty());
}
