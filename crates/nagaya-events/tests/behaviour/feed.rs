//! A listener gets every event of its family at least once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use nagaya_events::{CommandRequest, Context, Feed, FeedListener, RecordedEvent};
use nagaya_store::Error;
use nagaya_testing::{Call, Fault, InstrumentedStore};

use crate::{
    app::{App, START_MILLIS, create, design, id},
    todo::Command,
};

fn run(feed: &Feed, app: &App) {
    let (feed, nagaya) = (feed.clone(), app.nagaya.clone());
    tokio::spawn(async move { feed.run(&nagaya, Duration::from_millis(1), std::future::pending()).await });
}

/// The next event; `None`: the listener has to reconnect.
async fn next(listening: &mut FeedListener) -> Option<RecordedEvent> {
    tokio::time::timeout(Duration::from_secs(20), listening.next()).await.expect("it ends or continues")
}

/// Listens until the todo has this version; the versions that were received.
async fn receive_until(listening: &mut FeedListener, version: u64) -> BTreeSet<u64> {
    let mut received = BTreeSet::new();
    while received.last() != Some(&version) {
        let event = next(listening).await.unwrap_or_else(|| panic!("only {received:?} of {version}"));
        received.insert(event.version);
    }
    received
}

/// Proves the feed's part of T25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_missed_after_the_start_of_listening() {
    for _ in 0..20 {
        let app = App::new().await;
        let feed = Feed::new(&design(), "todo").expect("an aggregate");
        run(&feed, &app);
        let mut listening = feed.listen(&app.family("f1"), None).await.expect("listening");
        app.execute_all(1, [create("a"), Command::Number(1)]).await;
        assert_eq!(receive_until(&mut listening, 2).await, BTreeSet::from([1, 2]));
    }
}

/// Proves the feed's part of T25: also when the store fails for a moment, at whichever call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_of_the_store_loses_no_event_of_a_listener() {
    for n in 0..6 {
        let app = App::new().await;
        let store = InstrumentedStore::new(Arc::clone(&app.store));
        let feed = Feed::new(&design(), "todo").expect("an aggregate");
        run(&feed, &app.on_store(store.clone()));
        let mut listening = feed.listen(&app.family("f1"), None).await.expect("listening");
        app.execute_all(1, [create("a")]).await;
        let mut received = receive_until(&mut listening, 1).await;
        store.inject(Fault::fail_before(|| Error::engine("the disk is gone for a moment")).skip(n).once());
        for number in 0..10 {
            app.execute_all(1, [Command::Number(number)]).await;
        }
        received.extend(receive_until(&mut listening, 11).await);
        assert_eq!(received, (1..=11).collect(), "call {n} failed");
    }
}

/// Proves the feed's part of T25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returning_listener_gets_all_missed_events() {
    let app = App::new().await;
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    run(&feed, &app);
    let events = app.with_snapshots(50);
    let execute = async |command| {
        let done = events.execute(&app.family("f1"), &id(1), &command, &app.request()).await.expect("fine");
        app.clock.advance(Duration::from_secs(1));
        done.latest.expect("an event").id
    };
    let known = execute(create("a")).await;
    for _ in 0..66 {
        execute(Command::Many(90)).await;
    }
    let all = 1 + 66 * 90;
    let mut listening = feed.listen(&app.family("f1"), Some(&known)).await.expect("listening");
    let mut received = BTreeSet::from([1]);
    received.extend(receive_until(&mut listening, all).await);
    assert_eq!(received, (1..=all).collect());
}

/// A todo of family `f1` with many events; the id of the first one.
async fn with_history(app: &App, events: u64) -> String {
    let first = app.execute(1, create("a")).await.expect("fine").latest.expect("an event").id;
    for _ in 0..(events - 1) / 90 {
        app.execute_all(1, [Command::Many(90)]).await;
    }
    app.execute_all(1, [Command::Many((events - 1) % 90)]).await;
    first
}

/// The next events, whose versions are these.
async fn expect_versions(listening: &mut FeedListener, versions: impl IntoIterator<Item = u64>) {
    for version in versions {
        assert_eq!(next(listening).await.map(|event| event.version), Some(version));
    }
}

/// The number of events that each query has asked for, of those that replays send.
fn replayed_pages(store: &InstrumentedStore) -> Vec<Option<usize>> {
    store.take_queries().into_iter().filter(|query| query.index.is_some()).map(|query| query.limit).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missed_events_are_read_page_by_page_as_the_listener_takes_them() {
    let app = App::new().await;
    let store = InstrumentedStore::new(Arc::clone(&app.store));
    let app = app.on_store(store.clone());
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    run(&feed, &app);
    let first = with_history(&app, 350).await;
    store.take_queries();

    let mut listening = feed.listen(&app.family("f1"), Some(&first)).await.expect("listening");
    assert_eq!(replayed_pages(&store), [Some(100)], "one page, although 350 events were missed");
    expect_versions(&mut listening, 1..=100).await;
    assert_eq!(replayed_pages(&store), [], "the next page is not read before it is wanted");
    expect_versions(&mut listening, 101..=101).await;
    assert_eq!(replayed_pages(&store), [Some(100)]);
    expect_versions(&mut listening, 102..=350).await;
    assert_eq!(replayed_pages(&store), [Some(100); 2]);
}

/// What happens during the replay is received after it at the latest, also what is before the events that were replayed already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_event_is_missed_between_the_replay_and_what_happens_now() {
    let app = App::new().await;
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    run(&feed, &app);
    let first = with_history(&app, 250).await;
    let mut listening = feed.listen(&app.family("f1"), Some(&first)).await.expect("listening");
    expect_versions(&mut listening, 1..=150).await;

    app.execute_all(1, [Command::Many(5)]).await;
    // The clock of another server is behind.
    let context = Context { now: START_MILLIS - 60_000, ..app.context() };
    let request = CommandRequest { context, ..app.request() };
    app.events.execute(&app.family("f1"), &id(2), &create("late"), &request).await.expect("fine");
    app.execute_all(1, [Command::Many(1)]).await;

    let (mut versions, mut others) = (Vec::new(), 0);
    while others == 0 || versions.last() != Some(&256) {
        let event = next(&mut listening).await.expect("the feed continues");
        match event.aggregate == id(1) {
            // What is in the replay can come again.
            true if versions.contains(&event.version) => {}
            true => versions.push(event.version),
            false => others += 1,
        }
    }
    assert_eq!(versions, (151..=256).collect::<Vec<_>>(), "each, and in order");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_is_too_far_behind_after_its_replay_reconnects_and_misses_nothing() {
    let app = App::new().await;
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    run(&feed, &app);
    let first = with_history(&app, 150).await;
    let mut listening = feed.listen(&app.family("f1"), Some(&first)).await.expect("listening");
    let mut other = feed.listen(&app.family("f1"), None).await.expect("listening");
    expect_versions(&mut listening, 1..=1).await;
    let all = 150 + 50 * 90;
    // More than a listener may be behind; one that keeps up tells when the feed has sent it.
    for round in 1..=50 {
        app.execute_all(1, [Command::Many(90)]).await;
        receive_until(&mut other, 150 + round * 90).await;
    }

    let (mut versions, mut known) = (vec![1], first);
    while let Some(event) = next(&mut listening).await {
        versions.push(event.version);
        known = event.id;
    }
    let mut again = feed.listen(&app.family("f1"), Some(&known)).await.expect("listening");
    versions.extend(receive_until(&mut again, all).await);
    assert_eq!(versions.into_iter().collect::<BTreeSet<_>>(), (1..=all).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_reading_is_abandoned_is_read_again() {
    let app = App::new().await;
    let store = InstrumentedStore::new(Arc::clone(&app.store));
    let app = app.on_store(store.clone());
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    run(&feed, &app);
    let first = with_history(&app, 250).await;
    let mut listening = feed.listen(&app.family("f1"), Some(&first)).await.expect("listening");
    expect_versions(&mut listening, 1..=100).await;
    let paused = store.inject(Fault::pause_after().matching(|call| matches!(call, Call::Query(_))));
    tokio::select! {
        event = listening.next() => panic!("its page is not there yet: {event:?}"),
        () = paused.wait_for_hit() => {}
    }
    paused.remove();
    expect_versions(&mut listening, 101..=250).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_whose_next_page_cannot_be_read_has_to_reconnect() {
    let app = App::new().await;
    let store = InstrumentedStore::new(Arc::clone(&app.store));
    let app = app.on_store(store.clone());
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    run(&feed, &app);
    let first = with_history(&app, 250).await;
    let is_query = |call: &Call| matches!(call, Call::Query(_));
    let fail = || {
        store.inject(Fault::fail_before(|| Error::engine("the disk is gone for a moment")).matching(is_query).once())
    };

    fail();
    assert!(feed.listen(&app.family("f1"), Some(&first)).await.is_err(), "nothing was sent yet: it is an error");
    let mut listening = feed.listen(&app.family("f1"), Some(&first)).await.expect("listening");
    expect_versions(&mut listening, 1..=99).await;
    let known = next(&mut listening).await.expect("the last one of the page").id;
    fail();
    assert_eq!(next(&mut listening).await, None);
    let mut again = feed.listen(&app.family("f1"), Some(&known)).await.expect("listening");
    assert_eq!(receive_until(&mut again, 250).await, (1..=250).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_whose_events_are_not_kept_any_more_has_to_reconnect() {
    let app = App::with_retention(Duration::from_secs(60)).await;
    let store = InstrumentedStore::new(Arc::clone(&app.store));
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    run(&feed, &app.on_store(store.clone()));
    let mut listening = feed.listen(&app.family("f1"), None).await.expect("listening");
    app.execute_all(1, [create("a")]).await;
    assert_eq!(next(&mut listening).await.map(|event| event.version), Some(1));

    let paused = store.inject(Fault::pause_after().matching(Call::is_changes));
    paused.wait_for_hit().await;
    app.execute_all(1, [Command::Number(2)]).await;
    app.clock.advance(Duration::from_secs(3_600));
    app.engine.sweep().await.expect("swept");
    app.execute_all(1, [Command::Number(3)]).await;
    paused.remove();
    assert_eq!(next(&mut listening).await, None, "an event between was missed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_of_a_feed_that_has_ended_waits_until_it_runs_again() {
    let app = App::new().await;
    let feed = Feed::new(&design(), "todo").expect("an aggregate");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (ending, nagaya) = (feed.clone(), app.nagaya.clone());
    let running = tokio::spawn(async move {
        ending.run(&nagaya, Duration::from_millis(1), async move { drop(stopped.await) }).await;
    });
    let family = app.family("f1");
    let mut listening = feed.listen(&family, None).await.expect("listening");
    stop.send(()).expect("it runs");
    running.await.expect("no panic");
    assert_eq!(next(&mut listening).await, None);

    let at_once = tokio::time::timeout(Duration::ZERO, feed.listen(&family, None)).await;
    assert!(at_once.is_err(), "its events would be missed");
    run(&feed, &app);
    let mut listening = feed.listen(&family, None).await.expect("listening");
    app.execute_all(1, [create("a")]).await;
    assert_eq!(next(&mut listening).await.map(|event| event.version), Some(1));
}
