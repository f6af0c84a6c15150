//! Changes of stored events from outside are detected.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use nagaya_store::{Item, Key, Value, Write};
use nagaya_tenancy::Principal;
use nagaya_testing::{Call, Fault, InstrumentedStore};

use crate::{
    app::{App, EVENTS_TABLE, create, id, rename},
    todo::Command,
};

/// The item of an event with another id.
fn with_event_id(item: &Item, event: &str) -> Item {
    item.clone().with("SK", format!("EVENT#{event}").as_str()).with("eventId", event).with("GSI1SK", event)
}

/// The broken chains: todo and reason.
async fn broken(app: &App) -> Vec<(String, String)> {
    let operator = app.nagaya.operator("a test of it", &Principal::new("", "tester"));
    let inspector = app.inspector();
    let follower = operator.change_source(inspector.entity()).await.expect("followed");
    let mut broken = inspector.verify_all(&follower, &|_| {}).await.expect("checked").broken;
    let heads = operator.change_source(inspector.head_entity()).await.expect("followed");
    broken.extend(inspector.find_heads_without_events(&heads).await.expect("checked"));
    broken.into_iter().map(|broken| (broken.aggregate, broken.why)).collect()
}

/// An id close to an event's, also for one that ends in the last character.
fn similar_event_id(event: &str) -> String {
    format!("{}{}", &event[..25], if event.ends_with('Z') { 'Y' } else { 'Z' })
}

/// Proves the tampering part of N5.
#[tokio::test]
async fn a_change_a_removal_and_an_insertion_are_detected() {
    let app = App::new().await;
    for n in 1..=3 {
        app.execute_all(n, [create("a"), rename("b"), Command::Complete(true)]).await;
    }
    assert_eq!(broken(&app).await, []);
    let events = app.recorded(2).await;
    let mut stored = Vec::new();
    for event in &events {
        stored.push(app.event_item(event).await);
    }
    let head = Key::new(format!("TODO#{}", id(2)), "HEAD#");
    let head_item = app.stored(EVENTS_TABLE).await.into_iter().find(|item| {
        item.get("SK").and_then(Value::as_str) == Some("HEAD#")
            && item.get("aggregateId").and_then(Value::as_str) == Some(&id(2))
    });
    let head_item = head_item.expect("a head");
    let (last_key, last) = stored[2].clone();
    let changed_data =
        stored[1].1.clone().with("data", Value::Map([("title".into(), "c".into())].into_iter().collect()));
    let Some(Value::Map(mut metadata)) = stored[1].1.get("metadata").cloned() else { panic!("metadata") };
    metadata.insert("correlationId".into(), "another".into());
    let changed_reason = stored[1].1.clone().with("metadata", Value::Map(metadata));
    let appended = with_event_id(&last, &similar_event_id(&events[2].id))
        .with("aggregateVersion", 4)
        .with("eventType", "TodoReopened");
    let between = with_event_id(&stored[1].1, &similar_event_id(&events[1].id));
    let all_gone: Vec<_> = stored.iter().map(|(key, _)| Write::delete(EVENTS_TABLE, key.clone())).collect();
    let put = |item: Item| vec![Write::put(EVENTS_TABLE, item)];
    for (about, writes) in [
        ("its data is changed", put(changed_data)),
        ("why it happened is changed", put(changed_reason)),
        ("its type is changed", put(last.clone().with("eventType", "TodoReopened"))),
        ("the version of its form is changed", put(last.clone().with("eventVersion", 2))),
        ("the last one is removed", vec![Write::delete(EVENTS_TABLE, last_key.clone())]),
        ("one in the middle is removed", vec![Write::delete(EVENTS_TABLE, stored[1].0.clone())]),
        ("one is put at the end", put(appended)),
        ("one is put between", put(between)),
        ("all are removed", all_gone),
        ("the head is removed", vec![Write::delete(EVENTS_TABLE, head.clone())]),
        ("the head is set back", put(head_item.clone().with("aggregateVersion", 2))),
    ] {
        for write in writes.clone() {
            app.write_directly(write).await;
        }
        let found = broken(&app).await;
        let named: Vec<_> = found.iter().map(|(aggregate, _)| aggregate.clone()).collect();
        assert_eq!(named, [id(2)], "{about}: {found:?}");
        let (_, one) = app.inspector().verify(&app.family("f1"), &id(2)).await.expect("checked");
        let why = one.expect_err(about);
        assert!(why == found[0].1 || about == "all are removed", "{about}: {why}");
        // Undo it.
        for write in writes {
            if let nagaya_store::WriteAction::Put { item, .. } = &write.action {
                let key = |name: &str| item.get(name).and_then(Value::as_str).expect("a key").to_owned();
                app.write_directly(Write::delete(EVENTS_TABLE, Key::new(key("PK"), key("SK")))).await;
            }
        }
        for (_, item) in &stored {
            app.write_directly(Write::put(EVENTS_TABLE, item.clone())).await;
        }
        app.write_directly(Write::put(EVENTS_TABLE, head_item.clone())).await;
        assert_eq!(broken(&app).await, [], "after {about}");
    }
}

/// An event of another family is not applied to a todo, and is detected.
#[tokio::test]
async fn an_event_of_another_family_in_a_todos_partition_is_detected_and_not_applied() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("b")]).await;
    app.project_all().await;
    let events = app.recorded(1).await;
    let (_, item) = app.event_item(&events[0]).await;
    let Some(Value::Map(mut metadata)) = item.get("metadata").cloned() else { panic!("metadata") };
    metadata.insert(
        "actor".into(),
        Value::Map([("userId".into(), "u".into()), ("familyId".into(), "f2".into())].into_iter().collect()),
    );
    let foreign = with_event_id(&item, &similar_event_id(&events[0].id))
        .with("GSI1PK", "FAMILY#f2")
        .with("aggregateVersion", 3)
        .with("data", Value::Map([("title".into(), "theirs".into())].into_iter().collect()))
        .with("metadata", Value::Map(metadata));
    app.write_directly(Write::put(EVENTS_TABLE, foreign)).await;
    assert_eq!(broken(&app).await.into_iter().map(|(aggregate, _)| aggregate).collect::<Vec<_>>(), [id(1)]);
    assert_eq!(app.recorded(1).await, events);
    let loaded = app.events.load(&app.family("f1"), &id(1)).await.expect("the other events are valid");
    assert_eq!((loaded.version, loaded.state.title.as_str()), (2, "b"));
    app.project_all().await;
    app.processor().rebuild(&|_| {}).await.expect("built");
    app.execute_all(1, [rename("c")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 c v3 active"]);
}

/// Proves the tampering part of N5: a command that is executed while the events are verified is no tampering.
#[tokio::test]
async fn a_command_before_any_read_of_a_verification_is_no_broken_chain() {
    let app = Arc::new(App::new().await);
    app.execute_all(1, [create("a")]).await;
    let store = InstrumentedStore::new(app.engine.clone());
    let (writer, number) = (Arc::clone(&app), Arc::new(AtomicU64::new(0)));
    let command = Fault::run_before(move |_| {
        let (writer, number) = (Arc::clone(&writer), number.fetch_add(1, Ordering::SeqCst));
        async move {
            writer.execute_all(1, [Command::Number(number)]).await;
            writer.execute_all(2 + number, [create("new"), rename("b")]).await;
        }
    });
    let commands =
        store.inject(command.matching(|call| matches!(call, Call::Get(..) | Call::Query(_) | Call::Scan(_))));
    assert_eq!(broken(&app.on_store(store.clone())).await, []);
    // An aggregate that its first event creates in the middle of it.
    let process = app.on_store(store.clone());
    for n in [7_777, 2 + commands.hits()] {
        let (_, found) = process.inspector().verify(&process.family("f1"), &id(n)).await.expect("verified");
        found.expect("it is not broken");
    }
    assert!(commands.hits() > 6, "{}", commands.hits());
    // One that is missing at the end is still found.
    commands.remove();
    let last = app.recorded(1).await.pop().expect("an event");
    let (key, _) = app.event_item(&last).await;
    app.write_directly(Write::delete(EVENTS_TABLE, key)).await;
    assert_eq!(broken(&app).await.len(), 1);
}

/// Proves the tampering part of N5: no false alarm beside concurrent writers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_break_no_chain() {
    let app = Arc::new(App::new().await);
    for n in 1..=3 {
        app.execute_all(n, [create("a")]).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4_u64)
        .map(|writer| {
            let (app, done) = (Arc::clone(&app), Arc::clone(&done));
            tokio::spawn(async move {
                let mut written = 0;
                while !done.load(Ordering::SeqCst) && written < 400 {
                    app.execute_all(1 + written % 3, [Command::Number(4 * written + writer)]).await;
                    app.execute_all(1_000 * (1 + writer) + written, [create("new"), rename("b")]).await;
                    written += 1;
                }
                written
            })
        })
        .collect();
    let other = app.restarted();
    for round in 0..15 {
        assert_eq!(broken(&other).await, [], "round {round}");
    }
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        assert!(writer.await.expect("no panic") > 0);
    }
    assert_eq!(broken(&other).await, []);
}
