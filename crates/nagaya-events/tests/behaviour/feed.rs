//! A listener gets every event of its family at least once.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use nagaya_events::{Feed, FeedListener};
use nagaya_store::Error;
use nagaya_testing::{Fault, InstrumentedStore};

use crate::{
    app::{App, create, design, id},
    todo::Command,
};

fn run(feed: &Feed, app: &App) {
    let (feed, nagaya) = (feed.clone(), app.nagaya.clone());
    tokio::spawn(async move { feed.run(&nagaya, Duration::from_millis(1), std::future::pending()).await });
}

/// Listens until the todo has this version; the versions that were received.
async fn receive_until(listening: &mut FeedListener, version: u64) -> BTreeSet<u64> {
    let mut received = BTreeSet::new();
    while received.last() != Some(&version) {
        let next = tokio::time::timeout(Duration::from_secs(20), listening.next()).await;
        let event = next.unwrap_or_else(|_| panic!("only {received:?} of {version}")).expect("the feed continues");
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
    let mut known = execute(create("a")).await;
    for _ in 0..66 {
        execute(Command::Many(90)).await;
    }
    let all = 1 + 66 * 90;
    let (mut received, mut connections) = (BTreeSet::from([1]), 0);
    while received.last() != Some(&all) {
        connections += 1;
        assert!(connections < 10, "no progress: {} received", received.len());
        let mut listening = feed.listen(&app.family("f1"), Some(&known)).await.expect("listening");
        while received.last() != Some(&all) {
            let Some(event) = listening.next().await else { break };
            received.insert(event.version);
            known = known.max(event.id.clone());
        }
    }
    assert_eq!(connections, 2, "a replay has many events");
    assert_eq!(received, (1..=all).collect());
}
