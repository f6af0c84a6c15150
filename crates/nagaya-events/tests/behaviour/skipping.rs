//! Events that operators have dropped from a projection: the skip list, and what honours it.

use std::sync::Arc;

use nagaya_events::{ErrorKind, SkippedEvent, UnparkOutcome};
use nagaya_store::{Item, Value, Write};
use nagaya_tenancy::Principal;
use nagaya_testing::{Call, Fault, InstrumentedStore};

use crate::{
    app::{App, EVENTS_TABLE, LIST_TABLE, create, id, rename},
    todo::Command,
};

/// An app whose todo 1 is parked at its second event, for the reason that is named.
async fn parked(damage: &str) -> App {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.project_all().await;
    app.execute_all(1, [rename(if damage == "poison" { "poison" } else { "b" }), Command::Complete(true)]).await;
    app.execute_all(2, [create("x")]).await;
    let events = app.recorded(1).await;
    let (key, mut item) = app.event_item(&events[1]).await;
    match damage {
        "missing" => app.write_directly(Write::delete(EVENTS_TABLE, key)).await,
        "unreadable" => {
            item.remove("aggregateVersion");
            app.write_directly(Write::put(EVENTS_TABLE, item)).await;
        }
        _ => {}
    }
    // Without the change of the second one.
    app.processor().apply_events(vec![events[2].clone()]).await.expect("others continue");
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 x v1 active"], "{damage}");
    app
}

async fn drop_only_letter(app: &App) -> UnparkOutcome {
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    app.drop_event(&letter).await.expect("dropped")
}

async fn skipped(app: &App) -> Vec<SkippedEvent> {
    app.processor().skipped_events().await.expect("listed")
}

/// Proves the dropping part of T11 and the verification part of T12: a dropped event stops no rebuild.
#[tokio::test]
async fn a_rebuild_leaves_out_a_dropped_event_and_switches() {
    for damage in ["poison", "missing", "unreadable"] {
        let app = parked(damage).await;
        assert_eq!(drop_only_letter(&app).await, UnparkOutcome::UpToDate, "{damage}");
        let expected = ["f1/1 a v3", "f1/2 x v1 active"];
        assert_eq!(app.listed().await, expected, "{damage}");
        assert!(app.processor().verify(None).await.expect("verified").is_consistent(), "{damage}");
        // Another process, which has not dropped it.
        let other = app.restarted();
        for generation in [2, 3] {
            let rebuilt = other.processor().rebuild(&|_| {}).await.expect("rebuilt");
            assert_eq!((rebuilt.is_consistent(), rebuilt.generation), (true, generation), "{damage}: {rebuilt:?}");
            assert_eq!(other.listed().await, expected, "{damage}");
        }
        assert_eq!(other.processor().generations().await.expect("read").current, 3, "{damage}");
        assert_eq!(other.processor().repair("f1", &|_| {}).await.expect("repaired"), 0, "{damage}");
        // The generation before has left it out as well, and later events are applied in both.
        let mut expected = expected;
        if damage == "poison" {
            other.execute_all(1, [Command::Complete(false)]).await;
            other.project_all().await;
            expected[0] = "f1/1 a v4 active";
        }
        assert_eq!(other.listed().await, expected, "{damage}");
        other.processor().roll_back().await.expect("rolled back");
        assert_eq!(other.listed().await, expected, "{damage}");
        assert!(other.processor().verify(None).await.expect("verified").is_consistent(), "{damage}");
    }
}

/// Proves the dropping part of T11: who, when and why is stored, and nothing of what is in the event.
#[tokio::test]
async fn the_skip_list_says_who_dropped_what_when_and_why() {
    let app = parked("poison").await;
    let event = app.recorded(1).await.remove(1);
    drop_only_letter(&app).await;
    let expected = SkippedEvent {
        tenant: "f1".to_owned(),
        aggregate: id(1),
        version: 2,
        event: event.id.clone(),
        event_type: "TodoTitleChanged".to_owned(),
        by: "olga".to_owned(),
        reason: "ticket 4711: never needed".to_owned(),
        at: app.clock.millis(),
    };
    assert_eq!(skipped(&app).await, [expected]);
    let stored = app.all_items(LIST_TABLE).await;
    let is_entry =
        |item: &&Item| item.get("SK").and_then(Value::as_str).is_some_and(|text| text.starts_with("%note-skipped-"));
    let entries: Vec<_> = stored.iter().filter(is_entry).map(|item| format!("{item:?}")).collect();
    assert_eq!(entries.len(), 1);
    assert!(!entries[0].contains("poison") && !entries[0].contains("cannot show"), "{entries:?}");

    // Without a reason nothing is dropped.
    let app = parked("poison").await;
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    let nobody = app.nagaya.operator("because", &Principal::new("", "olga"));
    let error = app.processor().drop_event(&letter, &nobody).await.expect_err("it has no reason");
    assert_eq!(error.code(), "no_reason");
    assert_eq!((skipped(&app).await, app.processor().dead_letters().await.expect("letters").len()), (vec![], 1));
}

/// Proves the dropping part of T11: generations that are not read are no worse than the one that is.
#[tokio::test]
async fn retries_and_drops_reach_all_generations() {
    for dropped in [false, true] {
        let app = App::new().await;
        app.execute_all(1, [create("a")]).await;
        app.project_all().await;
        assert!(app.processor().rebuild(&|_| {}).await.expect("rebuilt").is_consistent());
        app.execute_all(1, [rename("poison"), Command::Complete(true)]).await;
        app.project_all().await;
        let letter = app.processor().dead_letters().await.expect("letters").remove(0);
        if dropped {
            app.drop_event(&letter).await.expect("dropped");
        } else {
            app.list.fix();
            app.processor().retry(&letter).await.expect("tried");
        }
        let expected = [if dropped { "f1/1 a v3" } else { "f1/1 poison v3" }];
        assert_eq!(app.listed().await, expected);
        app.processor().roll_back().await.expect("rolled back");
        assert_eq!(app.listed().await, expected);
        app.assert_consistent("after the rollback").await;
    }
}

/// An event that only a new version of the program cannot apply stops the rebuild alone, and can be dropped there.
#[tokio::test]
async fn a_dead_letter_of_a_generation_that_is_being_built_is_listed_and_can_be_dropped() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("poison"), rename("b")]).await;
    let before = app.restarted();
    before.list.fix();
    before.project_all().await;
    assert!(!app.processor().rebuild(&|_| {}).await.expect("built").is_consistent());
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    assert_eq!((letter.version, app.listed().await), (2, vec!["f1/1 b v3 active".to_owned()]));
    app.drop_event(&letter).await.expect("dropped");
    assert_eq!(app.processor().dead_letters().await.expect("letters"), []);
    let rebuilt = app.processor().rebuild(&|_| {}).await.expect("rebuilt");
    assert!(rebuilt.is_consistent(), "{rebuilt:?}");
    app.assert_consistent("after the switch").await;
}

/// Proves the dropping part of T11: taking an event back applies it, or parks the todo at it again.
#[tokio::test]
async fn a_dropped_event_is_taken_back() {
    for (damage, fixed) in [("poison", true), ("poison", false), ("missing", false)] {
        let app = parked(damage).await;
        drop_only_letter(&app).await;
        assert!(app.processor().rebuild(&|_| {}).await.expect("rebuilt").is_consistent(), "{damage}");
        if fixed {
            app.list.fix();
        }
        let entry = skipped(&app).await.remove(0);
        let outcome = app.processor().take_back(&entry, &app.operator()).await.expect("taken back");
        assert_eq!(skipped(&app).await, [], "{damage}");
        for round in 0..2 {
            let about = format!("{damage} in round {round}");
            if fixed {
                assert_eq!(outcome, UnparkOutcome::UpToDate);
                assert_eq!(app.listed().await, ["f1/1 poison v3", "f1/2 x v1 active"], "{about}");
                app.assert_consistent(&about).await;
            } else {
                assert_eq!(outcome, UnparkOutcome::ParkedAgain);
                assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 x v1 active"], "{about}");
                let letters = app.processor().dead_letters().await.expect("letters");
                assert_eq!(letters.iter().map(|letter| letter.version).collect::<Vec<_>>(), [2], "{about}");
            }
            app.processor().roll_back().await.expect("rolled back");
        }
    }
}

/// A processor that has read the list before the change does not apply an event that was dropped since.
#[tokio::test]
async fn a_running_processor_honours_a_change_of_the_list_with_its_next_step() {
    let app = parked("poison").await;
    let running = app.processor();
    running.step().await.expect("a step");
    let other = app.restarted();
    drop_only_letter(&other).await;
    // A new generation meets the event again; the program of the running processor could apply it.
    app.list.fix();
    running.rebuild(&|_| {}).await.expect("rebuilt");
    assert_eq!(app.listed().await, ["f1/1 a v3", "f1/2 x v1 active"]);
    app.assert_consistent("after the rebuild").await;
}

#[tokio::test]
async fn an_event_that_is_not_parked_is_not_dropped() {
    let app = parked("poison").await;
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    app.list.fix();
    app.processor().retry(&letter).await.expect("tried");
    let error = app.drop_event(&letter).await.expect_err("it was applied");
    assert!(matches!(error.kind(), ErrorKind::Busy(_)), "{error}");
    assert_eq!(skipped(&app).await, []);
}

/// Proves the dropping part of T11: a processor that knows the list too, and unparks the aggregate at any point, is no failure.
#[tokio::test]
async fn an_event_is_dropped_whoever_unparks_its_aggregate() {
    let mut calls = 0;
    loop {
        let app = parked("poison").await;
        let letter = app.processor().dead_letters().await.expect("letters").remove(0);
        let store = InstrumentedStore::new(app.engine.clone());
        let process = app.on_store(store.clone());
        let (other, same) = (app.restarted().processor(), letter.clone());
        let other = Arc::new(other);
        let faster = move |_: &Call| {
            let (other, letter) = (Arc::clone(&other), same.clone());
            // It is not parked any more, or still cannot be applied.
            async move { drop(other.retry(&letter).await) }
        };
        let hook = store.inject(Fault::run_before(faster).skip(calls).once());
        assert_eq!(process.drop_event(&letter).await.expect("dropped"), UnparkOutcome::UpToDate, "call {calls}");
        assert_eq!(app.listed().await, ["f1/1 a v3", "f1/2 x v1 active"], "call {calls}");
        assert_eq!(skipped(&app).await.len(), 1, "call {calls}");
        if hook.hits() == 0 {
            assert!(calls > 5, "only {calls} calls");
            break;
        }
        calls += 1;
    }
}
