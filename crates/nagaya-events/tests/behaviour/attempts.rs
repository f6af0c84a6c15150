//! An event that fails is tried again later, beside the steps.

use std::time::Duration;

use nagaya_events::{DeadLetter, Processor, ProcessorOptions, RetryReport};
use nagaya_testing::{Fault, InstrumentedStore};

use crate::{
    app::{App, create, rename},
    todo::Command,
};

/// A processor with the attempts of `nagaya serve`: four, after 50, 100 and 200 ms.
fn processor(app: &App) -> Processor {
    app.processor_with(ProcessorOptions::default())
}

async fn the_letter(app: &App) -> DeadLetter {
    let mut letters = processor(app).dead_letters().await.expect("letters");
    assert_eq!(letters.len(), 1, "{letters:?}");
    letters.remove(0)
}

/// Proves the attempts part of T11.
#[tokio::test]
async fn a_failing_event_is_tried_again_also_after_restarts_until_its_attempts_are_used_up() {
    let mut app = App::new().await;
    app.execute_all(1, [create("a"), rename("poison"), rename("b")]).await;
    processor(&app).step().await.expect("a step");
    let parked_at = app.clock.millis();
    for (attempts, pause) in [(1, 50), (2, 100), (3, 200)] {
        let (letter, due) = (the_letter(&app).await, app.clock.millis() + pause);
        assert_eq!((letter.attempts, letter.parked_at, letter.next_attempt), (attempts, parked_at, Some(due)));
        // Not before it is due.
        app.clock.advance(Duration::from_millis(1));
        app = app.restarted();
        let report = processor(&app).retry_due().await.expect("further attempts");
        assert_eq!(report, RetryReport { tried: 0, next: Some(due) });
        app.clock.advance(Duration::from_millis(pause.unsigned_abs() - 1));
        assert_eq!(processor(&app).retry_due().await.expect("further attempts").tried, 1);
    }
    let letter = the_letter(&app).await;
    assert_eq!((letter.attempts, letter.parked_at, letter.next_attempt), (4, parked_at, None));
    app.clock.advance(Duration::from_secs(3_600));
    assert_eq!(processor(&app).retry_due().await.expect("none"), RetryReport::default());
    assert_eq!(app.listed().await, ["f1/1 a v1 active"]);
}

/// Proves the attempts part of T11.
#[tokio::test]
async fn an_event_that_can_be_applied_by_then_is_applied_with_those_after_it() {
    let app = App::new().await;
    app.execute_all(1, [create("a"), rename("poison"), Command::Complete(true)]).await;
    processor(&app).step().await.expect("a step");
    // A later event waits for the attempt.
    app.list.fix();
    app.execute_all(1, [rename("b")]).await;
    processor(&app).step().await.expect("a step");
    assert_eq!(app.listed().await, ["f1/1 a v1 active"]);
    app.clock.advance(Duration::from_millis(50));
    assert_eq!(processor(&app).retry_due().await.expect("an attempt"), RetryReport { tried: 1, next: None });
    assert_eq!(app.listed().await, ["f1/1 b v4"]);
    app.assert_consistent("after the attempt").await;
}

/// Proves the attempts part of T11: the generation before is kept up to date too.
#[tokio::test]
async fn an_event_is_tried_again_in_all_generations() {
    let app = App::new().await;
    app.execute_all(1, [create("a")]).await;
    app.project_all().await;
    assert!(app.processor().rebuild(&|_| {}).await.expect("rebuilt").is_consistent());
    app.execute_all(1, [rename("poison")]).await;
    processor(&app).step().await.expect("a step");
    app.list.fix();
    app.clock.advance(Duration::from_millis(50));
    assert_eq!(processor(&app).retry_due().await.expect("attempts").tried, 2);
    assert_eq!(app.listed().await, ["f1/1 poison v2 active"]);
    app.processor().roll_back().await.expect("rolled back");
    assert_eq!(app.listed().await, ["f1/1 poison v2 active"]);
}

/// The time is the paused clock of the runtime, which moves only when all tasks wait for it.
#[tokio::test(start_paused = true)]
async fn a_running_processor_tries_events_again_beside_its_steps() {
    let app = App::new().await;
    app.execute_all(1, [create("poison")]).await;
    let running = app.processor();
    let watched = async {
        while processor(&app).dead_letters().await.expect("letters").first().is_none_or(|letter| letter.attempts < 2) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    running.run(watched).await;
    assert_eq!(the_letter(&app).await.next_attempt, None);
}

/// A processor that cannot read the parked aggregates goes on with its steps, and tries them again later.
#[tokio::test(start_paused = true)]
async fn a_failure_of_the_store_ends_neither_steps_nor_attempts() {
    let app = App::new().await;
    app.execute_all(1, [create("poison")]).await;
    app.processor().step().await.expect("a step");
    app.list.fix();
    let store = InstrumentedStore::new(app.engine.clone());
    let process = app.on_store(store.clone());
    process.list.fix();
    let parked = |call: &nagaya_testing::Call| format!("{call:?}").contains("parked-todo");
    let fault = store.inject(
        Fault::fail_before(|| nagaya_store::Error::engine("the disk is gone for a moment")).matching(parked).once(),
    );
    let watched = async {
        while app.listed().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    process.processor().run(watched).await;
    assert_eq!(fault.hits(), 1);
    assert_eq!(app.listed().await, ["f1/1 poison v1 active"]);
}

/// Proves the metrics part of T20.
#[tokio::test]
async fn lag_dead_letters_their_age_and_failures_are_measured() {
    let app = App::new().await;
    let processor = app.processor();
    let measured = async || {
        let measured = processor.measurements().await;
        measured.iter().map(|each| (each.name, each.value)).collect::<Vec<_>>()
    };
    let before =
        [("follower_failed_events", 0.0), ("follower_dead_letters", 0.0), ("follower_oldest_dead_letter_seconds", 0.0)];
    assert_eq!(measured().await, before, "it has not run yet");
    app.execute_all(1, [create("poison 1")]).await;
    processor.step().await.expect("a step");
    app.clock.advance(Duration::from_secs(45));
    app.execute_all(2, [create("poison 2")]).await;
    processor.step().await.expect("a step");
    processor.retry_due().await.expect("attempts");
    processor.status().caught_up(app.clock.millis());
    processor.status().failed();
    app.clock.advance(Duration::from_secs(15));
    let after = [
        ("follower_lag_seconds", 15.0),
        ("follower_failures", 1.0),
        ("follower_failed_events", 4.0),
        ("follower_dead_letters", 2.0),
        ("follower_oldest_dead_letter_seconds", 60.001),
    ];
    assert_eq!(measured().await, after);
}
