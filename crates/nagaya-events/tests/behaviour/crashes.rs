//! A crash at any call to the store: nothing is lost, nothing happens twice, and a restart finishes what was started.

use nagaya_events::{CommandRequest, UnparkOutcome};
use nagaya_store::Error;
use nagaya_testing::{Fault, InstrumentedStore};

use crate::{
    app::{App, EVENTS_TABLE, create, id, rename},
    todo::Command,
};

type NamedFault = (&'static str, fn() -> Fault);

/// The ways in which a call fails.
const FAULTS: [NamedFault; 4] = [
    ("failed before", || Fault::fail_before(|| Error::engine("the disk is gone for a moment"))),
    ("failed after", || Fault::fail_after(|| Error::outcome_unknown("the connection was cut"))),
    ("crashed before", Fault::crash_before),
    ("crashed after", Fault::crash_after_effect),
];

/// Runs a set-up, then work that fails at the n-th store call, for every n and every kind of fault, and then a check in
/// another process.
async fn fail_at_every_call<S, D, T>(
    set_up: impl AsyncFn(&App) -> S,
    work: impl AsyncFn(&App, &S) -> D,
    then: impl AsyncFn(&App, S, &str) -> T,
) {
    for (name, fault) in FAULTS {
        let (mut n, mut hits) = (0, 0);
        loop {
            let app = App::new().await;
            let set = set_up(&app).await;
            let store = InstrumentedStore::new(app.engine.clone());
            let process = app.on_store(store.clone());
            let fault = store.inject(fault().skip(n).once());
            drop(store.until_crash(work(&process, &set)).await);
            let reached = store.calls() > n;
            hits += fault.hits();
            drop(process);
            then(&app.restarted(), set, &format!("{name} call {n}")).await;
            if !reached {
                assert!(hits > 1, "it {name} {hits} of {n} calls only");
                break;
            }
            n += 1;
            assert!(n < 500, "it does not end");
        }
    }
}

/// Proves the appending part of N9 and of T8.
#[tokio::test]
async fn a_repeated_command_with_a_key_happens_once() {
    let ask = async |app: &App| {
        let events = app.with_snapshots(2);
        let request = CommandRequest { idempotency: Some(("key", b"request")), ..app.request() };
        events.execute(&app.family("f1"), &id(1), &rename("b"), &request).await
    };
    fail_at_every_call(
        async |app| app.execute_all(1, [create("a")]).await,
        async |app, ()| drop(ask(app).await),
        async |app, (), about| {
            let so_far = app.recorded(1).await.len();
            assert!(so_far == 1 || so_far == 2, "{about}");
            let done = ask(app).await.unwrap_or_else(|failure| panic!("{about}: {failure:?}"));
            assert_eq!((done.version, done.reply.as_str()), (2, "b"), "{about}");
            assert_eq!(app.recorded(1).await.len(), 2, "{about}");
            app.project_all().await;
            assert_eq!(app.listed().await, ["f1/1 b v2 active"], "{about}");
            app.assert_consistent(about).await;
        },
    )
    .await;
}

/// Proves the appending part of N9: a write whose response is lost happened completely or not at all.
#[tokio::test]
async fn a_command_without_a_key_happens_completely_or_not_at_all() {
    fail_at_every_call(
        async |_| (),
        async |app, ()| drop(app.execute(1, create("a")).await),
        async |app, (), about| {
            let items = app.stored(EVENTS_TABLE).await.len();
            assert!(items == 0 || items == 2, "{about}: an event and a head, or neither: {items}");
            let made = app.execute(1, create("a")).await;
            assert_eq!(made.is_ok(), items == 0, "{about}: {made:?}");
            app.project_all().await;
            app.assert_consistent(about).await;
        },
    )
    .await;
}

/// Proves the projecting and parking part of N9.
#[tokio::test]
async fn an_interrupted_step_is_repeated() {
    fail_at_every_call(
        async |app| {
            app.execute_all(1, [create("a")]).await;
            app.project_all().await;
            app.execute_all(1, [rename("b"), Command::Complete(true)]).await;
            app.execute_all(2, [create("x"), rename("poison"), rename("y")]).await;
            app.execute_all(3, [create("z"), Command::Delete]).await;
        },
        async |app, ()| drop(app.processor().step().await),
        async |app, (), about| {
            app.project_all().await;
            assert_eq!(app.listed().await, ["f1/1 b v3", "f1/2 x v1 active"], "{about}");
            let letters = app.processor().dead_letters().await.expect("letters");
            assert_eq!(letters.iter().map(|letter| letter.version).collect::<Vec<_>>(), [2], "{about}");
            app.list.fix();
            assert_eq!(app.processor().retry(&letters[0]).await.expect("tried"), UnparkOutcome::UpToDate, "{about}");
            assert_eq!(app.listed().await, ["f1/1 b v3", "f1/2 y v3 active"], "{about}");
            app.assert_consistent(about).await;
        },
    )
    .await;
}

/// Proves the attempts part of N9.
#[tokio::test]
async fn an_interrupted_further_attempt_is_repeated() {
    fail_at_every_call(
        async |app| {
            app.execute_all(1, [create("a"), rename("poison"), rename("b")]).await;
            app.processor().step().await.expect("a step");
        },
        async |app, ()| {
            app.list.fix();
            drop(app.processor().retry_due().await);
        },
        async |app, (), about| {
            app.list.fix();
            app.execute_all(1, [rename("c")]).await;
            app.project_all().await;
            assert_eq!(app.processor().dead_letters().await.expect("letters"), [], "{about}");
            assert_eq!(app.listed().await, ["f1/1 c v4 active"], "{about}");
            app.assert_consistent(about).await;
        },
    )
    .await;
}

/// Proves the first-step part of N9.
#[tokio::test]
async fn an_interrupted_first_step_is_repeated() {
    fail_at_every_call(
        async |app| {
            app.execute_all(1, [create("a"), rename("b")]).await;
            app.execute_all(2, [create("x")]).await;
        },
        async |app, ()| drop(app.processor().step().await),
        async |app, (), about| {
            app.execute_all(2, [rename("y")]).await;
            app.project_all().await;
            assert_eq!(app.listed().await, ["f1/1 b v2 active", "f1/2 y v2 active"], "{about}");
            app.assert_consistent(about).await;
        },
    )
    .await;
}

/// Proves the dead-letter part of N9.
#[tokio::test]
async fn an_interrupted_retry_or_drop_is_repeated() {
    for dropped in [false, true] {
        let settle = async |app: &App, letter: &_| match dropped {
            true => app.drop_event(letter).await,
            false => app.processor().retry(letter).await,
        };
        fail_at_every_call(
            async |app| {
                app.execute_all(1, [create("a"), rename("poison"), rename("b")]).await;
                app.project_all().await;
                app.processor().dead_letters().await.expect("letters").remove(0)
            },
            async |app, letter| {
                if !dropped {
                    app.list.fix();
                }
                drop(settle(app, letter).await);
            },
            async |app, letter, about| {
                if !dropped {
                    app.list.fix();
                }
                // It is still parked, or not; either state is consistent.
                let letters = app.processor().dead_letters().await.expect("letters");
                if !letters.is_empty() {
                    assert_eq!(letters, [letter], "{about}");
                    assert_eq!(settle(app, &letters[0]).await.expect("settled"), UnparkOutcome::UpToDate, "{about}");
                }
                assert_eq!(app.listed().await, ["f1/1 b v3 active"], "{about}");
                assert_eq!(app.processor().dead_letters().await.expect("letters"), [], "{about}");
                if !dropped {
                    app.list.fix();
                }
                app.assert_consistent(about).await;
            },
        )
        .await;
    }
}

/// Proves the dead-letter part of N9: what was interrupted while an event was taken back is repaired.
#[tokio::test]
async fn an_interrupted_taking_back_is_finished_by_a_repair() {
    fail_at_every_call(
        async |app| {
            app.execute_all(1, [create("a"), rename("poison"), rename("b")]).await;
            app.project_all().await;
            let letter = app.processor().dead_letters().await.expect("letters").remove(0);
            app.drop_event(&letter).await.expect("dropped");
            app.processor().skipped_events().await.expect("listed").remove(0)
        },
        async |app, skipped| {
            app.list.fix();
            drop(app.processor().take_back(skipped, &app.operator()).await);
        },
        async |app, skipped, about| {
            app.list.fix();
            let listed = app.processor().skipped_events().await.expect("listed");
            assert!(listed.is_empty() || listed == [skipped], "{about}");
            app.processor().repair("f1", &|_| {}).await.expect("repaired");
            assert_eq!(app.listed().await, ["f1/1 b v3 active"], "{about}");
            app.assert_consistent(about).await;
        },
    )
    .await;
}

/// Proves the rebuilding part of N9 and of T12.
#[tokio::test]
async fn an_interrupted_rebuild_continues() {
    fail_at_every_call(
        async |app| {
            app.execute_all(1, [create("a"), rename("b")]).await;
            app.execute_all(2, [create("x"), Command::Delete]).await;
            app.project_all().await;
        },
        async |app, ()| drop(app.processor().rebuild(&|_| {}).await),
        async |app, (), about| {
            // Writes continued during the rebuild.
            app.execute_all(1, [rename("c")]).await;
            app.project_all().await;
            assert_eq!(app.listed().await, ["f1/1 c v3 active"], "{about}");
            let verified = app.processor().rebuild(&|_| {}).await.unwrap_or_else(|error| panic!("{about}: {error}"));
            assert!(verified.is_consistent(), "{about}: {verified:#?}");
            assert_eq!(app.processor().generations().await.expect("read").current, verified.generation, "{about}");
            assert!(verified.generation <= 3, "{about}");
            assert_eq!(app.listed().await, ["f1/1 c v3 active"], "{about}");
            app.assert_consistent(about).await;
        },
    )
    .await;
}

/// Proves the rollback part of N9 and of T12.
#[tokio::test]
async fn an_interrupted_rollback_or_abandonment_happened_completely_or_not_at_all() {
    fail_at_every_call(
        async |app| {
            app.execute_all(1, [create("a")]).await;
            app.project_all().await;
            assert!(app.processor().rebuild(&|_| {}).await.expect("rebuilt").is_consistent());
            app.execute_all(1, [rename("b")]).await;
            app.project_all().await;
            app.execute_all(2, [create("poison")]).await;
            assert!(!app.processor().rebuild(&|_| {}).await.expect("built").is_consistent());
        },
        async |app, ()| {
            drop(app.processor().roll_back().await);
            drop(app.processor().abandon().await);
        },
        async |app, (), about| {
            app.list.fix();
            let before = app.processor().generations().await.expect("read");
            let mut known = [Some(before.current), before.previous];
            known.sort();
            assert_eq!(known, [Some(1), Some(2)], "{about}");
            assert!(matches!(before.building, None | Some(3)), "{about}");
            app.execute_all(1, [rename("c")]).await;
            app.project_all().await;
            assert_eq!(app.listed().await.first().map(String::as_str), Some("f1/1 c v3 active"), "{about}");
            app.processor().abandon().await.expect("abandoned");
            assert_eq!(app.processor().roll_back().await.expect("rolled"), before.previous.expect("one"), "{about}");
            assert_eq!(app.listed().await.first().map(String::as_str), Some("f1/1 c v3 active"), "{about}");
            assert!(app.processor().rebuild(&|_| {}).await.expect("built").is_consistent(), "{about}");
            assert_eq!(app.listed().await, ["f1/1 c v3 active", "f1/2 poison v1 active"], "{about}");
            app.assert_consistent(about).await;
        },
    )
    .await;
}
