//! The list does not depend on the order of events, or on repeated ones.

use nagaya_events::{Inspector, RecordedEvent};
use proptest::{prelude::*, sample::Index};
use tokio::runtime::Runtime;

use crate::{
    app::{App, id},
    decide_evolve::command,
    todo::Command,
};

/// Commands on a few todos, and the batches in which their events arrive.
fn commands_and_batches() -> impl Strategy<Value = (Vec<(u64, Command)>, Vec<Vec<Index>>)> {
    let commands = prop::collection::vec((1_u64..4, command()), 1..25);
    // Random events, some of them several times, some of them never.
    let batches = prop::collection::vec(prop::collection::vec(any::<Index>(), 0..12), 1..6);
    (commands, batches)
}

async fn all_events(app: &App) -> Vec<RecordedEvent> {
    let inspector: Inspector = app.inspector();
    let mut all = Vec::new();
    for n in 1..4 {
        all.extend(inspector.events(&app.family("f1"), &id(n)).await.expect("events"));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Proves T10. Proves the order part of T22.
    #[test]
    fn the_list_does_not_depend_on_the_order_of_arrival((commands, batches) in commands_and_batches()) {
        Runtime::new().expect("a runtime").block_on(async {
            let app = App::new().await;
            for (n, command) in commands {
                let _ = app.execute(n, command).await;
            }
            let events = all_events(&app).await;
            if events.is_empty() {
                return;
            }
            // In order, one after the other.
            let in_order = App::new().await;
            for event in &events {
                in_order.processor().apply_events(vec![event.clone()]).await.expect("applied");
            }
            let expected = in_order.listed().await;

            // In random order, to several processors at once.
            let fed = batches.iter().map(|batch| {
                let batch = batch.iter().map(|index| index.get(&events).clone()).collect();
                let processor = app.processor();
                async move { processor.apply_events(batch).await.expect("applied") }
            });
            futures_util::future::join_all(fed).await;
            // Each todo is at its highest version that has arrived; its last event completes it.
            let last = |n: u64| events.iter().rev().find(|event| event.aggregate == id(n)).cloned();
            app.processor().apply_events((1..4).filter_map(last).collect()).await.expect("applied");
            assert_eq!(app.listed().await, expected);
            app.assert_consistent("after all of it").await;

            // All once more, in reverse order.
            app.processor().apply_events(events.iter().rev().cloned().collect()).await.expect("applied");
            assert_eq!(app.listed().await, expected);
        });
    }
}
