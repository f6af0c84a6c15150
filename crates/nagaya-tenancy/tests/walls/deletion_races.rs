//! Deletions beside each other, and beside other writers of the same items.

use std::sync::Arc;

use nagaya_store::{Condition, Error, ErrorKind, FailedCondition, Key, Store, Update, Write};
use nagaya_tenancy::{Nagaya, Settings};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock};
use serde_json::json;

use crate::{
    common::{fields, tenant},
    fault_stores::{CrashPoint, crashing_at, deletes, meanwhile, memory, updates},
    studio::{TABLE, count, inconsistencies, invoice, open, project, studio, task, team, text},
    time::NOON,
};

/// Another process on this store.
fn process(store: &Arc<InstrumentedStore>) -> Nagaya {
    Nagaya::open(studio(), Arc::clone(store) as Arc<dyn Store>)
}

/// Begins a deletion at this second, in a process that crashes after so many writes.
async fn begin_deletion(store: &Arc<dyn Store>, second: i64, (entity, id): (&str, &str), writes: u64) {
    let (crashing, crashed) = crashing_at(store, CrashPoint::After, writes);
    let clock = ManualClock::at(NOON + second * 1_000);
    let settings = Settings { clock: clock.clock(), ..Settings::default() };
    let nagaya = Nagaya::open_with(studio(), crashing, settings);
    tenant(&nagaya, "t1").delete(entity, &[id], None).await.expect_err("the process has ended");
    assert_eq!(crashed.hits(), 1);
}

/// Team a with project p and task x of tenant t1.
async fn small_studio() -> (Arc<dyn Store>, Nagaya) {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    project(&t1, "a", "p").await;
    task(&t1, "p", "x").await;
    (store, nagaya)
}

async fn left(store: &Arc<dyn Store>) -> [usize; 3] {
    [count(store, "TEAM#").await, count(store, "PROJECT#").await, count(store, "TASK#").await]
}

#[tokio::test]
async fn a_deletion_finishes_another_one_that_it_meets() {
    let (store, nagaya) = small_studio().await;
    begin_deletion(&store, 0, ("team", "a"), 1).await;
    begin_deletion(&store, 1, ("project", "p"), 1).await;
    // That of the team comes first.
    assert_eq!(nagaya.recover_deletions().await.expect("both are ended"), 2);
    assert_eq!(left(&store).await, [0, 0, 0]);
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

/// One of them gives way.
#[tokio::test]
async fn two_deletions_that_meet_in_a_circle_both_end() {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    t1.create("folder", fields(json!({ "folderId": "f1" }))).await.expect("a folder");
    t1.create("folder", fields(json!({ "folderId": "f2", "parentId": "f1" }))).await.expect("a folder");
    t1.update("folder", &["f1"], fields(json!({ "parentId": "f2" })), None).await.expect("a circle");
    begin_deletion(&store, 0, ("folder", "f1"), 1).await;
    begin_deletion(&store, 1, ("folder", "f2"), 1).await;
    assert_eq!(nagaya.recover_deletions().await.expect("both are ended"), 2);
    assert_eq!(count(&store, "FOLDER#").await, 0);
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

/// An item keeps the mark of one deletion while another one goes on: the first may still remove it.
#[tokio::test]
async fn a_deletion_marks_what_another_one_had_marked() {
    let (store, nagaya) = small_studio().await;
    let t1 = tenant(&nagaya, "t1");
    // The deletion of the project finds an invoice after its mark, and ends before it removes the mark.
    let (first, _) = crashing_at(&store, CrashPoint::After, 2);
    let t = t1.clone();
    meanwhile(&first, updates("PROJECT#p"), async move { invoice(&t, "p", "i").await });
    tenant(&process(&first), "t1").delete("project", &["p"], None).await.expect_err("the process has ended");
    t1.delete("invoice", &["i"], None).await.expect("it is void");
    let at = Key::new("TENANT#t1", "PROJECT#p");
    let marked = store.get(TABLE, &at).await.expect("a read").expect("a project");
    let of_first = Condition::equal("%deleting", text(&marked, "%deleting").expect("a mark"));

    let second = InstrumentedStore::new(Arc::clone(&store));
    let (unmark, inner) = (Write::update(TABLE, at, Update::new().remove("%deleting")).when(of_first), store.clone());
    let late = meanwhile(&second, deletes("PROJECT#p"), async move {
        let removed = inner.write(unmark.into()).await;
        assert!(removed.expect_err("it has another mark").is_conflict());
        let new = t1.create("invoice", fields(json!({ "invoiceId": "j", "projectId": "p" }))).await;
        assert_eq!(new.expect_err("the project goes").code(), "no_reference");
    });
    tenant(&process(&second), "t1").delete("team", &["a"], None).await.expect("it goes");
    assert_eq!(late.hits(), 1);
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}

/// A deletion whose mark loses a race marks the item as it is then, and does not begin anew.
#[tokio::test]
async fn an_item_that_changes_before_its_mark_is_marked() {
    let mut queries = Vec::new();
    for changes in [false, true] {
        let (store, nagaya) = small_studio().await;
        let t1 = tenant(&nagaya, "t1");
        let second = InstrumentedStore::new(Arc::clone(&store));
        if changes {
            let t = t1.clone();
            meanwhile(&second, updates("PROJECT#p"), async move {
                t.update("project", &["p"], fields(json!({ "name": "new" })), None).await.expect("no mark yet");
            });
        }
        let late = meanwhile(&second, deletes("PROJECT#p"), async move {
            let new = t1.create("invoice", fields(json!({ "invoiceId": "i", "projectId": "p" }))).await;
            assert_eq!(new.expect_err("the project goes").code(), "no_reference");
        });
        tenant(&process(&second), "t1").delete("team", &["a"], None).await.expect("it goes");
        assert_eq!(late.hits(), 1);
        assert_eq!((left(&store).await, inconsistencies(&store).await), ([0, 0, 0], vec![]));
        queries.push(second.take_queries().len());
    }
    assert_eq!(queries[0], queries[1]);
}

/// Another process finds that the deletion is forbidden, and ends it or crashes in the middle of that. What the first process marks
/// after that would stay marked.
#[tokio::test]
async fn a_process_marks_nothing_after_another_one_has_undone_the_deletion() {
    for writes in [3, 100] {
        let (store, nagaya) = small_studio().await;
        let t1 = tenant(&nagaya, "t1");
        let first = InstrumentedStore::new(Arc::clone(&store));
        let (other, _) = crashing_at(&store, CrashPoint::After, writes);
        meanwhile(&first, updates("PROJECT#p"), async move {
            invoice(&t1, "p", "i").await;
            let ended = process(&other).recover_deletions().await;
            assert_eq!(ended.is_ok(), writes == 100, "{ended:?}");
        });
        // No deletion takes so many writes.
        let endless = || Error::engine("it writes for ever");
        first.inject(Fault::fail_before(endless).matching(Call::is_write).skip(1_000));
        let refused = tenant(&process(&first), "t1").delete("team", &["a"], None).await.expect_err("an invoice");
        assert_eq!(refused.code(), "referenced", "{writes}: {refused}");
        assert_eq!((left(&store).await, inconsistencies(&store).await), ([1, 1, 1], vec![]), "{writes}");
        assert!(tenant(&nagaya, "t1").get("project", &["p"]).await.is_ok());
    }
}

#[tokio::test]
async fn a_deletion_that_another_process_finishes_has_happened() {
    let (store, nagaya) = small_studio().await;
    let first = InstrumentedStore::new(Arc::clone(&store));
    let other = nagaya.clone();
    meanwhile(&first, updates("PROJECT#p"), async move {
        assert_eq!(other.recover_deletions().await.expect("it is finished"), 1);
    });
    tenant(&process(&first), "t1").delete("team", &["a"], None).await.expect("this call has begun it");
    assert_eq!((left(&store).await, inconsistencies(&store).await), ([0, 0, 0], vec![]));
}

#[tokio::test]
async fn an_item_of_another_version_is_not_deleted_by_finishing_another_deletion() {
    let (store, nagaya) = small_studio().await;
    begin_deletion(&store, 0, ("team", "a"), 1).await;
    let refused = tenant(&nagaya, "t1").delete("team", &["a"], Some(7)).await.expect_err("another version");
    assert_eq!(refused.code(), "not_found");
    assert_eq!(left(&store).await, [1, 1, 1]);
    tenant(&nagaya, "t1").delete("team", &["a"], Some(1)).await.expect("the version is right");
    assert_eq!((left(&store).await, inconsistencies(&store).await), ([0, 0, 0], vec![]));
}

/// The set of several deletions fails, and then that of the project: both are tried again.
#[tokio::test]
async fn a_recovery_that_loses_races_finishes_the_deletion() {
    let (store, _) = small_studio().await;
    begin_deletion(&store, 0, ("team", "a"), 1).await;
    let second = InstrumentedStore::new(Arc::clone(&store));
    let lost = || ErrorKind::ConditionFailed(vec![FailedCondition { action: 0, current: None }]).into();
    let of_project = |call: &Call| call.writes().iter().any(deletes("PROJECT#p"));
    let races = [0, 1].map(|skip| second.inject(Fault::fail_before(lost).matching(of_project).skip(skip).once()));
    assert_eq!(process(&second).recover_deletions().await.expect("it is finished"), 1);
    assert_eq!(races.map(|race| race.hits()), [1, 1]);
    assert_eq!((left(&store).await, inconsistencies(&store).await), ([0, 0, 0], vec![]));
}

/// Another process ends the deletion, and somebody creates the items again: they are others.
#[tokio::test]
async fn items_that_are_created_again_during_a_deletion_stay() {
    let (store, nagaya) = small_studio().await;
    let t1 = tenant(&nagaya, "t1");
    begin_deletion(&store, 0, ("project", "p"), 1).await;
    let second = InstrumentedStore::new(Arc::clone(&store));
    let late = meanwhile(&second, deletes("TASK#x"), async move {
        nagaya.recover_deletions().await.expect("it is finished");
        project(&t1, "a", "p").await;
        task(&t1, "p", "x").await;
    });
    assert_eq!(process(&second).recover_deletions().await.expect("it is ended"), 1);
    assert_eq!(late.hits(), 1);
    assert_eq!((left(&store).await, inconsistencies(&store).await), ([1, 1, 1], vec![]));
}
