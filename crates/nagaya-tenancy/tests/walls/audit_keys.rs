//! Servers and commands with different keys of the operator log.

use std::sync::{Arc, Mutex};

use nagaya_store::Store;
use nagaya_tenancy::{Error, ErrorKind, KeySet, List, Nagaya, SecretKey, Settings};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock};

use crate::{
    common::design,
    fault_stores::{CrashPoint, all, crashing_at, memory},
    log_chain::{Log, TABLE, act, found, operator, server},
    time::NOON,
};

fn expect_unknown_key<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.expect_err("the key is unknown");
    assert!(matches!(error.kind(), ErrorKind::UnknownAuditKey { .. }), "{error:?}");
    for remedy in ["NAGAYA_AUDIT_KEY", "FORMER,NEW", "--new-keys"] {
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

/// Proves A10.
#[tokio::test]
async fn a_process_with_another_key_is_refused_and_writes_nothing() {
    for (name, access, table) in [("todo/todo", "todos_active", TABLE), ("aiagent/single", "audits", "aiagent-app")] {
        for one_partition in [false, true] {
            let store = InstrumentedStore::new(memory());
            if one_partition {
                store.declare_one_partition_per_set();
            }
            let store: Arc<dyn Store> = store;
            let open = |key: SecretKey| {
                let settings = Settings { audit_keys: key.into(), ..Settings::default() };
                Nagaya::open_with(design(name), Arc::clone(&store), settings)
            };
            let read = async |nagaya: &Nagaya| {
                let within = operator(nagaya).as_tenant("f-1").expect("a tenant");
                within.list(&List::by(access)).await
            };
            let (ours, other) = (open([1; 32]), open([9; 32]));
            ours.ensure_tables().await.expect("the tables are made");
            read(&ours).await.expect("a page");
            let before = all(&store, table).await;
            expect_unknown_key(other.check_audit_key().await);
            expect_unknown_key(read(&other).await);
            expect_unknown_key(operator(&other).read_log(0, i64::MAX, None).await);
            expect_unknown_key(operator(&other).verify_log(None).await);
            assert_eq!(all(&store, table).await, before, "{name} {one_partition}");
            ours.check_audit_key().await.expect("its own key");
            read(&ours).await.expect("a page");
            let report = operator(&ours).verify_log(None).await.expect("a report");
            assert_eq!((found(&report), report.entries), (vec![], 3), "{name} {one_partition}");
        }
    }
}

/// The key file was rotated, and another server has written with the new key.
#[tokio::test]
async fn a_key_that_is_new_is_asked_for_however_short_ago_the_keys_were() {
    let log = Log::open().await;
    log.act(1).await;
    let file = Arc::new(Mutex::new(vec![[1; 32]]));
    let source = Arc::clone(&file);
    let audit_keys = KeySet::reloaded(vec![[1; 32]], move || Some(source.lock().expect("no panic").clone()));
    let settings = Settings { audit_keys, clock: log.clock.clock(), ..Settings::default() };
    let running = Nagaya::open_with(design("todo/todo"), Arc::clone(&log.store), settings);
    for newest in 2..20 {
        let keys = [newest, newest - 1];
        *file.lock().expect("no panic") = keys.map(|key| [key; 32]).to_vec();
        act(&server(&log.store, &log.clock, &keys)).await;
        act(&running).await;
    }
    let all_keys: Vec<_> = (1..20).rev().collect();
    let report = operator(&server(&log.store, &log.clock, &all_keys)).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.entries), (vec![], 38));
}

#[tokio::test]
async fn a_rotation_in_two_steps_refuses_nobody() {
    let log = Log::on(memory(), ManualClock::at(NOON)).await;
    let with = |keys: &[u8]| server(&log.store, &log.clock, keys);
    for (restarted, not_yet) in [([1, 2].as_slice(), [1].as_slice()), (&[2, 1], &[1, 2])] {
        for server in [with(not_yet), with(restarted), with(not_yet), with(restarted)] {
            act(&server).await;
        }
    }
    let report = operator(&with(&[2, 1])).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.entries), (vec![], 9));
    // In one step, the servers that were not restarted yet are refused.
    expect_unknown_key(operator(&with(&[1])).verify_log(None).await);
}

#[tokio::test]
async fn a_log_whose_key_is_lost_goes_on_where_an_operator_says_so() {
    for one_partition in [false, true] {
        let log = Log::open().await;
        log.act(2).await;
        assert!(!operator(&log.nagaya).continue_log().await.expect("a log"), "its key is known");
        let store = InstrumentedStore::new(Arc::clone(&log.store));
        if one_partition {
            store.declare_one_partition_per_set();
        }
        let store: Arc<dyn Store> = store;
        let next = server(&store, &log.clock, &[9]);
        assert!(operator(&next).continue_log().await.expect("a log"), "{one_partition}");
        assert!(!operator(&next).continue_log().await.expect("a log"), "{one_partition}");
        act(&next).await;
        let report = operator(&next).verify_log(None).await.expect("a report");
        assert_eq!(found(&report), ["unknownKey 1×1", "unknownKey 2×1", "headChanged 3×1"], "{one_partition}");
        let entries = operator(&next).read_log(0, i64::MAX, None).await.expect("a page").entries;
        assert_eq!(entries[2].action, "audit.continue");
    }
}

/// A writer has ended when the head held its entry, and before it was stored. Its key is lost.
#[tokio::test]
async fn a_log_that_goes_on_keeps_the_entry_that_is_in_its_head_only() {
    let log = Log::open().await;
    let (crashing, _) = crashing_at(&log.store, CrashPoint::After, 1);
    crashing.declare_one_partition_per_set();
    let crashing = server(&(crashing as Arc<dyn Store>), &log.clock, &[1]);
    operator(&crashing).as_tenant("f-1").expect("a tenant").list(&List::by("todos_active")).await.expect_err("ended");
    assert!(all(&log.store, TABLE).await.iter().all(|item| item.get("%action").is_none()), "it is in the head only");
    let store = InstrumentedStore::new(Arc::clone(&log.store));
    store.declare_one_partition_per_set();
    let next = server(&(store as Arc<dyn Store>), &log.clock, &[9]);
    assert!(operator(&next).continue_log().await.expect("a log"));
    let report = operator(&next).verify_log(None).await.expect("a report");
    assert_eq!(found(&report), ["unknownKey 1×1", "headChanged 2×1"]);
}

/// Whoever loses the race has written nothing, and is told so.
#[tokio::test]
async fn of_two_operators_who_continue_a_log_one_does() {
    for one_partition in [false, true] {
        let log = Log::open().await;
        log.act(1).await;
        let store = InstrumentedStore::new(Arc::clone(&log.store));
        if one_partition {
            store.declare_one_partition_per_set();
        }
        let faster = server(&log.store, &log.clock, &[9]);
        let goes_first = move |_: &Call| {
            let faster = faster.clone();
            async move { assert!(operator(&faster).continue_log().await.expect("a log")) }
        };
        store.inject(Fault::run_before(goes_first).matching(Call::is_write).once());
        let slower = server(&(store as Arc<dyn Store>), &log.clock, &[9]);
        let error = operator(&slower).continue_log().await.expect_err("the other one was faster");
        assert_eq!(error.code(), "contended", "{one_partition}");
        let report = operator(&slower).verify_log(None).await.expect("a report");
        assert_eq!(
            (found(&report), report.entries),
            (vec!["unknownKey 1×1".to_owned(), "headChanged 2×1".to_owned()], 3)
        );
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_not_continued() {
    let log = Log::open().await;
    log.act(1).await;
    let store = InstrumentedStore::new(Arc::clone(&log.store));
    let nagaya = server(&(store.clone() as Arc<dyn Store>), &log.clock, &[1]);
    let is_get = |call: &Call| matches!(call, Call::Get(..));
    store.inject(Fault::fail_before(|| nagaya_store::Error::engine("the disk failed")).matching(is_get).once());
    let error = operator(&nagaya).continue_log().await.expect_err("the store fails");
    assert!(matches!(error.kind(), ErrorKind::Store(_)), "{error:?}");
    let report = log.verify().await;
    assert_eq!((found(&report), report.entries), (vec![], 2));
}
