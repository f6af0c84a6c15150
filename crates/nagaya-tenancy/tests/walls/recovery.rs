//! Recovery of deletions that a crash has interrupted.

use nagaya_store::{Item, Value, Write};
use nagaya_tenancy::Nagaya;
use serde_json::json;

use crate::{
    common::{fields, tenant},
    fault_stores::{CrashPoint, crashing_at, memory},
    studio::{TABLE, count, inconsistencies, invoice, open, project, studio, task, team},
};

/// A process crashes at each of its writes in turn, before or after it: recovery completes the deletion.
///
/// Proves the reference part of C13.
#[tokio::test]
async fn a_crash_at_any_write_is_recovered_completely() {
    for ends in [CrashPoint::Before, CrashPoint::After] {
        for writes in 1.. {
            let store = memory();
            let nagaya = open(&store).await;
            let t1 = tenant(&nagaya, "t1");
            team(&t1, "a").await;
            for id in ["p", "q", "r"] {
                project(&t1, "a", id).await;
                for at in 0..60 {
                    task(&t1, id, &format!("task-{id}-{at}")).await;
                }
            }
            let (process, ended) = crashing_at(&store, ends, writes);
            let crashed = Nagaya::open(studio(), process.clone());
            let answer = tenant(&crashed, "t1").delete("team", &["a"], None).await;
            if ended.hits() == 0 {
                answer.expect("nothing was in its way");
                assert!(writes > 5, "{writes} writes");
                break;
            }
            // Half a deletion is not visible: no existing item refers to what is left of the team.
            let found = t1.get("team", &["a"]).await;
            if found.is_err() {
                let new = fields(json!({ "teamId": "a", "projectId": "s", "name": "s" }));
                assert_eq!(t1.create("project", new).await.expect_err("nothing to refer to").code(), "no_reference");
                let change = t1.update("team", &["a"], fields(json!({ "name": "b" })), None).await;
                assert_eq!(change.expect_err("it cannot be changed").code(), "not_found");
            } else {
                assert_eq!((count(&store, "PROJECT#").await, count(&store, "TASK#").await), (3, 180));
            }
            let again = Nagaya::open(studio(), store.clone());
            if writes % 2 == 0 {
                again.recover_deletions().await.expect("it is ended");
            } else if found.is_err() {
                // The next deletion recovers it too.
                let code = tenant(&again, "t1").delete("team", &["a"], None).await.map_err(|error| error.code());
                assert!(matches!(code, Ok(()) | Err("not_found")), "{code:?}");
            }
            assert_eq!(inconsistencies(&store).await, [""; 0], "{ends:?} {writes}");
            let is_kept = t1.get("team", &["a"]).await.is_ok();
            assert_eq!(is_kept, found.is_ok(), "what has begun is finished: {ends:?} {writes}");
            let left = (count(&store, "PROJECT#").await, count(&store, "TASK#").await, count(&store, "%unique").await);
            assert_eq!(left, if is_kept { (3, 180, 184) } else { (0, 0, 0) }, "{ends:?} {writes}");
            assert_eq!(again.recover_deletions().await.expect("there is nothing to do"), 0);
        }
    }
}

/// The same where the deletion turns out to be forbidden only after it has started: all marks are removed.
#[tokio::test]
async fn a_crash_while_marks_are_removed_leaves_none() {
    for ends in [CrashPoint::Before, CrashPoint::After] {
        for writes in 1.. {
            let store = memory();
            let nagaya = open(&store).await;
            let t1 = tenant(&nagaya, "t1");
            team(&t1, "a").await;
            for id in ["p", "q", "r"] {
                project(&t1, "a", id).await;
            }
            // The first process marks the team, and crashes before it reads further.
            let first = Nagaya::open(studio(), crashing_at(&store, CrashPoint::After, 1).0);
            tenant(&first, "t1").delete("team", &["a"], None).await.expect_err("it has ended");
            invoice(&t1, "q", "i").await;
            // The second one finds the mark, and what forbids the deletion.
            let (process, ended) = crashing_at(&store, ends, writes);
            let second = Nagaya::open(studio(), process.clone());
            let answer = second.recover_deletions().await;
            if ended.hits() == 0 {
                assert_eq!(answer.expect("it is ended"), 1);
                assert!(writes > 3, "{writes} writes");
                assert_eq!(inconsistencies(&store).await, [""; 0]);
                break;
            }
            Nagaya::open(studio(), store.clone()).recover_deletions().await.expect("it is ended");
            assert_eq!(inconsistencies(&store).await, [""; 0], "{ends:?} {writes}");
            assert!(t1.get("team", &["a"]).await.is_ok());
            assert_eq!(count(&store, "PROJECT#").await, 3);
        }
    }
}

/// The record of a deletion does nothing by itself: without the mark on the item it is discarded.
#[tokio::test]
async fn a_forged_deletion_record_deletes_nothing() {
    let store = memory();
    let nagaya = open(&store).await;
    let t1 = tenant(&nagaya, "t1");
    team(&t1, "a").await;
    project(&t1, "a", "p").await;
    for phase in ["marking", "removing", "returning"] {
        let note = Item::new()
            .with("PK", "%deleting")
            .with("SK", phase)
            .with("%entity", "team")
            .with("%key", Value::List(vec!["TENANT#t1".into(), "TEAM#a".into()]))
            .with("%at", 0)
            .with("%user", "somebody")
            .with("%tenant", "t1")
            .with("%phase", phase);
        store.write(Write::put(TABLE, note).into()).await.expect("it is planted");
    }
    assert_eq!(nagaya.recover_deletions().await.expect("they are dropped"), 3);
    assert!(t1.get("team", &["a"]).await.is_ok());
    assert!(t1.get("project", &["p"]).await.is_ok());
    assert_eq!(inconsistencies(&store).await, [""; 0]);
}
