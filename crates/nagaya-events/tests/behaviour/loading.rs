//! A state is loaded from all of its events, with snapshots or without.

use std::{sync::Arc, time::Duration};

use nagaya_events::{Error, ErrorKind, Events, EventsOptions};
use nagaya_store::{Item, Key, Store as _, Value, Write};
use nagaya_testing::{Call, Fault, InstrumentedStore};
use serde_json::json;

use crate::{
    app::{App, EVENTS_TABLE, create, design, id},
    todo::{Command, LaterTodo, Todo},
};

/// A todo with so many events.
async fn create_long_todo(app: &App, events: &Events<Todo>, n: u64, many: u64) {
    let family = app.family("f1");
    let execute = |command| async move { events.execute(&app.family("f1"), &id(n), &command, &app.request()).await };
    execute(create("a")).await.expect("fine");
    for number in 2..=many {
        execute(Command::Number(number)).await.expect("fine");
    }
    let loaded = events.load(&family, &id(n)).await.expect("loaded");
    assert_eq!((loaded.version, loaded.state.applied), (many, many));
}

/// Proves the paging part of N5: more events than a page, and more bytes than a store gives at once.
#[tokio::test]
async fn an_aggregate_with_thousands_of_events_is_loaded_completely() {
    let app = App::new().await;
    // Written with snapshots, so that the commands do not read all events.
    let (events, many) = (app.with_snapshots(50), 1 + 40 * 90);
    events.execute(&app.family("f1"), &id(1), &create("a"), &app.request()).await.expect("fine");
    for _ in 0..40 {
        events.execute(&app.family("f1"), &id(1), &Command::Many(90), &app.request()).await.expect("fine");
    }
    let recorded = app.recorded(1).await;
    let bytes: usize = recorded.iter().map(|event| event.raw.data["title"].as_str().map_or(0, str::len)).sum();
    assert!(bytes > 1024 * 1024, "{bytes}");
    for every in [0, 50, 1_000_000] {
        let loaded = app.with_snapshots(every).load(&app.family("f1"), &id(1)).await.expect("loaded");
        assert_eq!((loaded.version, loaded.state.applied), (many, many), "snapshots every {every}");
        assert_eq!(loaded.latest.map(|event| event.version), Some(many));
    }
    // The list is built from the last event alone, and checked against all.
    app.processor().apply_events(recorded.into_iter().next_back().into_iter().collect()).await.expect("applied");
    app.assert_consistent("after thousands").await;
}

fn snapshot_key(n: u64) -> Key {
    Key::new(format!("TODO#{}", id(n)), "SNAPSHOT#")
}

async fn snapshot(app: &App, n: u64) -> Option<Item> {
    app.engine.get(EVENTS_TABLE, &snapshot_key(n)).await.expect("the table is there")
}

/// Proves the snapshot part of N5.
#[tokio::test]
async fn snapshots_are_stored_and_used_and_not_needed() {
    let app = App::new().await;
    let events = app.with_snapshots(10);
    create_long_todo(&app, &events, 1, 25).await;
    let kept = snapshot(&app, 1).await.expect("a snapshot");
    assert_eq!(kept.get("aggregateVersion"), Some(&Value::from(20)));

    // It is used: a wrong state in it is loaded.
    let wrong_state =
        [("title", "false".into()), ("completed", false.into()), ("there", true.into()), ("applied", 70.into())];
    let wrong_state = wrong_state.map(|(name, value): (&str, Value)| (name.into(), value)).into_iter().collect();
    let wrong_state = [("form".into(), 1.into()), ("state".into(), Value::Map(wrong_state))].into_iter().collect();
    app.write_directly(Write::put(EVENTS_TABLE, kept.clone().with("state", Value::Map(wrong_state)))).await;
    let believed = events.load(&app.family("f1"), &id(1)).await.expect("loaded");
    assert_eq!((believed.version, believed.state.applied), (25, 75));
    app.write_directly(Write::put(EVENTS_TABLE, kept)).await;
    // It is a cache: the state is the same without it.
    let with = events.load(&app.family("f1"), &id(1)).await.expect("loaded");
    app.write_directly(Write::delete(EVENTS_TABLE, snapshot_key(1))).await;
    let without = events.load(&app.family("f1"), &id(1)).await.expect("loaded");
    assert_eq!((with.state, with.version, with.latest), (without.state, without.version, without.latest));
}

/// Proves the snapshot part of N5.
#[tokio::test]
async fn an_invalid_snapshot_is_ignored() {
    let app = App::new().await;
    let events = app.with_snapshots(10);
    create_long_todo(&app, &events, 1, 25).await;
    create_long_todo(&app, &events, 2, 3).await;
    let kept = snapshot(&app, 1).await.expect("a snapshot");
    let recorded = app.recorded(1).await;
    let other = app.recorded(2).await;
    let with = |name: &str, value: Value| kept.clone().with(name, value);
    let Some(Value::Map(mut newer)) = kept.get("state").cloned() else { panic!("{kept:?}") };
    newer.insert("form".into(), 2.into());
    let broken = [
        ("of a version that is not there yet", with("aggregateVersion", 26.into())),
        ("of a version that its event does not have", with("aggregateVersion", 19.into())),
        ("with the id of a later event", with("lastEventId", recorded[22].id.as_str().into())),
        ("with the id of no event", with("lastEventId", "01HARX5BD7F8G9H0J1K2M3N4PQ".into())),
        ("with an id beyond all", with("lastEventId", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".into())),
        ("with the id of another todo's event", with("lastEventId", other[0].id.as_str().into())),
        ("with no state", with("state", Value::Map(Default::default()))),
        ("with a state of another kind", with("state", 7.into())),
        ("of a newer program", with("state", Value::Map(newer))),
        ("of another family", with("familyId", "f2".into())),
    ];
    for (about, item) in broken {
        app.write_directly(Write::put(EVENTS_TABLE, item)).await;
        let loaded = events.load(&app.family("f1"), &id(1)).await;
        let loaded = loaded.unwrap_or_else(|error| panic!("a snapshot {about}: {error}"));
        assert_eq!((loaded.version, loaded.state.applied), (25, 25), "a snapshot {about}");
        assert_eq!(loaded.state.title.trim(), "25", "a snapshot {about}");
    }
    // Later commands replace it.
    let last = Command::Number(99);
    for _ in 0..5 {
        events.execute(&app.family("f1"), &id(1), &last, &app.request()).await.expect("fine");
    }
}

/// Proves the versions part of N5.
#[tokio::test]
async fn an_old_event_is_upcast_step_by_step() {
    let app = App::new().await;
    app.execute_all(1, [create("milk"), Command::Rename("bread".to_owned()), Command::Complete(true)]).await;
    let later: Events<LaterTodo> = Events::new(&design(), "todo", EventsOptions::default()).expect("an aggregate");
    let loaded = later.load(&app.family("f1"), &id(1)).await.expect("loaded");
    assert_eq!((loaded.state.name.as_str(), loaded.version), ("bread", 3));
    // The stored event stays as it was written.
    assert_eq!(app.recorded(1).await[0].raw.data, *json!({ "title": "milk" }).as_object().expect("a map"));
}

/// Proves the versions part of N5.
#[tokio::test]
async fn an_event_of_a_newer_program_is_an_error_that_names_it() {
    let app = App::new().await;
    app.execute_all(1, [create("milk")]).await;
    let event = app.recorded(1).await.remove(0);
    let (_, item) = app.event_item(&event).await;
    app.write_directly(Write::put(EVENTS_TABLE, item.with("eventVersion", 2))).await;
    let error: Error = app.events.load(&app.family("f1"), &id(1)).await.expect_err("it cannot be understood");
    assert!(matches!(error.kind(), ErrorKind::UnreadableEvent { event: named, .. } if *named == event.id), "{error}");
    assert_eq!(
        error.to_string(),
        format!("the event {} cannot be understood: TodoCreated in version 2: it is newer than this program", event.id)
    );
}

/// A state is never loaded from events with a missing or a duplicate version.
#[tokio::test]
async fn events_with_a_missing_or_duplicate_version_are_not_loaded() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), Command::Number(1), Command::Number(2)]).await;
    let events = app.recorded(1).await;
    let (key, item) = app.event_item(&events[1]).await;
    app.write_directly(Write::delete(EVENTS_TABLE, key.clone())).await;
    let error = app.events.load(&app.family("f1"), &id(1)).await.expect_err("one is missing");
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
    app.write_directly(Write::put(EVENTS_TABLE, item.clone())).await;
    app.events.load(&app.family("f1"), &id(1)).await.expect("it is back");

    // The same version twice.
    let (start, end) = events[1].id.split_at(25);
    let twin = format!("{start}{}", if end == "Z" { "Y" } else { "Z" });
    let fork =
        item.with("SK", format!("EVENT#{twin}").as_str()).with("eventId", twin.as_str()).with("GSI1SK", twin.as_str());
    app.write_directly(Write::put(EVENTS_TABLE, fork)).await;
    let error = app.events.load(&app.family("f1"), &id(1)).await.expect_err("one is too many");
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn a_snapshot_of_the_last_event_is_used_and_one_beside_it_is_not() {
    let app = App::new().await;
    let events = app.with_snapshots(10);
    create_long_todo(&app, &events, 1, 9).await;
    app.clock.advance(Duration::from_secs(1));
    let last = events.execute(&app.family("f1"), &id(1), &Command::Number(10), &app.request()).await.expect("fine");
    let last = last.latest.expect("an event").id;
    let kept = snapshot(&app, 1).await.expect("a snapshot");
    let Some(Value::Map(mut state)) = kept.get("state").cloned() else { panic!("{kept:?}") };
    let Some(Value::Map(inner)) = state.get_mut("state") else { panic!("{kept:?}") };
    inner.insert("applied".into(), 70.into());
    let wrong_state = kept.with("state", Value::Map(state));
    app.write_directly(Write::put(EVENTS_TABLE, wrong_state.clone())).await;
    let believed = events.load(&app.family("f1"), &id(1)).await.expect("loaded");
    assert_eq!((believed.version, believed.state.applied), (10, 70));

    let before = ulid::Ulid(ulid::Ulid::from_string(&last).expect("a ULID").0 - 1).to_string();
    app.write_directly(Write::put(EVENTS_TABLE, wrong_state.with("lastEventId", before.as_str()))).await;
    let loaded = events.load(&app.family("f1"), &id(1)).await.expect("loaded");
    assert_eq!((loaded.version, loaded.state.applied), (10, 10), "it is of no event");
}

#[tokio::test]
async fn a_head_that_does_not_fit_the_last_event_is_damage() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), Command::Number(1), Command::Number(2)]).await;
    let key = Key::new(format!("TODO#{}", id(1)), "HEAD#");
    let head = app.engine.get(EVENTS_TABLE, &key).await.expect("the table is there").expect("a head");
    let broken = [
        ("with a version too high", head.clone().with("aggregateVersion", 4)),
        ("with another last event", head.clone().with("lastEventId", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ")),
    ];
    for (about, broken) in broken {
        app.write_directly(Write::put(EVENTS_TABLE, broken)).await;
        let error = app.events.load(&app.family("f1"), &id(1)).await.expect_err(about);
        assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "a head {about}: {error}");
    }
    app.write_directly(Write::put(EVENTS_TABLE, head)).await;
    assert_eq!(app.events.load(&app.family("f1"), &id(1)).await.expect("loaded").version, 3);
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_not_a_new_aggregate_or_an_invalid_snapshot() {
    let app = App::new().await;
    create_long_todo(&app, &app.with_snapshots(10), 1, 12).await;
    let store = InstrumentedStore::new(Arc::clone(&app.store));
    let process = app.on_store(store.clone());
    let events = process.with_snapshots(10);
    for part in ["HEAD#", "SNAPSHOT#", "EVENT#"] {
        let is_part = move |call: &Call| !call.is_write() && format!("{call:?}").contains(part);
        let fault = Fault::fail_before(|| nagaya_store::Error::engine("the disk is gone for a moment"));
        let fault = store.inject(fault.matching(is_part).once());
        let error = events.load(&process.family("f1"), &id(1)).await.expect_err(part);
        assert_eq!((error.code(), fault.hits()), ("engine", 1), "{part}");
        let loaded = events.load(&process.family("f1"), &id(1)).await.expect("loaded");
        assert_eq!((loaded.version, loaded.state.applied), (12, 12), "{part}");
    }
}
