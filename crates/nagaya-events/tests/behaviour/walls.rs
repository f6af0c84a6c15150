//! A family has no access to the todos of another one.

use nagaya_events::{ErrorKind, Failure, Feed, Request};

use crate::{
    house::{House, create, design, id, rename},
    todo::Command,
};

/// Proves T5's isolation. Proves the events part of N3.
#[tokio::test]
async fn a_todo_of_another_family_does_not_exist() {
    let house = House::new().await;
    let [ours, theirs] = ["f1", "f2"].map(|family| house.family(family));
    let request = Request { once: Some(("key", b"request")), ..house.request() };
    house.events.execute(&ours, &id(1), &create("ours"), &request).await.expect("fine");
    house.tell(1, (0..120).map(Command::Number)).await;
    house.settle().await;
    let before = house.recorded(1).await;

    // Neither its state, nor its history, nor its events, nor its snapshot.
    let loaded = house.events.load(&theirs, &id(1)).await.expect("nothing");
    assert_eq!((loaded.version, loaded.latest, loaded.state.there), (0, None, None));
    assert_eq!(house.events.history(&theirs, &id(1), None, None).await.expect("nothing").0, []);
    let (_, cursor) = house.events.history(&ours, &id(1), Some(1), None).await.expect("ours");
    assert!(house.events.history(&theirs, &id(1), Some(1), cursor.as_deref()).await.is_err());
    assert_eq!(house.inspector().events(&theirs, &id(1)).await.expect("nothing"), []);
    assert_eq!(house.inspector().verify(&theirs, &id(1)).await.expect("nothing").0, 0);
    assert!(theirs.get("todo", &[&id(1)]).await.is_err());

    // It cannot be changed, and a todo with its id cannot be created: the call fails soon.
    for command in [rename("theirs"), Command::Complete(true), Command::Delete] {
        let told = house.events.execute(&theirs, &id(1), &command, &house.request()).await;
        assert!(matches!(told, Err(Failure::Refused("not there"))), "{told:?}");
    }
    let told = house.events.execute(&theirs, &id(1), &create("theirs"), &house.request()).await;
    let Err(Failure::Error(error)) = told else { panic!("{told:?}") };
    assert_eq!(error.code(), "taken", "{error}");
    assert_eq!(house.recorded(1).await, before);

    // The same key of the same user in another family is another key.
    let done = house.events.execute(&theirs, &id(2), &create("theirs"), &request).await.expect("fine");
    assert_eq!((done.aggregate, done.reply.as_str()), (id(2), "theirs"));
    let request = Request { once: Some(("key", b"another")), ..house.request() };
    let told = house.events.execute(&ours, &id(3), &create("x"), &request).await;
    assert!(matches!(told, Err(Failure::Error(error)) if matches!(error.kind(), ErrorKind::KeyReused)));

    house.settle().await;
    assert_eq!(house.listed().await, ["f1/1 119 v121 active", "f2/2 theirs v1 active"]);
    house.is_whole("with two families").await;
}

/// Proves the feed's part of T5.
#[tokio::test]
async fn a_listener_gets_events_of_its_own_family_only() {
    let house = House::new().await;
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    house.events.execute(&house.family("f2"), &id(8), &create("before"), &house.request()).await.expect("fine");
    let first = house.events.execute(&house.family("f1"), &id(9), &create("before"), &house.request()).await;
    let first = first.expect("fine").latest.expect("an event").id;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (following, nagaya) = (feed.clone(), house.nagaya.clone());
    let running = tokio::spawn(async move {
        following.run(&nagaya, std::time::Duration::from_millis(1), async { drop(stopped.await) }).await;
    });
    let mut ours = feed.listen(&house.family("f1"), Some(&first)).await.expect("listening");
    for n in 0..5 {
        let family = if n % 2 == 0 { "f2" } else { "f1" };
        house.events.execute(&house.family(family), &id(10 + n), &create("now"), &house.request()).await.expect("fine");
    }
    let mut heard = Vec::new();
    while heard.last() != Some(&id(13)) {
        heard.push(ours.next().await.expect("an event").aggregate.clone());
    }
    heard.dedup();
    assert_eq!(heard, [id(9), id(11), id(13)]);
    drop(stop);
    running.await.expect("no panic");
    // The listener notices the end of the feed.
    assert_eq!(ours.next().await, None);
}
