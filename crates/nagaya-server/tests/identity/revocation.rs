//! Revoked tokens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_server::{
    Issuer, LocalIssuer, Revocation, RevocationFollower, RevocationStore, Revocations, RevokedSubject, Verifier,
};
use nagaya_store::Error as StoreError;
use nagaya_tenancy::Nagaya;
use nagaya_testing::{Call, Fault, InstrumentedStore, LogLines, ManualClock, memory_store, system_design};
use serde_json::json;

use crate::common::{AUDIENCE, Key, NOW, Provider, TestClock, claims, eventually, issue, outcome, verifier};

const FINE: &str = "u1@t1 admin";
const REVOKED: &str = "401 bad_token: The token has been revoked.";

fn token(id: &str) -> RevokedSubject {
    RevokedSubject::Token(id.to_owned())
}

fn user(issuer: &str) -> RevokedSubject {
    RevokedSubject::User { issuer: issuer.to_owned(), id: "u1".to_owned() }
}

fn tenant(name: &str) -> RevokedSubject {
    RevokedSubject::Tenant(name.to_owned())
}

fn before(subject: RevokedSubject, issued_before: i64) -> Revocation {
    Revocation { subject, issued_before }
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once_also_from_the_cache() {
    let (key, hand) = (Key::es256("a"), TestClock::new());
    let provider = Provider::start(&[&key]).await;
    let list = Arc::new(Revocations::default());
    let verifier = verifier(&provider.issuer(), &hand).revocations(&list);
    let token_of = |id: &str, issued: i64| key.sign(&provider.claims_with(json!({ "jti": id, "iat": issued })));
    let (one, other, newer) = (token_of("j-1", NOW - 60), token_of("j-2", NOW - 60), token_of("j-3", NOW));
    let all = async || {
        let mut all = Vec::new();
        for token in [&one, &other, &newer] {
            all.push(outcome(&verifier, token).await == FINE);
            assert_eq!(outcome(&verifier, token).await, if all.last() == Some(&true) { FINE } else { REVOKED });
        }
        all
    };
    assert_eq!(all().await, [true, true, true]);
    list.replace([before(token("j-1"), NOW)]);
    assert_eq!(all().await, [false, true, true]);
    for subject in [user(&provider.url()), tenant("t1")] {
        list.replace([before(subject, NOW)]);
        assert_eq!(all().await, [false, false, true]);
    }
    // Another issuer's user of the same name, and another tenant.
    list.replace([before(user("local"), NOW), before(tenant("t2"), NOW)]);
    assert_eq!(all().await, [true, true, true]);
}

/// Checks that two stores of the same list see what either writes, and that entries go when they are not needed.
async fn check_store(one: &RevocationStore, other: &RevocationStore) {
    let keep = |entry: &Revocation| entry.issued_before > 10;
    assert_eq!(one.list().await.expect("a list"), []);
    one.add(before(token("j/1 長"), 100), keep).await.expect("it is written");
    one.add(before(tenant("t1"), 5), keep).await.expect("it is written");
    other.add(before(user("local"), 90), keep).await.expect("it is written");
    let both = [before(token("j/1 長"), 100), before(user("local"), 90)];
    assert_eq!(one.list().await.expect("a list"), both);
    // The later time stays.
    other.add(before(token("j/1 長"), 50), keep).await.expect("it is written");
    assert_eq!(one.list().await.expect("a list"), both);
    one.add(before(user("local"), 95), keep).await.expect("it is written");
    let both = [before(token("j/1 長"), 100), before(user("local"), 95)];
    assert_eq!(other.list().await.expect("a list"), both);
    let many = (0..20).map(|at| {
        let store = if at % 2 == 0 { one.clone() } else { other.clone() };
        tokio::spawn(async move { store.add(before(tenant(&format!("t{at}")), 1_000), keep).await })
    });
    for adding in many.collect::<Vec<_>>() {
        adding.await.expect("no panic").expect("it is written");
    }
    assert_eq!(one.list().await.expect("a list").len(), 22);
}

#[tokio::test]
async fn processes_on_one_directory_share_a_list_for_each_system() {
    let data = tempfile::tempdir().expect("a directory");
    let open = |system: &str| RevocationStore::in_directory(data.path(), system).expect("a directory");
    check_store(&open("todo"), &open("todo")).await;
    assert_eq!(open("kondate").list().await.expect("a list"), [], "another system has another list");
    open("kondate").add(before(tenant("t1"), 1), |_| true).await.expect("it is written");
    assert_eq!(open("todo").list().await.expect("a list").len(), 22);
    // A list that cannot be read is no empty list.
    for text in ["", "{}", r#"{"systems":{"todo":[{}]}}"#] {
        std::fs::write(data.path().join("issuer/revocations.json"), text).expect("it can be written");
        let error = open("todo").list().await.expect_err("it is damaged").to_string();
        assert!(error.contains("revocations.json is damaged") && error.contains("accepted again"), "{error}");
    }
}

#[tokio::test]
async fn processes_on_the_same_tables_share_a_list() {
    for design in ["todo/todo", "aiagent/multi"] {
        let store = memory_store(&ManualClock::default());
        let open = || Nagaya::open(system_design(design), Arc::clone(&store));
        open().ensure_tables().await.expect("the tables are made");
        check_store(&RevocationStore::in_tables(&open()), &RevocationStore::in_tables(&open())).await;
    }
}

#[tokio::test]
async fn a_running_server_follows_the_list() {
    let (data, hand) = (tempfile::tempdir().expect("a directory"), TestClock::new());
    let local = Arc::new(LocalIssuer::open(data.path()).expect("keys can be made").with_clock(hand.clock()));
    let store = RevocationStore::in_directory(data.path(), AUDIENCE).expect("a directory");
    let list = Arc::new(Revocations::default());
    let verifier = Verifier::new(claims(), hand.clock())
        .trust(&Issuer::local(&local), AUDIENCE)
        .expect("one issuer")
        .revocations(&list);
    let day = Some(Duration::from_secs(86_400));
    let follower = RevocationFollower::start(Arc::clone(&list), store.clone(), hand.clock(), day).await;
    let following = tokio::spawn(follower.expect("the list is read").follow());
    let token = issue(&local);
    assert_eq!(outcome(&verifier, &token).await, FINE);
    // A command, in another process.
    let command = RevocationStore::in_directory(data.path(), AUDIENCE).expect("a directory");
    command.add(before(user("local"), NOW + 1), |_| true).await.expect("it is written");
    eventually(|| list.len() == 1).await;
    assert!(!list.is_empty());
    assert_eq!(outcome(&verifier, &token).await, REVOKED);
    // When no token of it can be valid any more, the entry is not in force any more.
    hand.pass(86_400 + 32);
    eventually(|| list.is_empty()).await;
    drop((verifier, list));
    tokio::time::timeout(Duration::from_secs(30), following).await.expect("it ends").expect("no panic");
}

/// A store of revocations in tables, and the calls and faults of these.
async fn instrumented() -> (RevocationStore, Arc<InstrumentedStore>) {
    let tables = InstrumentedStore::new(memory_store(&ManualClock::default()));
    let nagaya = Nagaya::open(system_design("todo/todo"), tables.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    (RevocationStore::in_tables(&nagaya), tables)
}

fn all(_: &Revocation) -> bool {
    true
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_at_the_start_and_then_not_too_often() {
    let (store, tables) = instrumented().await;
    store.add(before(user("local"), NOW), all).await.expect("it is written");
    tables.take_queries();
    let (list, day) = (Arc::new(Revocations::default()), Some(Duration::from_secs(86_400)));
    let start = || RevocationFollower::start(Arc::clone(&list), store.clone(), TestClock::new().clock(), day);
    let follower = start().await.expect("the list is read");
    assert_eq!(list.len(), 1);

    let queries = || tables.take_queries().len();
    let each = queries();
    assert!(each > 0);
    let after = async |millis: u64| {
        tokio::time::advance(Duration::from_millis(millis)).await;
        follower.refresh().await;
        queries() / each
    };
    let read = [after(0).await, after(0).await, after(1_999).await, after(1).await, after(1_999).await, after(1).await];
    assert_eq!(read, [1, 0, 0, 1, 0, 1]);

    let follower = start().await.expect("the list is read");
    queries();
    let mut following = Box::pin(follower.follow());
    assert!(tokio::time::timeout(Duration::from_millis(3_999), &mut following).await.is_err());
    assert_eq!(queries(), 0, "it was just read");
    assert!(tokio::time::timeout(Duration::from_secs(8), &mut following).await.is_err());
    assert_eq!(queries() / each, 2);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_list_is_logged_once() {
    let (log, _guard) = LogLines::capture("info");
    let (store, tables) = instrumented().await;
    store.add(before(user("local"), NOW), all).await.expect("it is written");
    let list = Arc::new(Revocations::default());
    let follower = RevocationFollower::start(Arc::clone(&list), store, TestClock::new().clock(), None).await;
    let follower = follower.expect("the list is read");
    let refresh = async || {
        tokio::time::advance(Duration::from_secs(4)).await;
        follower.refresh().await;
        ["newly revoked tokens are accepted until", "the list of revoked tokens can be read again"]
            .map(|message| log.count(message))
    };
    assert_eq!(refresh().await, [0, 0]);
    for outage in [1, 2] {
        let fault = tables.inject(Fault::fail_before(|| StoreError::engine("the disk is gone")));
        assert_eq!(refresh().await, [outage, outage - 1]);
        assert_eq!(refresh().await, [outage, outage - 1]);
        assert_eq!(list.len(), 1, "the list before stays in force");
        fault.remove();
        assert_eq!(refresh().await, [outage, outage]);
        assert_eq!(refresh().await, [outage, outage]);
    }
}

#[tokio::test]
async fn a_revocation_is_added_again_after_a_lost_race_and_the_later_time_stays() {
    let (store, tables) = instrumented().await;
    let other = store.clone();
    let first = tables.inject(
        Fault::run_before(move |_| {
            let other = other.clone();
            async move { other.add(before(tenant("t1"), 200), all).await.expect("it is written") }
        })
        .matching(Call::is_write)
        .once(),
    );
    store.add(before(tenant("t1"), 100), all).await.expect("it is written");
    assert_eq!((first.hits(), store.list().await.expect("a list")), (1, vec![before(tenant("t1"), 200)]));
}

#[tokio::test(start_paused = true)]
async fn a_revocation_that_cannot_be_added_is_an_error() {
    let (store, tables) = instrumented().await;
    let fault = tables.inject(Fault::fail_before(|| StoreError::engine("the disk is gone")).matching(Call::is_write));
    let error = store.add(before(tenant("t1"), 100), all).await.expect_err("the disk is gone").to_string();
    assert!(error.contains("cannot be written") && error.contains("the disk is gone"), "{error}");
    assert_eq!(fault.hits(), 1, "it is not tried again");
    fault.remove();
    // Each time somebody else was faster.
    let (other, count) = (store.clone(), Arc::new(AtomicI64::new(0)));
    let is_other = Arc::new(AtomicBool::new(false));
    let faster = {
        let is_other = Arc::clone(&is_other);
        Fault::run_before(move |_| {
            let (other, count, is_other) = (other.clone(), Arc::clone(&count), Arc::clone(&is_other));
            async move {
                if !is_other.swap(true, Ordering::SeqCst) {
                    let at = count.fetch_add(1, Ordering::SeqCst);
                    assert!(at < 100, "it is tried for ever");
                    other.add(before(tenant("t1"), 1_000 + at), all).await.expect("it is written");
                    is_other.store(false, Ordering::SeqCst);
                }
            }
        })
    };
    tables.inject(faster.matching(Call::is_write));
    store.add(before(tenant("t1"), 100), all).await.expect_err("all attempts are used up");
}

#[tokio::test]
async fn entries_that_are_not_needed_are_removed_once_and_an_error_of_that_is_told() {
    let (store, tables) = instrumented().await;
    let keep = |entry: &Revocation| entry.issued_before > 10;
    store.add(before(tenant("t1"), 5), all).await.expect("it is written");
    // Another process removes it first.
    let other = store.clone();
    let removal = Fault::run_before(move |_| {
        let other = other.clone();
        async move { other.add(before(tenant("t3"), 100), keep).await.expect("it is written") }
    });
    let raced = tables.inject(removal.matching(Call::is_write).skip(1).once());
    store.add(before(tenant("t2"), 100), keep).await.expect("it is written");
    assert_eq!((raced.hits(), store.list().await.expect("a list").len()), (1, 2));

    store.add(before(tenant("t1"), 5), all).await.expect("it is written");
    tables.inject(Fault::fail_before(|| StoreError::engine("the disk is gone")).matching(Call::is_write).skip(1));
    store.add(before(tenant("t2"), 100), keep).await.expect_err("the disk is gone");
}
