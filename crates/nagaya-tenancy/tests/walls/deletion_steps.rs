//! The steps of a deletion: pages, write sets, and what a store cannot do at once.

use std::sync::Arc;

use nagaya_store::{Error, ErrorKind, FailedCondition, Key, SortCondition, Store, Update, Write};
use nagaya_tenancy::{Nagaya, Principal, Settings, Tenant};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, parse_design};
use serde_json::json;

use crate::{
    common::{fields, tenant},
    fault_stores::{logged, meanwhile, memory, one_partition, updates},
    studio::{TABLE, count, inconsistencies, invoice, open, project, studio, task, team},
    time::NOON,
};

/// Boxes of shelves, things in boxes, and holds that keep a box; all found by filters.
const DEPOT: &str = r##"
name    = "depot"
version = "1.0"

[tenant]
field = "tenantId"

[table.app]
name = "depot"
key  = ["PK", "SK"]

[entity.shelf]
table = "app"
key   = { PK = "TENANT#{tenantId}", SK = "SHELF#{shelfId}" }

[entity.shelf.fields]
tenantId = { type = "string", max = 20 }
shelfId  = { type = "string", max = 20 }

[entity.box]
table = "app"
key   = { PK = "TENANT#{tenantId}", SK = "BOX#{boxId}" }

[entity.box.fields]
tenantId = { type = "string", max = 20 }
boxId    = { type = "string", max = 20 }
shelfId  = { type = "string", max = 20, references = { entity = "shelf", on_delete = "cascade" } }

[entity.thing]
table = "app"
key   = { PK = "TENANT#{tenantId}", SK = "THING#{thingId}" }

[entity.thing.fields]
tenantId = { type = "string", max = 20 }
thingId  = { type = "string", max = 20 }
boxId    = { type = "string", max = 20, references = { entity = "box", on_delete = "cascade" } }

[entity.hold]
table = "app"
key   = { PK = "TENANT#{tenantId}", SK = "HOLD#{holdId}" }

[entity.hold.fields]
tenantId = { type = "string", max = 20 }
holdId   = { type = "string", max = 20 }
boxId    = { type = "string", max = 20, references = { entity = "box" } }

[access.boxes_of_shelf]
entity = "box"
filter = "shelfId = {shelfId}"

[access.things_of_box]
entity = "thing"
filter = "boxId = {boxId}"

[access.holds_of_box]
entity = "hold"
filter = "boxId = {boxId}"
"##;

/// The first page of the boxes has none of the shelf.
#[tokio::test]
async fn a_deletion_reads_all_pages_of_what_refers_to_an_item() {
    let store = logged();
    let nagaya = Nagaya::open(parse_design(DEPOT), Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let t1 = tenant(&nagaya, "t1");
    let create = async |entity: &str, item| t1.create(entity, fields(item)).await.expect("it is new");
    for shelf in ["full", "s"] {
        create("shelf", json!({ "shelfId": shelf })).await;
    }
    for at in 0..110 {
        create("box", json!({ "boxId": format!("b{at:03}"), "shelfId": "full" })).await;
    }
    create("box", json!({ "boxId": "z", "shelfId": "s" })).await;
    create("thing", json!({ "thingId": "t", "boxId": "z" })).await;
    create("hold", json!({ "holdId": "h", "boxId": "z" })).await;

    store.take_queries();
    assert_eq!(t1.delete("shelf", &["s"], None).await.expect_err("the box is held").code(), "referenced");
    t1.get("box", &["z"]).await.expect("it is back");
    let of_things = SortCondition::BeginsWith("THING#".into());
    let read_things = store.take_queries().iter().filter(|query| query.sort == of_things).count();
    assert_eq!(read_things, 0, "nothing can refer to them");

    t1.delete("hold", &["h"], None).await.expect("it goes");
    t1.delete("shelf", &["s"], None).await.expect("it goes with the box");
    for (entity, id) in [("shelf", "s"), ("box", "z"), ("thing", "t")] {
        assert_eq!(t1.get(entity, &[id]).await.expect_err("it is gone").code(), "not_found");
    }
    t1.get("box", &["b109"]).await.expect("it is on another shelf");
}

async fn tasks(t: &Tenant, number: usize) {
    team(t, "a").await;
    project(t, "a", "p").await;
    for at in 0..number {
        task(t, "p", &format!("x{at}")).await;
    }
}

/// A task and the marker of its name are two writes, and the check of the mark is one.
#[tokio::test]
async fn a_write_set_deletes_49_tasks() {
    for (number, sets) in [(49, vec![99]), (50, vec![99, 3])] {
        let store = logged();
        let nagaya = open(&(Arc::clone(&store) as Arc<dyn Store>)).await;
        let t1 = tenant(&nagaya, "t1");
        tasks(&t1, number).await;
        store.take(Call::is_write);
        t1.delete("project", &["p"], None).await.expect("it goes");
        let of_tasks = |call: &Call| {
            call.writes().iter().any(|write| matches!(&write.action, nagaya_store::WriteAction::Delete { key } if key.sort.to_string().starts_with("TASK#")))
        };
        let written: Vec<_> = store.take(of_tasks).iter().map(|set| set.writes().len()).collect();
        assert_eq!(written, sets);
    }
}

/// Entries of the operator log need room in the sets too.
#[tokio::test]
async fn an_operator_deletes_more_than_a_write_set_holds() {
    let store = memory();
    let nagaya = open(&store).await;
    tasks(&tenant(&nagaya, "t1"), 110).await;
    let operator = nagaya.operator("ticket 4711: a move", &Principal::new("", "op-1"));
    let within = operator.as_tenant("t1").expect("a tenant");
    within.delete("team", &["a"], None).await.expect("it goes");
    assert_eq!((count(&store, "PROJECT#").await, count(&store, "TASK#").await), (0, 0));
    let report = operator.verify_log(None).await.expect("a report");
    assert_eq!((report.findings.len(), report.entries), (0, 113), "team, project, tasks, and the verification");
}

/// Something that is never gone: the rest is deleted, and the call ends.
#[tokio::test]
async fn a_deletion_that_never_finds_an_end_gives_up() {
    let inner = memory();
    let nagaya = open(&inner).await;
    tasks(&tenant(&nagaya, "t1"), 3).await;
    let task = inner.get(TABLE, &Key::new("TENANT#t1", "TASK#x0")).await.expect("a read").expect("a task");
    let ghost = ["SK", "GSI1SK"]
        .iter()
        .fold(task, |task, key| task.with(key, "TASK#ghost"))
        .with("taskId", "ghost")
        .with("name", "ghost");
    let store = InstrumentedStore::new(Arc::clone(&inner));
    store.rewrite_pages(move |query, mut page| {
        if query.partition == "TENANT#t1#PROJECT#p".into() {
            page.items.push(ghost.clone());
        }
        page
    });
    let haunted = Nagaya::open(studio(), Arc::clone(&store) as Arc<dyn Store>);
    let error = tenant(&haunted, "t1").delete("project", &["p"], None).await.expect_err("the ghost stays");
    assert_eq!(error.code(), "contended");
    assert_eq!(count(&inner, "TASK#").await, 0);
    nagaya.recover_deletions().await.expect("without the ghost it ends");
    assert_eq!(inconsistencies(&inner).await, [""; 0]);
    assert_eq!(count(&inner, "PROJECT#").await, 0);
}

#[tokio::test]
async fn a_store_whose_write_sets_have_one_partition_deletes_as_well() {
    let store = memory();
    let nagaya = open(&(one_partition(&store) as Arc<dyn Store>)).await;
    let t1 = tenant(&nagaya, "t1");
    tasks(&t1, 3).await;
    invoice(&t1, "p", "i").await;
    assert_eq!(t1.delete("team", &["a"], None).await.expect_err("an invoice").code(), "referenced");
    t1.delete("invoice", &["i"], None).await.expect("it is void");
    t1.delete("team", &["a"], None).await.expect("it goes");
    assert_eq!((count(&store, "PROJECT#").await, count(&store, "TASK#").await), (0, 0));
    assert_eq!(inconsistencies(&store).await, [""; 0]);
    assert_eq!(nagaya.recover_deletions().await.expect("there is nothing to do"), 0);
}

/// The record is written before the mark, which loses a race.
#[tokio::test]
async fn a_store_whose_write_sets_have_one_partition_deletes_what_changes_meanwhile() {
    let store = memory();
    let limited = one_partition(&store);
    let nagaya = open(&(Arc::clone(&limited) as Arc<dyn Store>)).await;
    let t1 = tenant(&nagaya, "t1");
    tasks(&t1, 3).await;
    let t = t1.clone();
    let late = meanwhile(&limited, updates("TEAM#a"), async move {
        t.update("team", &["a"], fields(json!({ "name": "new" })), None).await.expect("it has no mark");
    });
    t1.delete("team", &["a"], None).await.expect("it goes");
    assert_eq!(late.hits(), 1);
    assert_eq!((count(&store, "TEAM#").await, count(&store, "TASK#").await), (0, 0));
}

/// The invoice comes after the check, so the marks have to be removed.
#[tokio::test]
async fn a_store_whose_write_sets_have_one_partition_undoes_deletions_as_well() {
    let store = memory();
    let limited = one_partition(&store);
    let nagaya = open(&(Arc::clone(&limited) as Arc<dyn Store>)).await;
    let t1 = tenant(&nagaya, "t1");
    tasks(&t1, 3).await;
    let t = t1.clone();
    meanwhile(&limited, updates("PROJECT#p"), async move { invoice(&t, "p", "i").await });
    assert_eq!(t1.delete("team", &["a"], None).await.expect_err("an invoice").code(), "referenced");
    t1.get("project", &["p"]).await.expect("it is back");
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

/// Such a store writes the record of a deletion before the mark, so a mark without a record is one that nothing follows.
#[tokio::test]
async fn a_mark_without_a_record_is_removed_by_the_next_deletion() {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    tasks(&t1, 1).await;
    let mark = Update::new().set("%deleting", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    store.write(Write::update(TABLE, Key::new("TENANT#t1", "TEAM#a"), mark).into()).await.expect("planted");
    assert_eq!(t1.get("team", &["a"]).await.expect_err("it has a mark").code(), "not_found");
    t1.delete("team", &["a"], None).await.expect("it goes");
    assert_eq!((count(&store, "TEAM#").await, count(&store, "TASK#").await), (0, 0));
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

/// The mark may still follow its record for a minute.
#[tokio::test]
async fn a_record_without_a_mark_is_discarded_after_a_minute() {
    let (store, clock) = (memory(), ManualClock::at(NOON));
    tasks(&tenant(&open(&store).await, "t1"), 1).await;
    let process = |store: Arc<dyn Store>| {
        Nagaya::open_with(studio(), store, Settings { clock: clock.clock(), ..Settings::default() })
    };
    let limited = one_partition(&store);
    let ended = || Error::engine("the process has ended");
    limited.inject(Fault::fail_before(ended).matching(Call::is_write).skip(1));
    let crashing = process(limited);
    tenant(&crashing, "t1").delete("team", &["a"], None).await.expect_err("the process has ended");
    let nagaya = process(one_partition(&store));
    for (after, records) in [(0, 1), (60_000, 1), (60_001, 1), (60_001, 0)] {
        clock.set(NOON + after);
        assert_eq!(nagaya.recover_deletions().await.expect("it is ended"), records, "{after}");
    }
    assert_eq!((count(&store, "TEAM#").await, count(&store, "TASK#").await), (1, 1));
}

#[tokio::test]
async fn a_deletion_that_is_forbidden_writes_nothing() {
    let store = logged();
    let nagaya = open(&(Arc::clone(&store) as Arc<dyn Store>)).await;
    let t1 = tenant(&nagaya, "t1");
    tasks(&t1, 1).await;
    invoice(&t1, "p", "i").await;
    store.take_writes();
    for (entity, id) in [("project", "p"), ("team", "a")] {
        assert_eq!(t1.delete(entity, &[id], None).await.expect_err("an invoice").code(), "referenced");
        assert_eq!(store.take_writes(), [], "{entity}");
    }
}

/// Every write loses a race.
#[tokio::test]
async fn a_change_that_always_loses_gives_up_after_its_attempts() {
    let store = logged();
    let used = Arc::clone(&store) as Arc<dyn Store>;
    tasks(&tenant(&open(&used).await, "t1"), 1).await;
    let lost = || ErrorKind::ConditionFailed(vec![FailedCondition { action: 99, current: None }]).into();
    let races = store.inject(Fault::fail_before(lost).matching(Call::is_write));
    let endless = || Error::engine("it writes for ever");
    store.inject(Fault::fail_before(endless).matching(Call::is_write).skip(6));
    let nagaya = Nagaya::open_with(studio(), used, Settings { attempts: 3, ..Settings::default() });
    let t1 = tenant(&nagaya, "t1");
    let change = t1.update("project", &["p"], fields(json!({ "name": "new" })), None).await;
    assert_eq!((change.expect_err("it loses").code(), races.hits()), ("contended", 3));
    let deletion = t1.delete("team", &["a"], None).await;
    assert_eq!((deletion.expect_err("it loses").code(), races.hits()), ("contended", 6));
}

/// Both need the same project.
#[tokio::test]
async fn two_items_of_a_change_set_can_refer_to_one() {
    let nagaya = open(&memory()).await;
    let t1 = tenant(&nagaya, "t1");
    tasks(&t1, 0).await;
    let task = |id: &str| fields(json!({ "taskId": id, "projectId": "p", "name": id }));
    let set = t1.change_set().create("task", task("x")).create("task", task("y"));
    assert_eq!(set.commit().await.expect("they are new").len(), 2);
}
