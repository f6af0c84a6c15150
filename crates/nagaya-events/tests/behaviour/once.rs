//! A command with an idempotency key is executed once.

use std::{sync::Arc, time::Duration};

use nagaya_events::{ErrorKind, Executed, Failure, Request};

use crate::{
    house::{EVENTS, House, create, id, rename},
    todo::{Command, Todo},
};

type Told = Result<Executed<Todo, String>, Failure<&'static str>>;

async fn once(house: &House, family: &str, n: u64, command: Command, key: &str, request: &str) -> Told {
    let request = Request { once: Some((key, request.as_bytes())), ..house.request() };
    house.events.execute(&house.family(family), &id(n), &command, &request).await
}

/// Proves T8's concurrency.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_concurrent_equal_requests_create_one_event_and_get_one_answer() {
    let house = Arc::new(House::new().await);
    // Each would create its own todo.
    let requests = (1..=50_u64).map(|n| {
        let house = Arc::clone(&house);
        tokio::spawn(async move { once(&house, "f1", n, create("milk"), "key", "POST milk").await.expect("fine") })
    });
    let mut answers = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        let done = request.await.expect("no panic");
        answers.push((done.aggregate, done.reply, done.version, done.latest.map(|event| event.id)));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let events = house.stored(EVENTS).await.into_iter().filter(|item| item.get("eventType").is_some()).count();
    assert_eq!(events, 1);
}

/// Proves the same-answer part of T8.
#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_despite_later_events() {
    let house = House::new().await;
    house.tell(1, [create("milk")]).await;
    let first = once(&house, "f1", 1, rename("bread"), "key", "bread").await.expect("fine");
    house.tell(1, [rename("eggs"), Command::Delete]).await;
    let again = once(&house, "f1", 1, rename("bread"), "key", "bread").await.expect("fine");
    assert_eq!((again.reply, again.version, again.latest), (first.reply, first.version, first.latest));
    assert_eq!(again.events, []);
    assert_eq!(house.recorded(1).await.len(), 4);
}

/// Proves the same-answer part of T8.
#[tokio::test]
async fn a_command_without_events_is_recorded_as_well() {
    let house = House::new().await;
    house.tell(1, [create("milk")]).await;
    let first = once(&house, "f1", 1, rename("milk"), "key", "milk").await.expect("fine");
    house.tell(1, [rename("bread")]).await;
    // Executed now, it would rename.
    let again = once(&house, "f1", 1, rename("milk"), "key", "milk").await.expect("fine");
    assert_eq!((again.version, again.reply.as_str(), first.version), (1, "milk", 1));
    assert_eq!(house.recorded(1).await.len(), 2);
}

/// Proves the other-request part of T8.
#[tokio::test]
async fn a_key_is_refused_for_another_request_and_belongs_to_one_user() {
    let house = House::new().await;
    once(&house, "f1", 1, create("milk"), "key", "POST milk").await.expect("fine");
    let refused = once(&house, "f1", 2, create("bread"), "key", "POST bread").await;
    match refused {
        Err(Failure::Error(error)) => assert!(matches!(error.kind(), ErrorKind::KeyReused), "{error}"),
        other => panic!("{other:?}"),
    }
    let other_user = nagaya_tenancy::Principal::new("f1", "u-2");
    let tenant = house.nagaya.tenant(&other_user).expect("a family");
    let request = Request { once: Some(("key", b"POST bread")), ..house.request() };
    let done = house.events.execute(&tenant, &id(2), &create("bread"), &request).await.expect("fine");
    assert_eq!((done.aggregate, done.reply.as_str()), (id(2), "bread"));
}

/// Proves the expiry part of T8.
#[tokio::test]
async fn a_key_expires_after_a_day_also_before_the_sweep() {
    for swept in [false, true] {
        let house = House::new().await;
        once(&house, "f1", 1, create("milk"), "key", "POST milk").await.expect("fine");
        house.time.pass(Duration::from_secs(24 * 3_600 - 1));
        let early = once(&house, "f1", 2, create("milk"), "key", "POST milk").await.expect("fine");
        assert_eq!(early.aggregate, id(1));
        house.time.pass(Duration::from_secs(3));
        if swept {
            house.engine.sweep().await.expect("swept");
        }
        // Also for another request.
        let late = once(&house, "f1", 3, create("bread"), "key", "POST bread").await.expect("fine");
        assert_eq!((late.aggregate, late.events.len()), (id(3), 1));
        let again = once(&house, "f1", 4, create("bread"), "key", "POST bread").await.expect("fine");
        assert_eq!(again.aggregate, id(3));
    }
}

/// A refused command has not happened, and may be repeated.
#[tokio::test]
async fn a_refusal_is_not_recorded() {
    let house = House::new().await;
    let refused = once(&house, "f1", 1, rename("bread"), "key", "bread").await;
    assert!(matches!(refused, Err(Failure::Refused("not there"))), "{refused:?}");
    house.tell(1, [create("milk")]).await;
    assert_eq!(once(&house, "f1", 1, rename("bread"), "key", "bread").await.expect("fine").version, 2);
}
