//! An event that cannot be applied parks its aggregate, and others continue.

use std::{collections::BTreeMap, time::Duration};

use nagaya_events::{ErrorKind, ProcessorOptions, UnparkOutcome};
use nagaya_store::{Store as _, Value, Write};

use crate::{
    app::{App, EVENTS_TABLE, LIST_TABLE, create, id, rename},
    todo::Command,
};

/// Proves T11.
#[tokio::test]
async fn a_poison_event_parks_its_todo_and_other_todos_continue() {
    for poison in ["poison", "poison: panic"] {
        let app = App::new().await;
        app.execute_all(1, [create("a"), rename(poison), rename("b")]).await;
        app.execute_all(2, [create("x")]).await;
        app.project_all().await;
        assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 x v1 active"], "{poison}");
        let letters = app.processor().dead_letters().await.expect("letters");
        let [letter] = letters.as_slice() else { panic!("{poison}: {letters:?}") };
        let event = &app.recorded(1).await[1];
        assert_eq!((letter.tenant.as_str(), &letter.aggregate, letter.version), ("f1", &id(1), 2));
        assert_eq!((&letter.event, letter.event_type.as_str(), letter.attempts), (&event.id, "TodoTitleChanged", 2));
        assert!(!letter.error.is_empty());
        assert_eq!(letter.parked_at, app.clock.millis());

        // Its later events wait, and other todos do not.
        app.execute_all(1, [Command::Complete(true)]).await;
        app.execute_all(2, [rename("y")]).await;
        app.project_all().await;
        assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 y v2 active"], "{poison}");
        assert_eq!(app.processor().dead_letters().await.expect("letters"), letters);
        let verified = app.processor().verify(None).await.expect("checked");
        assert_eq!((verified.is_consistent(), verified.parked), (false, 1));

        // Without a fix it fails again.
        assert_eq!(app.processor().retry(letter).await.expect("tried"), UnparkOutcome::ParkedAgain, "{poison}");
        assert_eq!(app.processor().dead_letters().await.expect("letters").len(), 1);

        // After a fix all waiting events are applied.
        app.list.fix();
        assert_eq!(app.processor().retry(letter).await.expect("tried"), UnparkOutcome::UpToDate);
        assert_eq!(app.listed().await, ["f1/1 b v4", "f1/2 y v2 active"], "{poison}");
        assert_eq!(app.processor().dead_letters().await.expect("letters"), []);
        app.assert_consistent(poison).await;
    }
}

/// Proves the going-on part of T11: an item that the design does not allow parks its event too.
#[tokio::test]
async fn an_event_whose_item_cannot_be_stored_is_found_among_many_and_parked() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.execute_all(1, (0..20).map(Command::Number)).await;
    app.execute_all(1, [rename("poison: unfit"), Command::Complete(true)]).await;
    app.execute_all(2, [create("x")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 19 v21 active", "f1/2 x v1 active"]);
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    assert_eq!((letter.version, letter.event_type.as_str()), (22, "TodoTitleChanged"));
    app.list.fix();
    assert_eq!(app.processor().retry(&letter).await.expect("tried"), UnparkOutcome::UpToDate);
    assert_eq!(app.listed().await, ["f1/1 poison: unfit v23", "f1/2 x v1 active"]);
    app.assert_consistent("once it can").await;
}

/// Proves the dropping part of T11.
#[tokio::test]
async fn dropping_skips_the_event_and_stops_at_the_next_poison() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("poison 1"), Command::Complete(true), rename("poison 2"), rename("b")])
        .await;
    app.project_all().await;
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    assert_eq!(app.drop_event(&letter).await.expect("dropped"), UnparkOutcome::ParkedAgain);
    assert_eq!(app.listed().await, ["f1/1 a v3"]);
    let second = app.processor().dead_letters().await.expect("letters").remove(0);
    assert_eq!(second.version, 4);

    // The first dead letter is outdated by now.
    let old = app.drop_event(&letter).await.expect_err("it is outdated");
    assert!(matches!(old.kind(), ErrorKind::Busy(_)), "{old}");
    assert_eq!(app.drop_event(&second).await.expect("dropped"), UnparkOutcome::UpToDate);
    assert_eq!(app.listed().await, ["f1/1 b v5"]);
    assert_eq!(app.processor().dead_letters().await.expect("letters"), []);
    let gone = app.processor().retry(&second).await.expect_err("it is outdated");
    assert!(matches!(gone.kind(), ErrorKind::Busy(_)), "{gone}");

    // Verification and repair leave it out, also when it could be applied.
    app.assert_consistent("without both").await;
    app.list.fix();
    app.assert_consistent("after a fix").await;
    assert_eq!(app.processor().repair("f1", &|_| {}).await.expect("nothing to do"), 0);
    app.execute_all(1, [rename("c")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 c v6"]);
    app.assert_consistent("after a later event").await;
    // All events are still stored.
    assert_eq!(app.recorded(1).await.len(), 6);
}

/// Proves the first-event part of T11.
#[tokio::test]
async fn a_todo_whose_first_event_is_poison_is_not_listed_before_a_retry() {
    let app = App::new().await;
    app.execute_all(1, [create("poison"), rename("b")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, [""; 0]);
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    app.list.fix();
    assert_eq!(app.processor().retry(&letter).await.expect("tried"), UnparkOutcome::UpToDate);
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
}

/// Proves the going-on part of T11: neither a missing nor an unreadable event stops other todos.
#[tokio::test]
async fn a_todo_with_damaged_events_is_parked_and_others_continue() {
    for unreadable in [false, true] {
        let app = App::new().await;
        app.execute_all(1, [create("a")]).await;
        app.project_all().await;
        app.execute_all(1, [rename("b"), rename("c")]).await;
        let events = app.recorded(1).await;
        let (key, item) = app.event_item(&events[1]).await;
        let mut damaged = item.clone();
        damaged.remove("aggregateVersion");
        // Only the third event arrives, and the second one is missing.
        app.write_directly(if unreadable {
            Write::put(EVENTS_TABLE, damaged)
        } else {
            Write::delete(EVENTS_TABLE, key)
        })
        .await;
        app.execute_all(2, [create("x")]).await;
        let other = app.recorded(2).await;
        app.processor().apply_events([vec![events[2].clone()], other].concat()).await.expect("others continue");
        assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 x v1 active"]);
        let letter = app.processor().dead_letters().await.expect("letters").remove(0);
        assert_eq!((letter.aggregate.as_str(), letter.version), (id(1).as_str(), 2));

        // It continues after a repair of the event, or without the event.
        if unreadable {
            app.write_directly(Write::put(EVENTS_TABLE, item)).await;
            assert_eq!(app.processor().retry(&letter).await.expect("tried"), UnparkOutcome::UpToDate);
            app.project_all().await;
            app.assert_consistent("after putting it right").await;
        } else {
            assert_eq!(app.drop_event(&letter).await.expect("dropped"), UnparkOutcome::UpToDate);
            let verified = app.processor().verify(None).await.expect("verified");
            assert!(verified.is_consistent(), "{verified:?}");
        }
        assert_eq!(app.listed().await, ["f1/1 c v3 active", "f1/2 x v1 active"]);
    }
}

/// An unreadable record among the changes stops no todo.
#[tokio::test]
async fn an_unreadable_record_in_the_event_table_does_not_stop_the_processor() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.project_all().await;
    let event = app.recorded(1).await.remove(0);
    let (_, item) = app.event_item(&event).await;
    let strange = "01HARX5BD7F8G9H0J1K2M3N4PQ";
    let mut item = item.with("PK", format!("TODO#{}", id(7)).as_str()).with("aggregateId", id(7).as_str());
    for (name, value) in
        [("SK", format!("EVENT#{strange}")), ("eventId", strange.to_owned()), ("GSI1SK", strange.to_owned())]
    {
        item.insert(name, value.as_str());
    }
    item.remove("eventType");
    app.write_directly(Write::put(EVENTS_TABLE, item)).await;
    app.execute_all(1, [rename("b")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
    let letters = app.processor().dead_letters().await.expect("letters");
    assert_eq!(letters.iter().map(|letter| letter.aggregate.clone()).collect::<Vec<_>>(), [id(7)]);
    assert!(app.engine.capabilities().changes);
}

/// Proves the part of T11 about other families: what fails does not make their events wait. The time is the paused clock of the
/// runtime: a step that waited for an attempt would move it by a day.
#[tokio::test(start_paused = true)]
async fn fifty_failing_todos_of_one_family_hold_up_no_todo_of_another() {
    for reads_all in [false, true] {
        let app = App::new().await;
        if !reads_all {
            // From now on it reads changes.
            app.project_all().await;
        }
        for n in 1..=50 {
            app.execute_all(n, [create("poison"), rename("b")]).await;
        }
        let made = app.events.execute(&app.family("f2"), &id(100), &create("x"), &app.request()).await;
        made.expect("nothing is in the way");
        let backoff = Duration::from_secs(24 * 3_600);
        let processor = app.processor_with(ProcessorOptions { backoff, ..ProcessorOptions::default() });
        let started = tokio::time::Instant::now();
        processor.step().await.expect("a step");
        assert!(started.elapsed() < backoff, "{:?}", started.elapsed());
        assert_eq!(app.listed().await, ["f2/100 x v1 active"]);
        // The failing ones are stored, so the step was acknowledged.
        let letters = processor.dead_letters().await.expect("letters");
        assert_eq!(letters.iter().map(|letter| letter.attempts).collect::<Vec<_>>(), [1; 50]);
        assert_eq!(app.restarted().processor().step().await.expect("a step").events, 0);
        // The events keep their order.
        app.list.fix();
        for letter in letters {
            assert_eq!(processor.retry(&letter).await.expect("tried"), UnparkOutcome::UpToDate);
        }
        app.assert_consistent("after the fix").await;
    }
}

/// Proves the masking part of T19: neither the error nor the record contains what does not fit.
#[tokio::test]
async fn the_error_of_an_event_names_path_and_type_and_no_value() {
    for (title, why) in [
        (Value::from(9_012_345_678_i64), "`data.title` is an integer, expected a string"),
        (
            Value::Map(BTreeMap::from([("Ann".to_owned(), Value::from("090-1234-5678"))])),
            "`data.title` is an object, expected a string",
        ),
    ] {
        let app = App::new().await;
        app.execute_all(1, [create("a"), rename("b")]).await;
        let event = app.recorded(1).await.pop().expect("an event");
        let (_, mut item) = app.event_item(&event).await;
        item.insert("data", Value::Map(BTreeMap::from([("title".to_owned(), title)])));
        app.write_directly(Write::put(EVENTS_TABLE, item)).await;
        app.project_all().await;
        assert_eq!(app.listed().await, ["f1/1 a v1 active"]);
        let letter = app.processor().dead_letters().await.expect("letters").remove(0);
        assert!(letter.error.ends_with(&format!("TodoTitleChanged in version 1: {why}")), "{}", letter.error);
        let page = app.engine.scan(nagaya_store::Scan::table(LIST_TABLE)).await.expect("a page");
        for part in ["9012345678", "Ann", "090-1234-5678"] {
            assert!(!format!("{:?}", page.items).contains(part), "{part}");
        }
        // The same for a command.
        let failed = app.execute(1, rename("c")).await.expect_err("its events cannot be read");
        assert!(!format!("{failed:?}").contains("9012345678"), "{failed:?}");
    }
}

/// Proves the listing part of T11.
#[tokio::test]
async fn all_pages_of_dead_letters_are_listed() {
    let app = App::new().await;
    for n in 1..=230 {
        app.execute_all(n, [create("poison")]).await;
    }
    app.project_all().await;
    let letters = app.processor().dead_letters().await.expect("letters");
    let mut found: Vec<_> = letters.iter().map(|letter| letter.aggregate.clone()).collect();
    found.sort();
    assert_eq!(found, (1..=230).map(id).collect::<Vec<_>>());
}
