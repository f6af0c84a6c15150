//! An event that cannot be applied waits with its later siblings, and others go on.

use nagaya_events::{ErrorKind, Settled};
use nagaya_store::{Store as _, Write};

use crate::{
    app::{App, EVENTS, create, id, rename},
    todo::Command,
};

/// Proves T11.
#[tokio::test]
async fn a_poison_event_parks_its_todo_and_later_events_line_up_while_others_go_on() {
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
        assert_eq!(letter.at, app.clock.millis());

        // Later ones line up, and nobody else waits for them.
        app.execute_all(1, [Command::Complete(true)]).await;
        app.execute_all(2, [rename("y")]).await;
        app.project_all().await;
        assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 y v2 active"], "{poison}");
        assert_eq!(app.processor().dead_letters().await.expect("letters"), letters);
        let verified = app.processor().verify(None).await.expect("checked");
        assert_eq!((verified.holds(), verified.parked), (false, 1));

        // Without a change it fails again.
        assert_eq!(app.processor().retry(letter).await.expect("tried"), Settled::ParkedAgain, "{poison}");
        assert_eq!(app.processor().dead_letters().await.expect("letters").len(), 1);

        // With one, everything behind it comes.
        app.list.becomes_strong();
        assert_eq!(app.processor().retry(letter).await.expect("tried"), Settled::InStep);
        assert_eq!(app.listed().await, ["f1/1 b v4", "f1/2 y v2 active"], "{poison}");
        assert_eq!(app.processor().dead_letters().await.expect("letters"), []);
        app.assert_consistent(poison).await;
    }
}

/// Proves the going-on part of T11: an item that the design does not allow is as bad as an event that fails.
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
    app.list.becomes_strong();
    assert_eq!(app.processor().retry(&letter).await.expect("tried"), Settled::InStep);
    assert_eq!(app.listed().await, ["f1/1 poison: unfit v23", "f1/2 x v1 active"]);
    app.assert_consistent("once it can").await;
}

/// Proves the dropping part of T11.
#[tokio::test]
async fn dropping_leaves_the_event_out_and_goes_on_to_the_next_poison() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("poison 1"), Command::Complete(true), rename("poison 2"), rename("b")])
        .await;
    app.project_all().await;
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    assert_eq!(app.processor().drop_event(&letter).await.expect("dropped"), Settled::ParkedAgain);
    assert_eq!(app.listed().await, ["f1/1 a v3"]);
    let second = app.processor().dead_letters().await.expect("letters").remove(0);
    assert_eq!(second.version, 4);

    // The first letter is an old one by now.
    let old = app.processor().drop_event(&letter).await.expect_err("it is settled");
    assert!(matches!(old.kind(), ErrorKind::Busy(_)), "{old}");
    assert_eq!(app.processor().drop_event(&second).await.expect("dropped"), Settled::InStep);
    assert_eq!(app.listed().await, ["f1/1 b v5"]);
    assert_eq!(app.processor().dead_letters().await.expect("letters"), []);
    let gone = app.processor().retry(&second).await.expect_err("it is settled");
    assert!(matches!(gone.kind(), ErrorKind::Busy(_)), "{gone}");

    // What was left out is told, and repairing does not trip over it.
    let left_out = async || app.processor().verify(None).await.expect("checked").wrong.first().map(|wrong| wrong.why);
    assert_eq!(left_out().await, Some("leaves out an event that cannot be applied"));
    assert_eq!(app.processor().repair("f1", &|_| {}).await.expect("nothing to do"), 0);
    app.execute_all(1, [rename("c")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 c v6"]);
    assert_eq!(left_out().await, Some("leaves out an event that cannot be applied"));
    // Once it can be applied, repairing brings it in.
    app.list.becomes_strong();
    assert_eq!(app.processor().repair("f1", &|_| {}).await.expect("repaired"), 0);
    app.assert_consistent("once it can be applied").await;
    // All events are still there.
    assert_eq!(app.recorded(1).await.len(), 6);
}

/// Proves the first-event part of T11.
#[tokio::test]
async fn a_todo_whose_first_event_is_poison_is_not_listed_until_it_is_settled() {
    let app = App::new().await;
    app.execute_all(1, [create("poison"), rename("b")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, [""; 0]);
    let letter = app.processor().dead_letters().await.expect("letters").remove(0);
    app.list.becomes_strong();
    assert_eq!(app.processor().retry(&letter).await.expect("tried"), Settled::InStep);
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
}

/// Proves the going-on part of T11: not even a hole in the events, or one that is no event, holds up the others.
#[tokio::test]
async fn a_todo_whose_events_are_damaged_is_parked_and_others_go_on() {
    for unreadable in [false, true] {
        let app = App::new().await;
        app.execute_all(1, [create("a")]).await;
        app.project_all().await;
        app.execute_all(1, [rename("b"), rename("c")]).await;
        let events = app.recorded(1).await;
        let (key, item) = app.event_item(&events[1]).await;
        let mut damaged = item.clone();
        damaged.remove("aggregateVersion");
        // The stream tells of the third only, and where the second was is a hole.
        app.write_directly(if unreadable { Write::put(EVENTS, damaged) } else { Write::delete(EVENTS, key) }).await;
        app.execute_all(2, [create("x")]).await;
        let other = app.recorded(2).await;
        app.processor().feed([vec![events[2].clone()], other].concat()).await.expect("others go on");
        assert_eq!(app.listed().await, ["f1/1 a v1 active", "f1/2 x v1 active"]);
        let letter = app.processor().dead_letters().await.expect("letters").remove(0);
        assert_eq!((letter.aggregate.as_str(), letter.version), (id(1).as_str(), 2));

        // Put right, it goes on; or without it.
        if unreadable {
            app.write_directly(Write::put(EVENTS, item)).await;
            assert_eq!(app.processor().retry(&letter).await.expect("tried"), Settled::InStep);
            app.project_all().await;
            app.assert_consistent("after putting it right").await;
        } else {
            assert_eq!(app.processor().drop_event(&letter).await.expect("dropped"), Settled::InStep);
        }
        assert_eq!(app.listed().await, ["f1/1 c v3 active", "f1/2 x v1 active"]);
    }
}

/// An item that is no event, in the stream itself, holds up nobody.
#[tokio::test]
async fn a_change_that_cannot_be_read_as_an_event_does_not_stop_the_stream() {
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
    app.write_directly(Write::put(EVENTS, item)).await;
    app.execute_all(1, [rename("b")]).await;
    app.project_all().await;
    assert_eq!(app.listed().await, ["f1/1 b v2 active"]);
    let letters = app.processor().dead_letters().await.expect("letters");
    assert_eq!(letters.iter().map(|letter| letter.aggregate.clone()).collect::<Vec<_>>(), [id(7)]);
    assert!(app.engine.capabilities().changes);
}

/// Proves the listing part of T11.
#[tokio::test]
async fn all_dead_letters_are_listed_however_many_there_are() {
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
