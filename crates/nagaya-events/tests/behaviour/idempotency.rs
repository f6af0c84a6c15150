//! A command with an idempotency key is executed once.

use std::{sync::Arc, time::Duration};

use nagaya_events::{CommandRequest, ErrorKind, Executed, Failure};
use nagaya_tenancy::Principal;
use nagaya_testing::{Call, Fault, InstrumentedStore};

use crate::{
    app::{App, EVENTS_TABLE, create, id, rename},
    todo::{Command, Todo},
};

type CommandResult = Result<Executed<Todo, String>, Failure<&'static str>>;

async fn execute_with_key(
    app: &App,
    family: &str,
    n: u64,
    command: Command,
    key: &str,
    request: &str,
) -> CommandResult {
    let request = CommandRequest { idempotency: Some((key, request.as_bytes())), ..app.request() };
    app.events.execute(&app.family(family), &id(n), &command, &request).await
}

/// Proves T8's concurrency.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_concurrent_equal_requests_create_one_event_and_get_one_answer() {
    let app = Arc::new(App::new().await);
    // Each would create its own todo.
    let requests = (1..=50_u64).map(|n| {
        let app = Arc::clone(&app);
        tokio::spawn(
            async move { execute_with_key(&app, "f1", n, create("milk"), "key", "POST milk").await.expect("fine") },
        )
    });
    let mut answers = Vec::new();
    for request in requests.collect::<Vec<_>>() {
        let done = request.await.expect("no panic");
        answers.push((done.aggregate, done.reply, done.version, done.latest.map(|event| event.id)));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let events = app.stored(EVENTS_TABLE).await.into_iter().filter(|item| item.get("eventType").is_some()).count();
    assert_eq!(events, 1);
}

/// Proves the same-answer part of T8.
#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_despite_later_events() {
    let app = App::new().await;
    app.execute_all(1, [create("milk")]).await;
    let first = execute_with_key(&app, "f1", 1, rename("bread"), "key", "bread").await.expect("fine");
    app.execute_all(1, [rename("eggs"), Command::Delete]).await;
    let again = execute_with_key(&app, "f1", 1, rename("bread"), "key", "bread").await.expect("fine");
    assert_eq!((again.reply, again.version, again.latest), (first.reply, first.version, first.latest));
    assert_eq!(again.events, []);
    assert_eq!(app.recorded(1).await.len(), 4);
}

/// Proves the same-answer part of T8.
#[tokio::test]
async fn a_command_without_events_is_recorded_as_well() {
    let app = App::new().await;
    app.execute_all(1, [create("milk")]).await;
    let first = execute_with_key(&app, "f1", 1, rename("milk"), "key", "milk").await.expect("fine");
    app.execute_all(1, [rename("bread")]).await;
    // Executed now, it would rename.
    let again = execute_with_key(&app, "f1", 1, rename("milk"), "key", "milk").await.expect("fine");
    assert_eq!((again.version, again.reply.as_str(), first.version), (1, "milk", 1));
    assert_eq!(app.recorded(1).await.len(), 2);
}

/// Proves the other-request part of T8.
#[tokio::test]
async fn a_key_is_refused_for_another_request_and_belongs_to_one_user() {
    let app = App::new().await;
    execute_with_key(&app, "f1", 1, create("milk"), "key", "POST milk").await.expect("fine");
    let refused = execute_with_key(&app, "f1", 2, create("bread"), "key", "POST bread").await;
    match refused {
        Err(Failure::Error(error)) => assert!(matches!(error.kind(), ErrorKind::KeyReused), "{error}"),
        other => panic!("{other:?}"),
    }
    let other_user = Principal::new("f1", "u-2");
    let tenant = app.nagaya.tenant(&other_user).expect("a family");
    let request = CommandRequest { idempotency: Some(("key", b"POST bread")), ..app.request() };
    let done = app.events.execute(&tenant, &id(2), &create("bread"), &request).await.expect("fine");
    assert_eq!((done.aggregate, done.reply.as_str()), (id(2), "bread"));
}

/// Proves the expiry part of T8.
#[tokio::test]
async fn a_key_expires_after_a_day_also_before_the_sweep() {
    for swept in [false, true] {
        let app = App::new().await;
        execute_with_key(&app, "f1", 1, create("milk"), "key", "POST milk").await.expect("fine");
        app.clock.advance(Duration::from_secs(24 * 3_600 - 1));
        let early = execute_with_key(&app, "f1", 2, create("milk"), "key", "POST milk").await.expect("fine");
        assert_eq!(early.aggregate, id(1));
        app.clock.advance(Duration::from_secs(3));
        if swept {
            app.engine.sweep().await.expect("swept");
        }
        // Also for another request.
        let late = execute_with_key(&app, "f1", 3, create("bread"), "key", "POST bread").await.expect("fine");
        assert_eq!((late.aggregate, late.events.len()), (id(3), 1));
        let again = execute_with_key(&app, "f1", 4, create("bread"), "key", "POST bread").await.expect("fine");
        assert_eq!(again.aggregate, id(3));
    }
}

/// A refused command has not happened, and may be repeated.
#[tokio::test]
async fn a_refusal_is_not_recorded() {
    let app = App::new().await;
    let refused = execute_with_key(&app, "f1", 1, rename("bread"), "key", "bread").await;
    assert!(matches!(refused, Err(Failure::Refused("not there"))), "{refused:?}");
    app.execute_all(1, [create("milk")]).await;
    assert_eq!(execute_with_key(&app, "f1", 1, rename("bread"), "key", "bread").await.expect("fine").version, 2);
}

#[tokio::test]
async fn a_user_of_the_same_name_of_another_issuer_has_keys_of_their_own() {
    let app = App::new().await;
    let request = CommandRequest { idempotency: Some(("key", b"milk")), ..app.request() };
    for (n, issuer) in [(1, "https://one.example.com"), (2, "https://two.example.com")] {
        let user = Principal { issuer: Some(issuer.into()), ..Principal::new("f1", "u-1") };
        let family = app.nagaya.tenant(&user).expect("a family");
        let done = app.events.execute(&family, &id(n), &create(issuer), &request).await.expect("fine");
        assert_eq!((done.aggregate, done.reply.as_str()), (id(n), issuer));
    }
}

#[tokio::test]
async fn a_snapshot_of_later_events_does_not_change_the_first_answer() {
    let app = App::new().await;
    let events = app.with_snapshots(2);
    let execute = async |command: Command, key: Option<&str>| {
        let request = CommandRequest { idempotency: key.map(|key| (key, &b"request"[..])), ..app.request() };
        events.execute(&app.family("f1"), &id(1), &command, &request).await.expect("fine")
    };
    execute(create("milk"), None).await;
    let first = execute(rename("bread"), Some("key")).await;
    for number in 3..=5 {
        execute(Command::Number(number), None).await;
    }
    let again = execute(rename("bread"), Some("key")).await;
    assert_eq!((again.reply, again.version, again.latest), (first.reply, first.version, first.latest));
}

#[tokio::test]
async fn a_request_whose_record_cannot_be_read_is_not_executed() {
    let app = App::new().await;
    let store = InstrumentedStore::new(Arc::clone(&app.store));
    let process = app.on_store(store.clone());
    let is_record = |call: &Call| !call.is_write() && format!("{call:?}").contains("IDEMPOTENCY#");
    let fault = Fault::fail_before(|| nagaya_store::Error::engine("the disk is gone for a moment"));
    let fault = store.inject(fault.matching(is_record).once());
    let failed = execute_with_key(&process, "f1", 1, create("milk"), "key", "POST milk").await;
    assert!(matches!(failed, Err(Failure::Error(_))), "{failed:?}");
    assert_eq!((fault.hits(), app.stored(EVENTS_TABLE).await.len()), (1, 0));
    execute_with_key(&process, "f1", 1, create("milk"), "key", "POST milk").await.expect("fine");
}
