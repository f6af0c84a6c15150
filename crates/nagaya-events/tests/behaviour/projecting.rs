//! The list is kept up to date with the events.

use std::{sync::Arc, time::Duration};

use nagaya_store::{Error, Item, Key, Write};
use nagaya_tenancy::ChangeConsumer as _;
use nagaya_testing::{Call, Fault, InstrumentedStore};

use crate::{
    app::{App, EVENTS_TABLE, create, id, rename},
    todo::Command,
};

/// Proves the gap part of T10.
#[tokio::test]
async fn missing_events_are_read_from_the_event_table() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("b"), Command::Complete(true), rename("c")]).await;
    let last = app.recorded(1).await.pop().expect("an event");
    app.processor().apply_events(vec![last]).await.expect("applied");
    assert_eq!(app.listed().await, ["f1/1 c v4"]);
}

/// Proves the already-processed part of T10.
#[tokio::test]
async fn applied_events_are_skipped_and_a_deleted_todo_stays_deleted() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("b")]).await;
    app.execute_all(2, [create("x"), Command::Delete]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
    let old = [app.recorded(1).await, app.recorded(2).await];
    for events in &old {
        app.processor().apply_events(vec![events[0].clone()]).await.expect("skipped");
        app.processor().apply_events(events.clone()).await.expect("skipped");
    }
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
    app.assert_consistent("after old events").await;
}

/// Proves the index part of T3.
#[tokio::test]
async fn completing_takes_a_todo_out_of_the_active_index_and_reopening_puts_it_back() {
    let app = App::new().await;
    app.execute_all(1, [create("milk")]).await;
    for (command, line) in [
        (None, "f1/1 milk v1 active"),
        (Some(Command::Complete(true)), "f1/1 milk v2"),
        (Some(rename("bread")), "f1/1 bread v3"),
        (Some(Command::Complete(false)), "f1/1 bread v4 active"),
    ] {
        app.execute_all(1, command).await;
        app.project_all().await;
        assert_eq!(app.listed().await, [line]);
    }
}

/// Proves T10.
#[tokio::test]
async fn an_aggregate_that_cannot_be_written_now_is_named_and_the_others_are_applied() {
    let app = App::new().await;
    let store = InstrumentedStore::new(Arc::clone(&app.engine) as _);
    let on_store = app.on_store(Arc::clone(&store) as _);
    let processor = on_store.processor();
    processor.step().await.expect("there is nothing yet");
    for n in 1..=40 {
        app.execute_all(n, [create("a")]).await;
    }
    app.execute_all(7, [rename("b")]).await;
    let page = processor.subscription().next_page().await.expect("a page");
    store.take(|_| true);
    let expected = page
        .changes
        .iter()
        .position(|change| change.new.as_ref().is_some_and(|event| event.text("aggregateId") == Some(&id(7))));
    let of_seventh =
        |call: &Call| call.writes().iter().any(|write| format!("{write:?}").contains(&format!("TODO#{}", id(7))));
    let fault = store.inject(Fault::fail_before(|| Error::unavailable("throttled")).matching(of_seventh));

    let processed = processor.process(page.changes.clone()).await;
    let failed: Vec<_> = processed.failed.iter().map(|failed| Some(failed.position)).collect();
    assert_eq!((processed.relevant, failed), (41, vec![expected]));
    assert_eq!(app.listed().await.len(), 39);
    // The same changes once more.
    fault.remove();
    store.take_writes();
    assert!(processor.process(page.changes).await.failed.is_empty());
    assert_eq!(app.listed().await.len(), 40);
    assert_eq!(store.take_writes().len(), 2, "an item and a checkpoint");
}

#[tokio::test]
async fn the_changes_of_many_aggregates_are_applied_in_few_writes() {
    let app = App::new().await;
    let store = InstrumentedStore::new(Arc::clone(&app.engine) as _);
    let processor = app.on_store(Arc::clone(&store) as _).processor();
    processor.step().await.expect("there is nothing yet");
    for n in 1..=100 {
        app.execute_all(n, [create("a")]).await;
    }
    let page = processor.subscription().next_page().await.expect("a page");
    store.take(|_| true);
    assert!(processor.process(page.changes).await.failed.is_empty());
    let writes = store.take(Call::is_write).len();
    assert!(writes < 10, "{writes} writes");
    assert_eq!(app.listed().await.len(), 100);
}

/// Proves the catching-up part of T10.
#[tokio::test]
async fn a_processor_without_a_position_applies_all_stored_events() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("b")]).await;
    app.execute_all(2, [create("x")]).await;
    let step = app.processor().step().await.expect("a step");
    assert_eq!(step.events, 3);
    assert_eq!(app.listed().await, ["f1/1 b v2 active", "f1/2 x v1 active"]);
    // From then on it reads changes.
    app.execute_all(1, [rename("c")]).await;
    assert_eq!(app.processor().step().await.expect("a step").events, 1);
    assert_eq!(app.listed().await, ["f1/1 c v3 active", "f1/2 x v1 active"]);
}

/// Proves the catching-up part of T10.
#[tokio::test]
async fn a_processor_that_was_down_for_longer_than_changes_are_kept_catches_up() {
    let app = App::with_retention(Duration::from_secs(60)).await;
    app.execute_all(1, [create("a")]).await;
    app.project_all().await;
    app.execute_all(1, [rename("b")]).await;
    app.execute_all(2, [create("x")]).await;
    app.clock.advance(Duration::from_secs(3_600));
    app.engine.sweep().await.expect("swept");
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 b v2 active", "f1/2 x v1 active"]);
    app.execute_all(2, [rename("y")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 b v2 active", "f1/2 y v2 active"]);
}

/// Changes of other items must not make it poll without a pause. The time is the paused clock of the runtime, which moves only
/// when all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_processor_pauses_when_there_are_no_events_but_other_changes() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.project_all().await;
    // An item that is no event, in the event table.
    app.write_directly(Write::put(EVENTS_TABLE, Item::new().with("PK", "%else").with("SK", "%else"))).await;
    let counted = InstrumentedStore::new(app.store.clone());
    let process = app.on_store(counted.clone());
    let processor = process.processor();
    let started = tokio::time::Instant::now();
    let stop = std::future::poll_fn(|_| match counted.calls() < 300 {
        true => std::task::Poll::Pending,
        false => std::task::Poll::Ready(()),
    });
    processor.run(stop).await;
    assert!(started.elapsed() > Duration::from_millis(500), "{:?} for {} calls", started.elapsed(), counted.calls());
    // A later event is applied.
    app.execute_all(1, [rename("b")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
}

/// Items that were changed from outside are repaired, one family at a time.
#[tokio::test]
async fn a_repair_makes_every_item_match_its_events() {
    let app = App::new().await;
    for n in 1..=4 {
        app.execute_all(n, [create("a"), rename("b")]).await;
    }
    app.project_all().await;
    let expected = app.listed().await;
    let key = |n| Key::new("FAMILY#f1", format!("TODO#{}", id(n)));
    let items = app.stored(crate::app::LIST_TABLE).await;
    app.write_directly(Write::delete(crate::app::LIST_TABLE, key(1))).await;
    app.write_directly(Write::put(crate::app::LIST_TABLE, items[1].clone().with("title", "false"))).await;
    let stray = items[2].clone().with("SK", format!("TODO#{}", id(9)).as_str()).with("todoId", id(9).as_str());
    app.write_directly(Write::put(crate::app::LIST_TABLE, stray)).await;
    assert!(!app.processor().verify(None).await.expect("checked").is_consistent());
    assert_eq!(app.processor().repair("f2", &|_| {}).await.expect("repaired"), 0);
    assert_eq!(app.processor().repair("f1", &|_| {}).await.expect("repaired"), 3);
    assert_eq!(app.listed().await, expected);
    app.assert_consistent("after repairing").await;
    assert_eq!(app.processor().repair("f1", &|_| {}).await.expect("repaired"), 0);
}
