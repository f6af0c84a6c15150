//! Verifying a projection: what is stored is compared with the events in both directions, and nothing is written.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nagaya_events::Progress;
use nagaya_store::{Item, Key, Value, Write};
use nagaya_testing::InstrumentedStore;
use tokio::{sync::Notify, time::Instant};

use crate::{
    app::{App, EVENTS_TABLE, LIST_TABLE, create, id, rename},
    todo::Command,
};

/// The todos that a verification names, and why.
async fn named(app: &App) -> Vec<(String, &'static str)> {
    let verified = app.processor().verify(None).await.expect("checked");
    assert_eq!(verified.is_consistent(), verified.mismatch_count == 0 && verified.parked == 0, "{verified:?}");
    let mut named: Vec<_> = verified.mismatches.iter().map(|wrong| (wrong.aggregate.clone(), wrong.why)).collect();
    named.sort();
    named
}

fn list_key(n: u64) -> Key {
    Key::new("FAMILY#f1", format!("TODO#{}", id(n)))
}

/// Removes events of a todo from the store; its head stays.
async fn remove_events(app: &App, n: u64, versions: &[u64]) {
    for event in app.recorded(n).await.iter().filter(|event| versions.contains(&event.version)) {
        let (key, _) = app.event_item(event).await;
        app.write_directly(Write::delete(EVENTS_TABLE, key)).await;
    }
}

/// Proves the verification part of T12: also what no event leads to is found.
#[tokio::test]
async fn events_that_are_gone_are_found_in_the_projection() {
    let app = App::new().await;
    for n in 1..=5 {
        app.execute_all(n, [create("a"), rename("b"), rename("c")]).await;
    }
    app.execute_all(6, [create("a"), Command::Delete]).await;
    app.project_all().await;
    assert_eq!(named(&app).await, []);
    remove_events(&app, 1, &[1, 2, 3]).await;
    // Version 3 alone gives the same item as all three.
    remove_events(&app, 2, &[2]).await;
    remove_events(&app, 3, &[3]).await;
    // Neither the projection nor the events have it any more.
    remove_events(&app, 4, &[1, 2, 3]).await;
    app.write_directly(Write::delete(LIST_TABLE, list_key(4))).await;
    remove_events(&app, 6, &[1, 2]).await;
    let expected = [
        (id(1), "has an item, and no events any more"),
        (id(2), "lacks an event"),
        (id(3), "lacks an event"),
        (id(4), "has a head, and no events"),
        (id(6), "has a head, and no events"),
    ];
    assert_eq!(named(&app).await, expected);
    let other = app.processor().verify(Some("f2")).await.expect("checked");
    assert!(other.is_consistent(), "{other:?}");

    // A repair removes nothing whose events are lost.
    assert_eq!(app.processor().repair("f1", &|_| {}).await.expect("repaired"), 0);
    assert_eq!(named(&app).await, expected);
}

/// A changed event that cannot be read is named, also if it is the only one.
#[tokio::test]
async fn an_unreadable_event_is_found() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.execute_all(2, [create("a"), rename("b")]).await;
    app.project_all().await;
    for (n, at) in [(1, 0), (2, 1)] {
        let (_, mut item) = app.event_item(&app.recorded(n).await[at]).await;
        item.remove("aggregateVersion");
        app.write_directly(Write::put(EVENTS_TABLE, item)).await;
    }
    let why = "has an event that cannot be read";
    assert_eq!(named(&app).await, [(id(1), why), (id(2), why)]);
}

/// An item under the key of another one is named, instead of ending the verification with an error.
#[tokio::test]
async fn an_item_in_the_place_of_another_is_found() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.execute_all(2, [create("b")]).await;
    app.project_all().await;
    let items = app.stored(LIST_TABLE).await;
    let sort = format!("TODO#{}", id(1));
    let first = items.iter().find(|item| item.get("SK").and_then(Value::as_str) == Some(&sort)).expect("listed");
    app.write_directly(Write::put(LIST_TABLE, first.clone().with("todoId", id(2).as_str()))).await;
    assert_eq!(named(&app).await, [(id(1), "has an item whose fields do not fit its key")]);
}

/// A parked todo is compared as well, at the version at which it waits.
#[tokio::test]
async fn a_changed_item_of_a_parked_todo_is_found() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("b"), rename("poison"), rename("c")]).await;
    app.project_all().await;
    assert_eq!(named(&app).await, []);
    let item = app.stored(LIST_TABLE).await.remove(0);
    app.write_directly(Write::put(LIST_TABLE, item.with("title", "false"))).await;
    assert_eq!(named(&app).await, [(id(1), "is not what its events give")]);
    assert_eq!(app.processor().repair("f1", &|_| {}).await.expect("repaired"), 1);
    assert_eq!(named(&app).await, []);
    assert_eq!(app.processor().dead_letters().await.expect("letters").len(), 1, "it still waits");
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
}

/// The time is the paused clock of the runtime, which moves only when all tasks wait.
#[tokio::test(start_paused = true)]
async fn a_verification_waits_for_the_processor_but_not_for_ever() {
    let app = Arc::new(App::new().await);
    for n in 1..=3 {
        app.execute_all(n, [create("a")]).await;
    }
    app.project_all().await;
    let waited_for = Arc::new(Notify::new());
    let verify = async |patience: Duration| {
        let waiting = AtomicUsize::new(0);
        let tell = |progress: Progress| {
            if progress.waiting > 0 {
                waiting.store(progress.waiting, Ordering::SeqCst);
                waited_for.notify_one();
            }
        };
        let verified = app.processor().verify_patiently(None, patience, &tell).await.expect("verified");
        (verified, waiting.into_inner())
    };
    let patience = Duration::from_secs(10);
    let (verified, waiting) = verify(patience).await;
    assert_eq!((verified.is_consistent(), waiting), (true, 0), "{verified:?}");

    // Nobody applies the events.
    app.execute_all(1, [rename("b")]).await;
    app.execute_all(2, [rename("b")]).await;
    let started = Instant::now();
    let (verified, waiting) = verify(patience).await;
    assert_eq!((verified.behind, verified.mismatch_count, waiting), (2, 2, 2), "{verified:?}");
    assert_eq!((verified.events, verified.aggregates), (5, 3));
    assert!(started.elapsed() >= patience, "{:?}", started.elapsed());

    // A processor applies them while it waits: longer, because the clock also moves while the processor waits for the store. The
    // permit of the time before is taken first.
    waited_for.notified().await;
    let (process, begins) = (Arc::clone(&app), Arc::clone(&waited_for));
    let processing = tokio::spawn(async move {
        begins.notified().await;
        process.project_all().await;
    });
    let (verified, waiting) = verify(Duration::from_secs(7 * 24 * 3_600)).await;
    assert_eq!((verified.is_consistent(), verified.behind, waiting), (true, 0, 2), "{verified:?}");
    assert_eq!((verified.events, verified.aggregates), (5, 3));
    processing.await.expect("no panic");
}

/// Verifying writes nothing besides the entries of the operator log: it applies no event, parks none, creates nothing.
#[tokio::test]
async fn a_verification_writes_nothing() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.execute_all(2, [create("x")]).await;
    app.project_all().await;
    // Events that are not applied yet, and one that cannot be.
    app.execute_all(1, [rename("b")]).await;
    app.execute_all(2, [rename("poison")]).await;
    app.execute_all(3, [create("new")]).await;
    let counted = InstrumentedStore::new(app.store.clone());
    let process = app.on_store(counted.clone());
    let verified = process.processor().verify(None).await.expect("checked");
    let is_log = |item: &Item| item.get("PK").and_then(Value::as_str).is_some_and(|text| text.starts_with("%audit"));
    let written: Vec<_> = counted
        .take_writes()
        .into_iter()
        .filter(|write| !matches!(&write.action, nagaya_store::WriteAction::Put { item, .. } if is_log(item)))
        .collect();
    assert_eq!(written, []);
    assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 x v1 active"]);
    assert_eq!(app.processor().dead_letters().await.expect("letters"), []);
    // What is behind is named as such.
    assert_eq!((verified.is_consistent(), verified.behind, verified.mismatch_count), (false, 3, 3), "{verified:?}");
    assert!(verified.mismatches.iter().all(|wrong| wrong.why == "is behind its events"), "{verified:?}");
}
