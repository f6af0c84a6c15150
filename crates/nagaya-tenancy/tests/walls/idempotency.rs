//! Idempotency keys, and updates that expect the record that was read.

use std::sync::Arc;

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Store, Value as Stored};
use nagaya_tenancy::{ErrorKind, Expected, List, Nagaya, Principal, Record, Tenant};
use nagaya_testing::{ManualClock, parse_design};
use serde_json::json;

use crate::{
    common::{design, fields, open, tenant},
    fault_stores::{all, memory, one_partition},
    time::{NOON, options, settings},
};

async fn create(tenant: &Tenant, key: &str, name: &str) -> Result<Record, nagaya_tenancy::Error> {
    let agent = fields(json!({ "name": name }));
    let set = tenant.change_set().create("agent", agent).idempotent(key, name.as_bytes());
    Ok(set.commit().await?.remove(0).expect("a created item"))
}

async fn agents(tenant: &Tenant) -> usize {
    tenant.list(&List::by("agents")).await.expect("a page").records.len()
}

/// Proves the record part of T8.
#[tokio::test]
async fn an_idempotency_key_gives_the_same_results_until_it_expires() {
    for system in ["aiagent/single", "aiagent/multi"] {
        let clock = ManualClock::at(NOON);
        let store = EmbeddedStore::in_memory(options(&clock)).expect("memory");
        let nagaya = Nagaya::open_with(design(system), store, settings(&clock));
        nagaya.ensure_tables().await.expect("the tables are made");
        let t1 = tenant(&nagaya, "t1");
        let first = create(&t1, "k", "a").await.expect("an agent");

        // The same answer, and not what was changed or deleted since.
        assert_eq!(create(&t1, "k", "a").await.expect("the same"), first);
        t1.update("agent", &[&first.id()[0]], fields(json!({ "name": "b" })), None).await.expect("a change");
        let refused = create(&t1, "k", "a").await.expect_err("it is another now");
        assert!(matches!(refused.kind(), ErrorKind::ResultChanged(id) if *id == first.id()[0]), "{refused}");
        assert_eq!(agents(&t1).await, 1);
        t1.delete("agent", &[&first.id()[0]], None).await.expect("it goes");
        let refused = create(&t1, "k", "a").await.expect_err("it is deleted");
        assert!(matches!(refused.kind(), ErrorKind::ResultDeleted), "{refused}");
        assert_eq!(agents(&t1).await, 0);

        // Another request with the same key.
        let refused = create(&t1, "k", "other").await.expect_err("it is used");
        assert!(matches!(refused.kind(), ErrorKind::IdempotencyKeyReused), "{refused}");

        // After a day the key is free.
        clock.set(NOON + 24 * 3_600_000 - 1);
        let refused = create(&t1, "k", "a").await.expect_err("the key is remembered");
        assert!(matches!(refused.kind(), ErrorKind::ResultDeleted), "{refused}");
        clock.set(NOON + 24 * 3_600_000);
        assert_ne!(create(&t1, "k", "other").await.expect("a new agent").id(), first.id());
        assert_eq!(agents(&t1).await, 1);
    }
}

/// The same key of another user or tenant is a different key.
#[tokio::test]
async fn an_idempotency_key_belongs_to_its_user() {
    let nagaya = open(design("aiagent/single")).await;
    let first = create(&tenant(&nagaya, "t1"), "k", "a").await.expect("an agent");
    for (tenant, user) in [("t1", "u-2"), ("t2", "u-1"), ("t10", "u-1")] {
        let other = nagaya.tenant(&Principal::new(tenant, user)).expect("a tenant");
        let made = create(&other, "k", "another").await.expect("their own");
        assert_ne!(made.id(), first.id(), "{tenant} {user}");
    }
    // Two issuers may give one id to different people.
    let namesake = Principal { issuer: Some("https://elsewhere.example".into()), ..Principal::new("t1", "u-1") };
    let other = nagaya.tenant(&namesake).expect("a tenant");
    assert_ne!(create(&other, "k", "a").await.expect("their own").id(), first.id());
}

/// Proves the race part of T8.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_with_one_key_run_once_and_share_the_result() {
    let nagaya = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    for round in 0..20 {
        let key = round.to_string();
        // Half of the rounds use an id of the caller, which the second create conflicts with.
        let id = (round % 2 == 0).then(|| format!("agent-{round}"));
        let ask = |_| {
            let (t1, key, id) = (t1.clone(), key.clone(), id.clone());
            tokio::spawn(async move {
                let mut agent = fields(json!({ "name": "a" }));
                id.into_iter().for_each(|id| drop(agent.insert("agentId".to_owned(), id.into())));
                t1.change_set().create("agent", agent).idempotent(&key, b"a").commit().await
            })
        };
        let requests: Vec<_> = (0..8).map(ask).collect();
        let mut ids = std::collections::BTreeSet::new();
        for answer in requests {
            let record = answer.await.expect("it ends").expect("the same for all").remove(0).expect("an agent");
            ids.insert(record.id());
        }
        assert_eq!(ids.len(), 1, "round {round}");
        assert_eq!(agents(&t1).await, round + 1);
    }
}

/// Proves the race part of T9.
#[tokio::test]
async fn a_record_that_was_read_can_be_expected_also_without_a_version() {
    let nagaya = open(design("todo/todo")).await;
    let f1 = tenant(&nagaya, "f1");
    let ulid = "01KG9S5Q60T4N2Y8ZC3M7VXR1E";
    let todo = json!({
        "title": "milk", "lastEventId": ulid, "version": 1, "updatedAt": "2026-01-31T09:30:00.000Z",
    });
    let read = f1.create("todo", fields(todo)).await.expect("a todo");
    assert_eq!(read.version(), None, "its version is a field of its own");
    let id = read.id();
    let change = |title: &str| fields(json!({ "title": title }));

    // Another field changes meanwhile: the item differs from the one that was read.
    f1.update("todo", &[&id[0]], fields(json!({ "completed": true })), None).await.expect("a change");
    for refused in [
        f1.update("todo", &[&id[0]], change("bread"), &read).await.map(drop),
        f1.delete("todo", &[&id[0]], &read).await,
    ] {
        let refused = refused.expect_err("it has changed");
        let ErrorKind::VersionConflict { current } = refused.kind() else { panic!("{refused}") };
        assert_eq!(current.get("completed"), Some(&true.into()));
    }
    let read = f1.get("todo", &[&id[0]]).await.expect("a todo");
    let read = f1.update("todo", &[&id[0]], change("bread"), &read).await.expect("it is the one that was read");
    f1.delete("todo", &[&id[0]], Expected::from(&read)).await.expect("and again");
}

/// A table with expiry, another one, and one without.
const SHOPS: &str = r##"
name    = "shops"
version = "1.0"

[tenant]
field = "shop"

[table.first]
name = "first"
key  = ["PK", "SK"]
ttl  = "gone"

[table.last]
name = "last"
key  = ["PK", "SK"]
ttl  = "gone"

[table.plain]
name = "plain"
key  = ["PK", "SK"]

[entity.cart]
table = "first"
key   = { PK = "SHOP#{shop}", SK = "CART#{id}" }

[entity.cart.fields]
shop = { type = "string", max = 20 }
id   = { type = "string", max = 40, default = "new" }
gone = { type = "timestamp", precision = "epoch", optional = true }

[entity.visit]
table = "last"
key   = { PK = "SHOP#{shop}", SK = "VISIT#{id}" }

[entity.visit.fields]
shop = { type = "string", max = 20 }
id   = { type = "string", max = 40, default = "new" }
gone = { type = "timestamp", precision = "epoch", optional = true }

[entity.order]
table       = "plain"
key         = { PK = "SHOP#{shop}", SK = "ORDER#{id}" }
soft_delete = { at = "voidedAt" }

[entity.order.fields]
shop     = { type = "string", max = 20 }
id       = { type = "string", max = 40, default = "new" }
buyer    = { type = "string", max = 40, optional = true }
voidedAt = { type = "timestamp", optional = true }
"##;

/// It expires with its key in a table with expiry. A store whose write sets have one partition cannot write it to another table.
#[tokio::test]
async fn the_record_of_a_key_is_in_a_table_with_expiry_where_possible() {
    for (limited, entity, table) in [
        (false, "cart", "first"),
        (false, "visit", "last"),
        (false, "order", "first"),
        (true, "cart", "first"),
        (true, "visit", "last"),
        (true, "order", "plain"),
    ] {
        let store = memory();
        let used = if limited { one_partition(&store) as Arc<dyn Store> } else { Arc::clone(&store) };
        let clock = ManualClock::at(NOON);
        let nagaya = Nagaya::open_with(parse_design(SHOPS), used, settings(&clock));
        nagaya.ensure_tables().await.expect("the tables are made");
        let s1 = tenant(&nagaya, "s1");
        let create = || s1.change_set().create(entity, fields(json!({}))).idempotent("k", b"r").commit();
        let first = create().await.expect("it is new");
        assert_eq!(create().await.expect("the same"), first);
        for other in ["first", "last", "plain"] {
            let records: Vec<_> =
                all(&store, other).await.into_iter().filter(|item| item.get("%results").is_some()).collect();
            assert_eq!(records.len(), usize::from(other == table), "{limited} {entity} {other}");
            let expiry = (other != "plain").then(|| Stored::from(NOON / 1_000 + 24 * 3_600));
            assert!(records.iter().all(|record| record.get("gone") == expiry.as_ref()), "{records:?}");
        }
    }
}

#[tokio::test]
async fn a_key_in_a_table_without_expiry_is_free_after_its_time() {
    let (store, clock) = (memory(), ManualClock::at(NOON));
    let nagaya = Nagaya::open_with(parse_design(SHOPS), one_partition(&store), settings(&clock));
    nagaya.ensure_tables().await.expect("the tables are made");
    let s1 = tenant(&nagaya, "s1");
    let create = || s1.change_set().create("order", fields(json!({}))).idempotent("k", b"r").commit();
    let first = create().await.expect("it is new");
    clock.set(NOON + 24 * 3_600_000 - 1);
    assert_eq!(create().await.expect("the key is remembered"), first);
    clock.set(NOON + 24 * 3_600_000);
    assert_ne!(create().await.expect("another order"), first);
}

#[tokio::test]
async fn the_record_of_a_key_has_no_data_and_a_soft_deleted_result_is_gone() {
    let store = memory();
    let nagaya = Nagaya::open(parse_design(SHOPS), Arc::clone(&store));
    nagaya.ensure_tables().await.expect("the tables are made");
    let s1 = tenant(&nagaya, "s1");
    let order = || fields(json!({ "id": "o-1", "buyer": "Hanako" }));
    let create = || s1.change_set().create("order", order()).idempotent("k", b"r").commit();
    create().await.expect("it is new");
    let shown = format!("{:?}", all(&store, "first").await);
    assert!(shown.contains("o-1") && !shown.contains("Hanako"), "{shown}");
    s1.delete("order", &["o-1"], None).await.expect("it goes");
    assert_eq!(create().await.expect_err("it is deleted").code(), "result_deleted");
}
