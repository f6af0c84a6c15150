//! A crash at any call to the store: nothing is lost, nothing happens twice, and a restart finishes what was started.

use std::sync::Arc;

use nagaya_events::{Request, Settled};
use nagaya_store::Store;

use crate::{
    faults::{FAULTS, Fault, Faulty},
    house::{EVENTS, House, create, id, rename},
    todo::Command,
};

/// Runs a set-up, then work that fails at the n-th store call, for every n and every kind of fault, and then a check in
/// another process.
async fn at_every_call<S, D, T>(
    set_up: impl AsyncFn(&House) -> S,
    work: impl AsyncFn(&House, &S) -> D,
    then: impl AsyncFn(&House, S, &str) -> T,
) {
    for fault in FAULTS {
        let mut n = 0;
        loop {
            let house = House::new().await;
            let set = set_up(&house).await;
            let faulty = Faulty::new(Arc::clone(&house.engine) as Arc<dyn Store>);
            let process = house.through(faulty.clone());
            faulty.arm(n, fault);
            drop(faulty.live(work(&process, &set)).await);
            let reached = faulty.calls() > n;
            drop(process);
            then(&house.again(), set, &format!("{fault:?} at call {n}")).await;
            if !reached {
                assert!(n > 1, "it made {n} calls only");
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
    let ask = async |house: &House| {
        let events = house.with_snapshots(2);
        let request = Request { once: Some(("key", b"request")), ..house.request() };
        events.execute(&house.family("f1"), &id(1), &rename("b"), &request).await
    };
    at_every_call(
        async |house| house.tell(1, [create("a")]).await,
        async |house, ()| drop(ask(house).await),
        async |house, (), about| {
            let so_far = house.recorded(1).await.len();
            assert!(so_far == 1 || so_far == 2, "{about}");
            let done = ask(house).await.unwrap_or_else(|failure| panic!("{about}: {failure:?}"));
            assert_eq!((done.version, done.reply.as_str()), (2, "b"), "{about}");
            assert_eq!(house.recorded(1).await.len(), 2, "{about}");
            house.settle().await;
            assert_eq!(house.listed().await, ["f1/1 b v2 active"], "{about}");
            house.is_whole(about).await;
        },
    )
    .await;
}

/// Proves the appending part of N9: a write whose response is lost happened completely or not at all.
#[tokio::test]
async fn a_command_without_a_key_happens_completely_or_not_at_all() {
    at_every_call(
        async |_| (),
        async |house, ()| drop(house.ask(1, create("a")).await),
        async |house, (), about| {
            let items = house.stored(EVENTS).await.len();
            assert!(items == 0 || items == 2, "{about}: an event and a head, or neither: {items}");
            let made = house.ask(1, create("a")).await;
            assert_eq!(made.is_ok(), items == 0, "{about}: {made:?}");
            house.settle().await;
            house.is_whole(about).await;
        },
    )
    .await;
}

/// Proves the projecting and parking part of N9.
#[tokio::test]
async fn an_interrupted_step_is_repeated() {
    at_every_call(
        async |house| {
            house.tell(1, [create("a")]).await;
            house.settle().await;
            house.tell(1, [rename("b"), Command::Complete(true)]).await;
            house.tell(2, [create("x"), rename("poison"), rename("y")]).await;
            house.tell(3, [create("z"), Command::Delete]).await;
        },
        async |house, ()| drop(house.processor().step().await),
        async |house, (), about| {
            house.settle().await;
            assert_eq!(house.listed().await, ["f1/1 b v3", "f1/2 x v1 active"], "{about}");
            let letters = house.processor().dead_letters().await.expect("letters");
            assert_eq!(letters.iter().map(|letter| letter.version).collect::<Vec<_>>(), [2], "{about}");
            house.list.fix();
            assert_eq!(house.processor().retry(&letters[0]).await.expect("tried"), Settled::InStep, "{about}");
            assert_eq!(house.listed().await, ["f1/1 b v3", "f1/2 y v3 active"], "{about}");
            house.is_whole(about).await;
        },
    )
    .await;
}

/// Proves the first-step part of N9.
#[tokio::test]
async fn an_interrupted_first_step_is_repeated() {
    at_every_call(
        async |house| {
            house.tell(1, [create("a"), rename("b")]).await;
            house.tell(2, [create("x")]).await;
        },
        async |house, ()| drop(house.processor().step().await),
        async |house, (), about| {
            house.tell(2, [rename("y")]).await;
            house.settle().await;
            assert_eq!(house.listed().await, ["f1/1 b v2 active", "f1/2 y v2 active"], "{about}");
            house.is_whole(about).await;
        },
    )
    .await;
}

/// Proves the dead-letter part of N9.
#[tokio::test]
async fn an_interrupted_retry_or_drop_is_repeated() {
    for dropped in [false, true] {
        let settle = async |house: &House, letter: &_| match dropped {
            true => house.processor().drop_event(letter).await,
            false => house.processor().retry(letter).await,
        };
        at_every_call(
            async |house| {
                house.tell(1, [create("a"), rename("poison"), rename("b")]).await;
                house.settle().await;
                house.processor().dead_letters().await.expect("letters").remove(0)
            },
            async |house, letter| {
                if !dropped {
                    house.list.fix();
                }
                drop(settle(house, letter).await);
            },
            async |house, letter, about| {
                if !dropped {
                    house.list.fix();
                }
                // It is still parked, or not; either state is consistent.
                let letters = house.processor().dead_letters().await.expect("letters");
                if !letters.is_empty() {
                    assert_eq!(letters, [letter], "{about}");
                    assert_eq!(settle(house, &letters[0]).await.expect("settled"), Settled::InStep, "{about}");
                }
                assert_eq!(house.listed().await, ["f1/1 b v3 active"], "{about}");
                assert_eq!(house.processor().dead_letters().await.expect("letters"), [], "{about}");
                house.list.fix();
                house.is_whole(about).await;
            },
        )
        .await;
    }
}

/// Proves the rebuilding part of N9 and of T12.
#[tokio::test]
async fn an_interrupted_rebuild_continues() {
    at_every_call(
        async |house| {
            house.tell(1, [create("a"), rename("b")]).await;
            house.tell(2, [create("x"), Command::Delete]).await;
            house.settle().await;
        },
        async |house, ()| drop(house.processor().rebuild(&|_| {}).await),
        async |house, (), about| {
            // Writes continued during the rebuild.
            house.tell(1, [rename("c")]).await;
            house.settle().await;
            assert_eq!(house.listed().await, ["f1/1 c v3 active"], "{about}");
            let verified = house.processor().rebuild(&|_| {}).await.unwrap_or_else(|error| panic!("{about}: {error}"));
            assert!(verified.holds(), "{about}: {verified:#?}");
            assert_eq!(house.processor().generations().await.expect("read").current, verified.generation, "{about}");
            assert!(verified.generation <= 3, "{about}");
            assert_eq!(house.listed().await, ["f1/1 c v3 active"], "{about}");
            house.is_whole(about).await;
        },
    )
    .await;
}

/// Proves the rollback part of N9 and of T12.
#[tokio::test]
async fn an_interrupted_rollback_or_abandonment_happened_completely_or_not_at_all() {
    at_every_call(
        async |house| {
            house.tell(1, [create("a")]).await;
            house.settle().await;
            assert!(house.processor().rebuild(&|_| {}).await.expect("rebuilt").holds());
            house.tell(1, [rename("b")]).await;
            house.settle().await;
            house.tell(2, [create("poison")]).await;
            assert!(!house.processor().rebuild(&|_| {}).await.expect("built").holds());
        },
        async |house, ()| {
            drop(house.processor().roll_back().await);
            drop(house.processor().abandon().await);
        },
        async |house, (), about| {
            house.list.fix();
            let before = house.processor().generations().await.expect("read");
            let mut known = [Some(before.current), before.previous];
            known.sort();
            assert_eq!(known, [Some(1), Some(2)], "{about}");
            assert!(matches!(before.building, None | Some(3)), "{about}");
            house.tell(1, [rename("c")]).await;
            house.settle().await;
            assert_eq!(house.listed().await.first().map(String::as_str), Some("f1/1 c v3 active"), "{about}");
            house.processor().abandon().await.expect("abandoned");
            assert_eq!(house.processor().roll_back().await.expect("rolled"), before.previous.expect("one"), "{about}");
            assert_eq!(house.listed().await.first().map(String::as_str), Some("f1/1 c v3 active"), "{about}");
            assert!(house.processor().rebuild(&|_| {}).await.expect("built").holds(), "{about}");
            assert_eq!(house.listed().await, ["f1/1 c v3 active", "f1/2 poison v1 active"], "{about}");
            house.is_whole(about).await;
        },
    )
    .await;
    assert_eq!(FAULTS[0], Fault::Refused);
}
