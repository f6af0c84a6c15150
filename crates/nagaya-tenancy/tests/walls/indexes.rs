//! Index attributes agree with the fields after every write.

use std::sync::Arc;

use nagaya_design::{Design, check};
use nagaya_store::{Item, Scan, Store as _, Value as Stored};
use nagaya_tenancy::{Nagaya, Tenant};
use nagaya_testing::InstrumentedStore;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{
    common::{fields, tenant},
    fault_stores::logged,
};

/// Sparse indexes by presence, by value and by both, an index that two entities overload, an attribute of two indexes, and
/// an entity without a version.
const DESIGN: &str = r##"
name    = "desk"
version = "1.0"

[tenant]
field = "team"

[table.main]
name       = "main"
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]
index.GSI2 = ["GSI2PK", "GSI2SK"]
index.GSI3 = ["GSI1PK", "GSI3SK"]

[entity.task]
table   = "main"
key     = { PK = "TEAM#{team}", SK = "TASK#{id}" }
index.GSI1 = { GSI1PK = "TEAM#{team}#STATUS#{status}", GSI1SK = "TASK#{due}#{id}", when = "exists due" }
index.GSI2 = { GSI2PK = "TEAM#{team}#BY#{place.room}#{owner}", GSI2SK = "TASK#{rank:05}#{id}", when = "status != 'done' and exists owner" }
index.GSI3 = { GSI1PK = "TEAM#{team}#STATUS#{status}", GSI3SK = "RANK#{rank:05}#{id}", when = "rank > 2" }

[entity.task.fields]
team   = { type = "string", max = 20 }
id     = { type = "string", max = 20 }
status = { type = "string", one_of = ["open", "waiting", "done"], default = "open" }
due    = { type = "date", optional = true }
owner  = { type = "string", min = 1, max = 20, optional = true }
rank   = { type = "integer", min = 0, max = 99999, default = 0 }
title  = { type = "string", max = 50, optional = true }

[entity.task.fields.place]
type    = "map"

[entity.task.fields.place.fields]
room  = { type = "string", min = 1, max = 20 }
shelf = { type = "string", max = 20, optional = true }

[entity.note]
table   = "main"
key     = { PK = "TEAM#{team}", SK = "NOTE#{id}" }
version = "version"
index.GSI1 = { GSI1PK = "TEAM#{team}#STATUS#{status}", GSI1SK = "NOTE#{id}", when = "pinned = true" }

[entity.note.fields]
team   = { type = "string", max = 20 }
id     = { type = "string", max = 20 }
status = { type = "string", one_of = ["open", "waiting", "done"], default = "open" }
pinned = { type = "boolean", default = false }
"##;

fn desk() -> Design {
    let checked = check(DESIGN, &[]);
    checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics))
}

/// A design on a store in memory, and a second handle on the store.
async fn open(design: &Design) -> (Nagaya, Arc<InstrumentedStore>) {
    let store = logged();
    let nagaya = Nagaya::open(design.clone(), store.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    (nagaya, store)
}

/// A write.
#[derive(Debug, Clone)]
enum Step {
    Create(&'static str, usize, Map<String, Value>),
    Update(&'static str, usize, Map<String, Value>),
    Delete(&'static str, usize),
}

/// Fields of a task, each set, removed or left out.
fn task_patch() -> impl Strategy<Value = Map<String, Value>> {
    let status = prop_oneof![Just(json!("open")), Just(json!("waiting")), Just(json!("done"))];
    let due = prop_oneof![Just(json!("2026-01-31")), Just(json!("2026-02-01")), Just(Value::Null)];
    let owner = prop_oneof![Just(json!("a#b")), Just(json!("a")), Just(Value::Null)];
    let place = prop_oneof![
        Just(json!({ "room": "r%1" })),
        Just(json!({ "room": "r2", "shelf": "s" })),
        Just(json!({ "shelf": null }))
    ];
    let rank = (0_i64..6).prop_map(|rank| json!(rank));
    let title = prop_oneof![Just(json!("t")), Just(Value::Null)];
    let some = |strategy: BoxedStrategy<Value>| proptest::option::weighted(0.35, strategy);
    (
        some(status.boxed()),
        some(due.boxed()),
        some(owner.boxed()),
        some(place.boxed()),
        some(rank.boxed()),
        some(title.boxed()),
    )
        .prop_map(|(status, due, owner, place, rank, title)| {
            let all = [
                ("status", status),
                ("due", due),
                ("owner", owner),
                ("place", place),
                ("rank", rank),
                ("title", title),
            ];
            all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
        })
}

fn note_patch() -> impl Strategy<Value = Map<String, Value>> {
    let status = proptest::option::of(prop_oneof![Just(json!("open")), Just(json!("done")), Just(Value::Null)]);
    let pinned = proptest::option::of(any::<bool>().prop_map(Value::from));
    (status, pinned).prop_map(|(status, pinned)| {
        let all = [("status", status), ("pinned", pinned)];
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..3_usize;
    prop_oneof![
        1 => (which.clone(), task_patch()).prop_map(|(at, fields)| Step::Create("task", at, fields)),
        1 => (which.clone(), note_patch()).prop_map(|(at, fields)| Step::Create("note", at, fields)),
        4 => (which.clone(), task_patch()).prop_map(|(at, patch)| Step::Update("task", at, patch)),
        2 => (which.clone(), note_patch()).prop_map(|(at, patch)| Step::Update("note", at, patch)),
        1 => (which, prop_oneof![Just("task"), Just("note")]).prop_map(|(at, entity)| Step::Delete(entity, at)),
    ]
}

/// Performs a step; it may be refused.
async fn perform(tenant: &Tenant, step: Step) {
    let _ = match step {
        Step::Create(entity, at, mut fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.insert("id".to_owned(), json!(at.to_string()));
            if entity == "task" && fields.get("place").and_then(|place| place.get("room")).is_none() {
                fields.insert("place".to_owned(), json!({ "room": "r" }));
            }
            tenant.create(entity, fields).await.map(drop)
        }
        Step::Update(entity, at, patch) => tenant.update(entity, &[&at.to_string()], patch, None).await.map(drop),
        Step::Delete(entity, at) => tenant.delete(entity, &[&at.to_string()], None).await,
    };
}

/// Every stored item has the index attributes that its fields give, and no others.
async fn assert_derived(design: &Design, store: &InstrumentedStore) -> Vec<Item> {
    let page = store.scan(Scan::table("main")).await.expect("a scan");
    assert!(page.next.is_none());
    for item in &page.items {
        let sort = item.get("SK").and_then(Stored::as_str).expect("a sort key");
        let entity = design.entity(if sort.starts_with("TASK#") { "task" } else { "note" }).expect("declared above");
        let fields: Map<String, Value> = item.iter().map(|(name, value)| (name.to_owned(), json_of(value))).collect();
        let derived = design.derived_attributes(entity, &fields);
        for index in ["PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK", "GSI3SK"] {
            let expected = derived.iter().find(|(name, _)| name == index);
            let expected = expected.and_then(|(_, value)| value.clone().expect("the fields fit"));
            let found = item.get(index).and_then(Stored::as_str);
            assert_eq!(found, expected.as_deref(), "{index} of {item:?}");
        }
    }
    page.items
}

fn json_of(value: &Stored) -> Value {
    match value {
        Stored::String(text) => json!(text.as_str()),
        Stored::Boolean(truth) => json!(truth),
        Stored::Number(number) => json!(i64::try_from(*number).expect("whole numbers only")),
        Stored::Map(values) => values.iter().map(|(name, value)| (name.clone(), json_of(value))).collect(),
        other => panic!("{other:?} is none of this design's"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Proves the write part of A4 and T3: what an index shows is never stale.
    #[test]
    fn index_attributes_agree_with_the_fields_after_any_writes(steps in proptest::collection::vec(step(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let design = desk();
            let (nagaya, store) = open(&design).await;
            let team = tenant(&nagaya, "te#am");
            for step in steps {
                perform(&team, step).await;
                assert_derived(&design, &store).await;
            }
        });
    }
}

/// Two writers of different fields of an item without a version: the second starts from the result of the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_changes_of_different_fields_never_mix_in_an_index_key() {
    let design = desk();
    let (nagaya, store) = open(&design).await;
    let team = Arc::new(tenant(&nagaya, "team"));
    let new = json!({ "id": "1", "owner": "a", "due": "2026-01-01", "rank": 5, "place": { "room": "r" } });
    team.create("task", fields(new)).await.expect("a task");
    let patches: Vec<fn(usize) -> Value> = vec![
        |n| json!({ "status": if n.is_multiple_of(2) { "open" } else { "waiting" } }),
        |n| json!({ "due": format!("2026-01-{:02}", 1 + n % 20) }),
        |n| json!({ "owner": if n.is_multiple_of(3) { Value::Null } else { json!(format!("o{n}")) } }),
        |n| json!({ "rank": n % 7 }),
        |n| json!({ "place": { "room": format!("r{n}") } }),
    ];
    let writers = patches.into_iter().map(|patch| {
        let team = Arc::clone(&team);
        tokio::spawn(async move {
            for n in 0..30 {
                match team.update("task", &["1"], fields(patch(n)), None).await {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.code(), "contended", "{error}"),
                }
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        assert_eq!(assert_derived(&design, &store).await.len(), 1);
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.expect("it ends");
    }
    assert_derived(&design, &store).await;
}

#[tokio::test]
async fn a_required_field_cannot_be_removed() {
    let (nagaya, _) = open(&desk()).await;
    let team = tenant(&nagaya, "team");
    team.create("task", fields(json!({ "id": "1", "place": { "room": "r" } }))).await.expect("a task");
    for patch in [
        json!({ "status": null }),
        json!({ "rank": null }),
        json!({ "place": { "room": null } }),
        json!({ "place": null }),
    ] {
        let refused = team.update("task", &["1"], fields(patch), None).await.expect_err("it is required");
        assert_eq!(refused.code(), "invalid");
    }
}
