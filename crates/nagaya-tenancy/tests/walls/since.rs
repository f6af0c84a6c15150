//! `since` fields: set when a condition begins to hold, kept while it holds, removed when it ends.

use std::sync::Arc;

use nagaya_design::check;
use nagaya_store::{Store, Value};
use nagaya_tenancy::{ErrorKind, List, Nagaya, Tenant};
use nagaya_testing::ManualClock;
use serde_json::{Value as Json, json};

use crate::{
    common::{fields, tenant},
    fault_stores::{all, memory},
    time::{NOON, settings},
};

const DESIGN: &str = r#"
name    = "chores"
version = "1.0"

[tenant]
field = "familyId"

[table.app]
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]

[entity.chore]
table       = "app"
key         = { PK = "FAMILY#{familyId}", SK = "CHORE#{choreId}" }
soft_delete = { field = "status", value = "gone" }
index.GSI1  = { GSI1PK = "FAMILY#{familyId}#DONE", GSI1SK = "{doneAt}#{choreId}", when = "exists doneAt" }

[entity.chore.fields]
familyId  = { type = "string", min = 1, max = 64 }
choreId   = { type = "string", min = 1, max = 64 }
status    = { type = "string", one_of = ["open", "done", "paid", "gone"], default = "open" }
title     = { type = "string", max = 100, optional = true }
doneAt    = { type = "timestamp", optional = true, since = "status in ('done', 'paid')" }
unnamedAt = { type = "timestamp", precision = "epoch", optional = true, since = "not exists title" }
updatedAt = { type = "timestamp", default = "now" }

[access.done]
entity = "chore"
index  = "GSI1"
"#;

/// A tenant with a clock that the test advances.
struct Family {
    clock: ManualClock,
    store: Arc<dyn Store>,
    f1: Tenant,
}

impl Family {
    async fn new() -> Self {
        let clock = ManualClock::at(NOON);
        let store = memory();
        let design = check(DESIGN, &[]).design.expect("the design is sound");
        let nagaya = Nagaya::open_with(design, store.clone(), settings(&clock));
        nagaya.ensure_tables().await.expect("the tables are made");
        Family { f1: tenant(&nagaya, "f1"), store, clock }
    }

    /// Changes the chore at this second; its two timestamps, in seconds.
    async fn change(&self, second: i64, patch: Json) -> [Option<i64>; 2] {
        self.clock.set(NOON + second * 1000);
        let changed = self.f1.update("chore", &["c1"], fields(patch), None).await.expect("a change");
        moments(&changed.to_json())
    }
}

/// Seconds after noon at which a chore was done and lost its title.
fn moments(chore: &serde_json::Map<String, Json>) -> [Option<i64>; 2] {
    let second = |at: &Json| {
        let at = at.as_str().and_then(|at| at.strip_prefix("2027-01-15T08:00:")?.strip_suffix('Z'));
        at.expect("an instant of that minute").parse().expect("seconds")
    };
    let unnamed = |at: &Json| at.as_i64().expect("seconds") - NOON / 1000;
    [chore.get("doneAt").map(second), chore.get("unnamedAt").map(unnamed)]
}

#[tokio::test]
async fn a_since_field_is_set_kept_and_removed_with_its_condition() {
    let family = Family::new().await;
    let made = family.f1.create("chore", fields(json!({ "choreId": "c1" }))).await.expect("a chore");
    assert_eq!(moments(&made.to_json()), [None, Some(0)], "a default counts, and so does what is not there");

    assert_eq!(family.change(1, json!({ "title": "Dishes" })).await, [None, None]);
    assert_eq!(family.change(2, json!({ "status": "done" })).await, [Some(2), None]);
    assert_eq!(family.change(3, json!({ "status": "done" })).await, [Some(2), None], "it was done before");
    assert_eq!(family.change(4, json!({ "status": "paid", "title": null })).await, [Some(2), Some(4)]);
    assert_eq!(family.change(5, json!({ "status": "open" })).await, [None, Some(4)]);
    assert_eq!(family.change(6, json!({ "status": "paid" })).await, [Some(6), Some(4)], "the condition holds again");

    let done = family.f1.list(&List::by("done")).await.expect("a page");
    assert_eq!(done.records.len(), 1, "indexes go by it in the same write");
    let born = fields(json!({ "choreId": "c2", "status": "done", "title": "Floor" }));
    let born = family.f1.create("chore", born).await.expect("a chore");
    assert_eq!(moments(&born.to_json()), [Some(6), None]);
}

#[tokio::test]
async fn a_caller_cannot_set_a_since_field_but_may_repeat_its_value() {
    let family = Family::new().await;
    let expected = "`doneAt` follows from `status in ('done', 'paid')`; leave it out";
    let given = json!({ "choreId": "c1", "status": "done", "doneAt": "2020-01-01T00:00:00Z" });
    let refused = family.f1.create("chore", fields(given)).await.expect_err("it is not theirs");
    assert_eq!(refused.to_string(), expected);
    let empty = json!({ "choreId": "c1", "status": "done", "doneAt": null });
    let made = family.f1.create("chore", fields(empty)).await.expect("nothing is given");
    let moment = made.text("doneAt").expect("a moment").to_owned();

    for (status, at) in [("done", json!("2020-01-01T00:00:00Z")), ("open", json!("soon")), ("done", json!(null))] {
        let patch = fields(json!({ "status": status, "doneAt": at, "title": 7 }));
        let refused = family.f1.update("chore", &["c1"], patch, None).await.expect_err("it is not theirs");
        let ErrorKind::Invalid(problems) = refused.kind() else { panic!("{refused}") };
        let paths: Vec<_> = problems.iter().map(|each| each.path.as_str()).collect();
        assert_eq!(paths, ["doneAt", "title"], "all errors are reported");
    }
    let same = family.f1.update("chore", &["c1"], fields(json!({ "doneAt": moment })), None).await.expect("no change");
    assert_eq!(same.text("doneAt"), Some(moment.as_str()));
}

#[tokio::test]
async fn a_soft_delete_ends_the_conditions_of_an_item() {
    let family = Family::new().await;
    let done = json!({ "choreId": "c1", "status": "done", "title": "Dishes" });
    family.f1.create("chore", fields(done)).await.expect("a chore");
    family.f1.delete("chore", &["c1"], None).await.expect("it is deleted");
    assert!(family.f1.list(&List::by("done")).await.expect("a page").records.is_empty());
    let kept = all(&family.store, "chores-app").await;
    let [kept] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!(kept.get("status").and_then(Value::as_str), Some("gone"));
    assert!(kept.get("doneAt").is_none() && kept.get("GSI1PK").is_none(), "{kept:?}");
}
