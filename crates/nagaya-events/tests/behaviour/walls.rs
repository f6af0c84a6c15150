//! A family has no access to the todos of another one.

use std::sync::Arc;

use nagaya_events::{CommandRequest, ErrorKind, Failure, Feed};
use nagaya_testing::{Call, InstrumentedStore};

use crate::{
    app::{App, create, design, id, rename},
    todo::Command,
};

/// Proves T5's isolation. Proves the events part of N3.
#[tokio::test]
async fn a_todo_of_another_family_does_not_exist() {
    let app = App::new().await;
    let [ours, theirs] = ["f1", "f2"].map(|family| app.family(family));
    let request = CommandRequest { idempotency: Some(("key", b"request")), ..app.request() };
    app.events.execute(&ours, &id(1), &create("ours"), &request).await.expect("fine");
    app.execute_all(1, (0..120).map(Command::Number)).await;
    app.project_all().await;
    let before = app.recorded(1).await;

    // Neither its state, nor its history, nor its events, nor its snapshot.
    let loaded = app.events.load(&theirs, &id(1)).await.expect("nothing");
    assert_eq!((loaded.version, loaded.latest, loaded.state.there), (0, None, None));
    assert_eq!(app.events.history(&theirs, &id(1), None, None).await.expect("nothing").0, []);
    let (_, cursor) = app.events.history(&ours, &id(1), Some(1), None).await.expect("ours");
    assert!(cursor.is_some());
    let with_cursor = app.events.history(&theirs, &id(1), Some(1), cursor.as_deref()).await.expect("nothing");
    assert_eq!(with_cursor, (Vec::new(), None));
    assert_eq!(app.inspector().events(&theirs, &id(1)).await.expect("nothing"), []);
    assert_eq!(app.inspector().verify(&theirs, &id(1)).await.expect("nothing").0, 0);
    assert!(theirs.get("todo", &[&id(1)]).await.is_err());

    // It cannot be changed, and a todo with its id cannot be created: the call fails soon.
    for command in [rename("theirs"), Command::Complete(true), Command::Delete] {
        let result = app.events.execute(&theirs, &id(1), &command, &app.request()).await;
        assert!(matches!(result, Err(Failure::Refused("not there"))), "{result:?}");
    }
    let result = app.events.execute(&theirs, &id(1), &create("theirs"), &app.request()).await;
    let Err(Failure::Error(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.code(), "taken", "{error}");
    assert_eq!(app.recorded(1).await, before);

    // The same key of the same user in another family is another key.
    let done = app.events.execute(&theirs, &id(2), &create("theirs"), &request).await.expect("fine");
    assert_eq!((done.aggregate, done.reply.as_str()), (id(2), "theirs"));
    let request = CommandRequest { idempotency: Some(("key", b"another")), ..app.request() };
    let result = app.events.execute(&ours, &id(3), &create("x"), &request).await;
    assert!(matches!(result, Err(Failure::Error(error)) if matches!(error.kind(), ErrorKind::KeyReused)));

    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 119 v121 active", "f2/2 theirs v1 active"]);
    app.assert_consistent("with two families").await;
}

/// What a call takes does not tell how many events a todo of another family has.
#[tokio::test]
async fn the_events_of_another_familys_todo_are_not_read() {
    let app = App::new().await;
    let store = InstrumentedStore::new(Arc::clone(&app.store));
    let app = app.on_store(store.clone());
    app.execute_all(1, [create("ours"), Command::Many(50)]).await;
    let theirs = app.family("f2");
    store.take(|_| true);
    for n in [1, 2] {
        assert_eq!(app.events.load(&theirs, &id(n)).await.expect("nothing").version, 0);
        assert_eq!(app.events.history(&theirs, &id(n), None, None).await.expect("nothing"), (Vec::new(), None));
        for expected in [None, Some(51)] {
            let request = CommandRequest { expected, idempotency: Some(("key", b"request")), ..app.request() };
            app.events.execute(&theirs, &id(n), &rename("theirs"), &request).await.expect_err("there is none");
        }
        let calls = store.take(|_| true);
        assert!(calls.iter().all(|call| matches!(call, Call::Get(..))), "{calls:?}");
        assert_eq!(calls.len(), 6, "a head for each, and the record of the key");
    }
    assert_eq!(app.events.history(&app.family("f1"), &id(1), None, None).await.expect("ours").0.len(), 51);
}

/// Proves the feed's part of T5.
#[tokio::test]
async fn a_listener_gets_events_of_its_own_family_only() {
    let app = App::new().await;
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    app.events.execute(&app.family("f2"), &id(8), &create("before"), &app.request()).await.expect("fine");
    let first = app.events.execute(&app.family("f1"), &id(9), &create("before"), &app.request()).await;
    let first = first.expect("fine").latest.expect("an event").id;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (following, nagaya) = (feed.clone(), app.nagaya.clone());
    let running = tokio::spawn(async move {
        following.run(&nagaya, std::time::Duration::from_millis(1), async { drop(stopped.await) }).await;
    });
    let mut ours = feed.listen(&app.family("f1"), Some(&first)).await.expect("listening");
    for n in 0..5 {
        let family = if n % 2 == 0 { "f2" } else { "f1" };
        app.events.execute(&app.family(family), &id(10 + n), &create("now"), &app.request()).await.expect("fine");
    }
    let mut received = Vec::new();
    while received.last() != Some(&id(13)) {
        received.push(ours.next().await.expect("an event").aggregate.clone());
    }
    received.dedup();
    assert_eq!(received, [id(9), id(11), id(13)]);
    drop(stop);
    running.await.expect("no panic");
    // The listener notices the end of the feed.
    assert_eq!(ours.next().await, None);
}
