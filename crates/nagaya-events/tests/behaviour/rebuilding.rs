//! A projection is rebuilt beside the current one, checked, and switched to.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nagaya_events::ErrorKind;
use nagaya_store::{Item, Key, Write};

use crate::{
    app::{App, LIST_TABLE, create, id, rename},
    todo::Command,
};

/// Proves T12.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_rebuilt_beside_the_live_one_while_writes_go_on() {
    let app = Arc::new(App::new().await);
    for n in 1..=30 {
        app.execute_all(n, [create("a"), rename("b")]).await;
    }
    app.project_all().await;
    let (writing, done) = (Arc::clone(&app), Arc::new(AtomicBool::new(false)));
    let receive_until = Arc::clone(&done);
    let writer = tokio::spawn(async move {
        let mut number = 0;
        while !receive_until.load(Ordering::SeqCst) {
            writing.execute_all(1 + number % 30, [Command::Number(number)]).await;
            writing.execute_all(1_000 + number, [create("new")]).await;
            number += 1;
        }
        number
    });
    let (follower, receive_until) = (app.restarted(), Arc::clone(&done));
    let following = tokio::spawn(async move {
        while !receive_until.load(Ordering::SeqCst) {
            follower.processor().step().await.expect("a step");
        }
    });
    let mut reported = Vec::new();
    for generation in [2, 3] {
        let seen = std::sync::Mutex::new(Vec::new());
        let report = |progress| seen.lock().expect("no panic").push(progress);
        let verified = app.restarted().processor().rebuild(&report).await.expect("rebuilt");
        assert!(verified.is_consistent(), "{verified:#?}");
        assert_eq!(verified.generation, generation);
        assert_eq!(verified.expected.hash(), verified.found.hash());
        reported.push(seen.into_inner().expect("no panic").last().copied().expect("progress"));
    }
    done.store(true, Ordering::SeqCst);
    let written = writer.await.expect("no panic");
    following.await.expect("no panic");
    assert!(reported[0].aggregates >= 30 && reported[0].events >= 60, "{reported:?}");
    app.project_all().await;
    assert_eq!(app.listed().await.len() as u64, 30 + written);
    assert_eq!(app.processor().generations().await.expect("read").current, 3);
    app.assert_consistent("after two rebuilds").await;
}

/// Proves the part of T12 about events that are read page by page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_is_built_completely_when_its_events_span_pages() {
    let app = App::new().await;
    // Pages of 500 events: most end inside a todo, and one todo spans three of them.
    let (mut all, counts) = (0, [7, 90, 33, 61, 99, 1_300, 64, 98, 1, 97, 96, 95, 500, 499]);
    for (n, many) in (1..).zip(counts) {
        app.execute_all(n, [create("a")]).await;
        for at in (0..many).step_by(90) {
            app.execute_all(n, [Command::Many(90.min(many - at))]).await;
        }
        all += 1 + many;
    }
    let reported = std::sync::Mutex::new(None);
    let report = |progress| *reported.lock().expect("no panic") = Some(progress);
    let verified = app.processor().rebuild(&report).await.expect("rebuilt");
    assert!(verified.is_consistent(), "{verified:#?}");
    assert_eq!((verified.events, verified.aggregates, verified.found.items), (all, 14, 14));
    // The second pass, which compares each item, was not needed.
    assert!(!reported.into_inner().expect("no panic").expect("progress").checking);
    app.assert_consistent("after the rebuild").await;
}

/// Proves the rollback part of T12.
#[tokio::test]
async fn a_rollback_keeps_what_was_written_since_the_switch() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.project_all().await;
    assert!(app.processor().rebuild(&|_| {}).await.expect("rebuilt").is_consistent());
    app.execute_all(1, [rename("b")]).await;
    app.execute_all(2, [create("x"), Command::Complete(true)]).await;
    app.project_all().await;
    let expected = ["f1/1 b v2 active", "f1/2 x v2"];
    assert_eq!(app.listed().await, expected);
    assert_eq!(app.processor().roll_back().await.expect("rolled back"), 1);
    assert_eq!(app.listed().await, expected);
    // A second rollback returns to it, and a further rebuild gets a new number.
    assert_eq!(app.processor().roll_back().await.expect("rolled back again"), 2);
    assert_eq!(app.listed().await, expected);
    assert!(app.processor().rebuild(&|_| {}).await.expect("rebuilt").is_consistent());
    assert_eq!(app.processor().generations().await.expect("read").current, 3);
    app.assert_consistent("after all of it").await;
}

#[tokio::test]
async fn there_is_nothing_to_roll_back_to_before_the_first_switch() {
    let app = App::new().await;
    let error = app.processor().roll_back().await.expect_err("there is none");
    assert!(matches!(error.kind(), ErrorKind::Busy(_)), "{error}");
    assert_eq!(app.processor().abandon().await.expect("nothing to abandon"), None);
}

/// Proves the parked part of T12: an incomplete generation is not switched to.
#[tokio::test]
async fn a_rebuild_with_a_poison_event_does_not_switch_and_continues_after_a_fix() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("poison"), rename("b")]).await;
    app.execute_all(2, [create("x")]).await;
    app.project_all().await;
    let verified = app.processor().rebuild(&|_| {}).await.expect("built");
    assert_eq!((verified.is_consistent(), verified.parked), (false, 1));
    let generations = app.processor().generations().await.expect("read");
    assert_eq!((generations.current, generations.building), (1, Some(2)));
    // The new generation gets new events, but is not read.
    app.execute_all(2, [rename("y")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 y v2 active"]);

    // After a fix the same rebuild continues, and parked events are tried again.
    app.list.fix();
    let verified = app.processor().rebuild(&|_| {}).await.expect("built");
    assert!(verified.is_consistent(), "{verified:#?}");
    assert_eq!(app.listed().await, ["f1/1 b v3 active", "f1/2 y v2 active"]);
    app.assert_consistent("after the switch").await;
}

#[tokio::test]
async fn an_abandoned_rebuild_changes_nothing() {
    let app = App::new().await;
    app.execute_all(1, [create("poison")]).await;
    app.execute_all(2, [create("x")]).await;
    assert!(!app.processor().rebuild(&|_| {}).await.expect("built").is_consistent());
    assert_eq!(app.processor().abandon().await.expect("abandoned"), Some(2));
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/2 x v1 active"]);
    // The next one starts empty, with another number.
    app.list.fix();
    let verified = app.processor().rebuild(&|_| {}).await.expect("built");
    assert_eq!((verified.is_consistent(), verified.generation), (true, 3));
}

/// Proves the verification part of T12.
#[tokio::test]
async fn verification_finds_changed_missing_and_unexpected_items() {
    let app = App::new().await;
    for n in 1..=5 {
        app.execute_all(n, [create("a"), rename("b")]).await;
    }
    app.execute_all(5, [Command::Delete]).await;
    app.project_all().await;
    let key = |n| Key::new("FAMILY#f1", format!("TODO#{}", id(n)));
    let items = app.stored(LIST_TABLE).await;
    let item = |n: u64| -> Item {
        let sort = format!("TODO#{}", id(n));
        items
            .iter()
            .find(|item| item.get("SK").and_then(|value| value.as_str()) == Some(&sort))
            .expect("listed")
            .clone()
    };
    let as_another = |n| item(1).with("SK", format!("TODO#{}", id(n)).as_str()).with("todoId", id(n).as_str());
    let mut without_index = item(2);
    without_index.remove("GSI1PK");
    for (about, write, why, n) in [
        ("changed", Write::put(LIST_TABLE, item(2).with("title", "false")), "is not what its events give", 2),
        ("missing", Write::delete(LIST_TABLE, key(3)), "is missing", 3),
        ("back from the dead", Write::put(LIST_TABLE, as_another(5)), "should not be there", 5),
        ("stray", Write::put(LIST_TABLE, as_another(9)), "comes from no event", 9),
    ] {
        let house_before = app.processor().verify(None).await.expect("checked");
        assert!(house_before.is_consistent(), "before {about}");
        app.write_directly(write).await;
        let verified = app.processor().verify(None).await.expect("checked");
        assert!(!verified.is_consistent(), "{about}");
        let found: Vec<_> = verified.mismatches.iter().map(|wrong| (wrong.aggregate.clone(), wrong.why)).collect();
        assert_eq!(found, [(id(n), why)], "{about}");
        assert_eq!(verified.mismatch_count, 1);
        assert_ne!(verified.expected, verified.found, "{about}");
        // The other family has no mismatch.
        assert!(app.processor().verify(Some("f2")).await.expect("checked").is_consistent());
        assert!(!app.processor().verify(Some("f1")).await.expect("checked").is_consistent());
        app.processor().repair("f1", &|_| {}).await.expect("repaired");
    }
}

/// Proves the count-and-hash part of T12.
#[tokio::test]
async fn equal_events_give_equal_counts_and_hashes_and_others_do_not() {
    let hash = |title: &'static str| async move {
        let app = App::new().await;
        app.execute_all(1, [create(title)]).await;
        app.project_all().await;
        let verified = app.processor().verify(None).await.expect("checked");
        let event = app.recorded(1).await.remove(0);
        (verified.found.items, verified.found.hash().len(), verified.found.hash(), event.id)
    };
    let (one, other) = (hash("a").await, hash("b").await);
    assert_eq!((one.0, one.1, other.0), (1, 64, 1));
    assert_ne!(one.2, other.2);
    // A second rebuild of the same events has the same content.
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.project_all().await;
    let live = app.processor().verify(None).await.expect("checked").found;
    assert_eq!(app.processor().rebuild(&|_| {}).await.expect("rebuilt").found, live);
}
