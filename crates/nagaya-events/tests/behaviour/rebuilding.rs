//! A projection is rebuilt beside the current one, checked, and switched to.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nagaya_events::ErrorKind;
use nagaya_store::{Item, Key, Write};

use crate::{
    house::{House, LIST, create, id, rename},
    todo::Command,
};

/// Proves T12.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_rebuilt_beside_the_live_one_while_writes_go_on() {
    let house = Arc::new(House::new().await);
    for n in 1..=30 {
        house.tell(n, [create("a"), rename("b")]).await;
    }
    house.settle().await;
    let (writing, done) = (Arc::clone(&house), Arc::new(AtomicBool::new(false)));
    let until = Arc::clone(&done);
    let writer = tokio::spawn(async move {
        let mut number = 0;
        while !until.load(Ordering::SeqCst) {
            writing.tell(1 + number % 30, [Command::Number(number)]).await;
            writing.tell(1_000 + number, [create("new")]).await;
            number += 1;
        }
        number
    });
    let (follower, until) = (house.again(), Arc::clone(&done));
    let following = tokio::spawn(async move {
        while !until.load(Ordering::SeqCst) {
            follower.processor().step().await.expect("a step");
        }
    });
    let mut told = Vec::new();
    for generation in [2, 3] {
        let seen = std::sync::Mutex::new(Vec::new());
        let tell = |progress| seen.lock().expect("nobody panics with it").push(progress);
        let verified = house.again().processor().rebuild(&tell).await.expect("rebuilt");
        assert!(verified.holds(), "{verified:#?}");
        assert_eq!(verified.generation, generation);
        assert_eq!(verified.expected.hash(), verified.found.hash());
        told.push(seen.into_inner().expect("nobody panics with it").last().copied().expect("progress"));
    }
    done.store(true, Ordering::SeqCst);
    let written = writer.await.expect("no panic");
    following.await.expect("no panic");
    assert!(told[0].aggregates >= 30 && told[0].events >= 60, "{told:?}");
    house.settle().await;
    assert_eq!(house.listed().await.len() as u64, 30 + written);
    assert_eq!(house.processor().generations().await.expect("read").current, 3);
    house.is_whole("after two rebuilds").await;
}

/// Proves the part of T12 about events that are read page by page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_is_built_completely_when_its_events_span_pages() {
    let house = House::new().await;
    // Pages of 500 events: most end inside a todo, and one todo goes on over three of them.
    let (mut all, counts) = (0, [7, 90, 33, 61, 99, 1_300, 64, 98, 1, 97, 96, 95, 500, 499]);
    for (n, many) in (1..).zip(counts) {
        house.tell(n, [create("a")]).await;
        for at in (0..many).step_by(90) {
            house.tell(n, [Command::Many(90.min(many - at))]).await;
        }
        all += 1 + many;
    }
    let told = std::sync::Mutex::new(None);
    let tell = |progress| *told.lock().expect("nobody panics with it") = Some(progress);
    let verified = house.processor().rebuild(&tell).await.expect("rebuilt");
    assert!(verified.holds(), "{verified:#?}");
    assert_eq!((verified.events, verified.aggregates, verified.found.items), (all, 14, 14));
    // The second pass, which compares each item, was not needed.
    assert!(!told.into_inner().expect("nobody panics with it").expect("progress").checking);
    house.is_whole("after the rebuild").await;
}

/// Proves the rollback part of T12.
#[tokio::test]
async fn a_rollback_keeps_what_was_written_since_the_switch() {
    let house = House::new().await;
    house.tell(1, [create("a")]).await;
    house.settle().await;
    assert!(house.processor().rebuild(&|_| {}).await.expect("rebuilt").holds());
    house.tell(1, [rename("b")]).await;
    house.tell(2, [create("x"), Command::Complete(true)]).await;
    house.settle().await;
    let expected = ["f1/1 b v2 active", "f1/2 x v2"];
    assert_eq!(house.listed().await, expected);
    assert_eq!(house.processor().roll_back().await.expect("rolled back"), 1);
    assert_eq!(house.listed().await, expected);
    // A second rollback returns to it, and a further rebuild gets a new number.
    assert_eq!(house.processor().roll_back().await.expect("rolled back again"), 2);
    assert_eq!(house.listed().await, expected);
    assert!(house.processor().rebuild(&|_| {}).await.expect("rebuilt").holds());
    assert_eq!(house.processor().generations().await.expect("read").current, 3);
    house.is_whole("after all of it").await;
}

#[tokio::test]
async fn there_is_nothing_to_roll_back_to_before_the_first_switch() {
    let house = House::new().await;
    let error = house.processor().roll_back().await.expect_err("there is none");
    assert!(matches!(error.kind(), ErrorKind::Busy(_)), "{error}");
    assert_eq!(house.processor().abandon().await.expect("nothing to abandon"), None);
}

/// Proves the parked part of T12: an incomplete generation is not switched to.
#[tokio::test]
async fn a_rebuild_with_a_poison_event_does_not_switch_and_continues_after_a_fix() {
    let house = House::new().await;
    house.tell(1, [create("a"), rename("poison"), rename("b")]).await;
    house.tell(2, [create("x")]).await;
    house.settle().await;
    let verified = house.processor().rebuild(&|_| {}).await.expect("built");
    assert_eq!((verified.holds(), verified.parked), (false, 1));
    let generations = house.processor().generations().await.expect("read");
    assert_eq!((generations.current, generations.building), (1, Some(2)));
    // The new generation gets new events, but is not read.
    house.tell(2, [rename("y")]).await;
    house.settle().await;
    assert_eq!(house.listed().await, ["f1/1 a v1 active", "f1/2 y v2 active"]);

    // After a fix the same rebuild continues, and parked events are tried again.
    house.list.fix();
    let verified = house.processor().rebuild(&|_| {}).await.expect("built");
    assert!(verified.holds(), "{verified:#?}");
    assert_eq!(house.listed().await, ["f1/1 b v3 active", "f1/2 y v2 active"]);
    house.is_whole("after the switch").await;
}

#[tokio::test]
async fn an_abandoned_rebuild_changes_nothing() {
    let house = House::new().await;
    house.tell(1, [create("poison")]).await;
    house.tell(2, [create("x")]).await;
    assert!(!house.processor().rebuild(&|_| {}).await.expect("built").holds());
    assert_eq!(house.processor().abandon().await.expect("abandoned"), Some(2));
    house.settle().await;
    assert_eq!(house.listed().await, ["f1/2 x v1 active"]);
    // The next one starts empty, with another number.
    house.list.fix();
    let verified = house.processor().rebuild(&|_| {}).await.expect("built");
    assert_eq!((verified.holds(), verified.generation), (true, 3));
}

/// Proves the verification part of T12.
#[tokio::test]
async fn verification_finds_changed_missing_and_unexpected_items() {
    let house = House::new().await;
    for n in 1..=5 {
        house.tell(n, [create("a"), rename("b")]).await;
    }
    house.tell(5, [Command::Delete]).await;
    house.settle().await;
    let key = |n| Key::new("FAMILY#f1", format!("TODO#{}", id(n)));
    let items = house.stored(LIST).await;
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
        ("changed", Write::put(LIST, item(2).with("title", "false")), "is not what its events give", 2),
        ("missing", Write::delete(LIST, key(3)), "is missing", 3),
        ("back from the dead", Write::put(LIST, as_another(5)), "should not be there", 5),
        ("stray", Write::put(LIST, as_another(9)), "comes from no event", 9),
    ] {
        let house_before = house.processor().verify(None).await.expect("checked");
        assert!(house_before.holds(), "before {about}");
        house.meddle(write).await;
        let verified = house.processor().verify(None).await.expect("checked");
        assert!(!verified.holds(), "{about}");
        let found: Vec<_> = verified.wrong.iter().map(|wrong| (wrong.aggregate.clone(), wrong.why)).collect();
        assert_eq!(found, [(id(n), why)], "{about}");
        assert_eq!(verified.wrong_count, 1);
        assert_ne!(verified.expected, verified.found, "{about}");
        // The other family has no mismatch.
        assert!(house.processor().verify(Some("f2")).await.expect("checked").holds());
        assert!(!house.processor().verify(Some("f1")).await.expect("checked").holds());
        house.processor().repair("f1", &|_| {}).await.expect("repaired");
    }
}

/// Proves the count-and-hash part of T12.
#[tokio::test]
async fn equal_events_give_equal_counts_and_hashes_and_others_do_not() {
    let hash = |title: &'static str| async move {
        let house = House::new().await;
        house.tell(1, [create(title)]).await;
        house.settle().await;
        let verified = house.processor().verify(None).await.expect("checked");
        let event = house.recorded(1).await.remove(0);
        (verified.found.items, verified.found.hash().len(), verified.found.hash(), event.id)
    };
    let (one, other) = (hash("a").await, hash("b").await);
    assert_eq!((one.0, one.1, other.0), (1, 64, 1));
    assert_ne!(one.2, other.2);
    // A second rebuild of the same events has the same content.
    let house = House::new().await;
    house.tell(1, [create("a")]).await;
    house.settle().await;
    let live = house.processor().verify(None).await.expect("checked").found;
    assert_eq!(house.processor().rebuild(&|_| {}).await.expect("rebuilt").found, live);
}
