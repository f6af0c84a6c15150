//! Expiry, paging during writes, and restores to a past moment.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nagaya_embedded::{EmbeddedStore, Options, RestoreExtras};
use nagaya_tenancy::{List, Nagaya, Settings};
use nagaya_testing::ManualClock;
use serde_json::json;

use crate::common::{design, fields, open, tenant};

pub(crate) fn options(clock: &ManualClock) -> Options {
    Options { clock: clock.clock(), sweep_interval: None, ..Options::default() }
}

pub(crate) fn settings(clock: &ManualClock) -> Settings {
    Settings { clock: clock.clock(), audit_keys: [7; 32].into(), ..Settings::default() }
}

pub(crate) const NOON: i64 = 1_800_000_000_000;

#[tokio::test]
async fn an_expiry_that_has_passed_is_refused() {
    let clock = ManualClock::at(NOON);
    let store = EmbeddedStore::in_memory(options(&clock)).expect("memory");
    let nagaya = Nagaya::open_with(design("aiagent/single"), store, settings(&clock));
    nagaya.ensure_tables().await.expect("the tables are made");
    let t1 = tenant(&nagaya, "t1");
    let token = |until| fields(json!({ "tokenHash": "h", "purpose": "invitation", "expiresAt": until }));
    let refused = t1.create("token", token(NOON / 1000)).await.expect_err("it would be gone at once");
    assert_eq!(refused.to_string(), "`expiresAt` is in the past");
    let made = t1.create("token", token(NOON / 1000 + 1)).await.expect("a token");
    let patch = fields(json!({ "expiresAt": NOON / 1000 - 1 }));
    let refused = t1.update("token", &[&made.id()[0]], patch, None).await.expect_err("that is for deletion");
    assert_eq!(refused.to_string(), "`expiresAt` is in the past");
}

/// Proves A6.
#[tokio::test]
async fn sessions_and_tokens_are_never_returned_once_they_have_expired() {
    let clock = ManualClock::at(NOON);
    let store = EmbeddedStore::in_memory(options(&clock)).expect("memory");
    let nagaya = Nagaya::open_with(design("aiagent/single"), store, settings(&clock));
    nagaya.ensure_tables().await.expect("the tables are made");
    let t1 = tenant(&nagaya, "t1");
    let user = t1.create("user", fields(json!({ "email": "a@example.com", "name": "A" }))).await.expect("a user");
    let user = user.text("userId").expect("an id");
    let until = NOON / 1000 + 60;
    let session = json!({ "userId": user, "tokenHash": "h", "expiresAt": until });
    let token = json!({ "userId": user, "tokenHash": "h", "purpose": "invitation", "expiresAt": until });
    let session = t1.create("session", fields(session)).await.expect("a session");
    let token = t1.create("token", fields(token)).await.expect("a token");
    let lists = [List::by("sessions_of_user").with("userId", user), List::by("tokens_of_user").with("userId", user)];

    for (millis, there) in [(59_999, true), (60_000, false), (3_600_000, false)] {
        clock.set(NOON + millis);
        for record in [&session, &token] {
            let id = record.id();
            let found = t1.get(record.entity(), &[&id[0]]).await;
            assert_eq!(found.is_ok(), there, "{record:?} after {millis} ms");
        }
        for list in &lists {
            assert_eq!(t1.list(list).await.expect("a page").records.len(), usize::from(there), "{list:?}");
        }
    }
    let again = t1.update("session", &[&session.id()[0]], fields(json!({ "expiresAt": until + 3600 })), None).await;
    assert_eq!(again.expect_err("it is gone").code(), "not_found");
}

/// Proves A7.
#[tokio::test]
async fn a_directory_is_restored_to_any_moment_and_tables_declare_it() {
    let aiagent = design("aiagent/single");
    assert!(aiagent.tables.iter().all(|table| table.point_in_time && table.kms), "declared for each table");

    let (clock, directory) = (ManualClock::at(NOON), tempfile::tempdir().expect("a directory"));
    let open_at = |path: std::path::PathBuf| {
        let store = EmbeddedStore::open(path, options(&clock)).expect("the directory opens");
        Nagaya::open_with(aiagent.clone(), store, settings(&clock))
    };
    let data = directory.path().join("data");
    let nagaya = open_at(data.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    let t1 = tenant(&nagaya, "t1");
    let agent = t1.create("agent", fields(json!({ "agentId": "a1", "name": "0" }))).await.expect("an agent");
    for n in 1..5 {
        clock.set(NOON + n * 1000);
        let name = fields(json!({ "name": n.to_string() }));
        t1.update("agent", &["a1"], name, agent.version().map(|first| first + n - 1)).await.expect("a change");
    }
    drop((t1, nagaya));

    // A future moment cannot be restored.
    clock.set(NOON + 5_000);
    for n in 0..5 {
        let past = directory.path().join(format!("at-{n}"));
        let store = EmbeddedStore::open(&data, options(&clock)).expect("the directory opens");
        store
            .restore_at(NOON + n * 1000 + 500, &past, RestoreExtras::default(), &mut |_| {})
            .expect("it can be restored");
        drop(store);
        let found = tenant(&open_at(past), "t1").get("agent", &["a1"]).await.expect("it was there");
        assert_eq!(found.text("name"), Some(n.to_string().as_str()));
    }
}

/// Proves the cursor part of T7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_miss_and_repeat_no_item_while_others_write() {
    let nagaya = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    let agent = |id: String| fields(json!({ "agentId": id, "name": "A" }));
    for n in 0..200 {
        t1.create("agent", agent(format!("stays-{n:03}"))).await.expect("an agent");
    }
    let done = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (t1, done) = (t1.clone(), Arc::clone(&done));
        async move {
            for n in 0.. {
                if done.load(Ordering::SeqCst) {
                    return n;
                }
                // Before, between and after the items that stay.
                let ids = [format!("a-{n}"), format!("stays-{:03}x{n}", n * 37 % 200), format!("z-{n}")];
                for id in &ids {
                    t1.create("agent", agent(id.clone())).await.expect("an agent");
                }
                for id in &ids {
                    t1.delete("agent", &[id], None).await.expect("it goes");
                }
            }
            0
        }
    });
    for descending in [false, true] {
        for limit in [1, 7, 50] {
            let mut list = List::by("agents").limit(limit).descending(descending);
            let mut seen = Vec::new();
            loop {
                let page = t1.list(&list).await.expect("a page");
                seen.extend(page.records.iter().filter_map(|record| record.text("agentId").map(str::to_owned)));
                match page.next {
                    Some(next) => list = list.cursor(next),
                    None => break,
                }
            }
            let stayed: Vec<_> = seen.iter().filter(|id| id.starts_with("stays-") && !id.contains('x')).collect();
            let different: BTreeSet<_> = stayed.iter().collect();
            assert_eq!((stayed.len(), different.len()), (200, 200), "{limit} {descending}");
        }
    }
    done.store(true, Ordering::SeqCst);
    assert!(writer.await.expect("no panic") > 0, "nothing was written meanwhile");
}
