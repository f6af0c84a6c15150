//! Idempotency keys, and updates that expect the record that was read.

use nagaya_embedded::EmbeddedStore;
use nagaya_tenancy::{ErrorKind, Expected, List, Nagaya, Principal, Record, Tenant};
use nagaya_testing::ManualClock;
use serde_json::json;

use crate::{
    common::{design, fields, open, tenant},
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
