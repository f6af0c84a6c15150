//! Concurrent commands and processors on one todo.

use std::sync::Arc;

use nagaya_events::{CommandRequest, Failure};

use crate::{
    app::{App, create, id},
    todo::Command,
};

/// Proves the concurrency part of T9. Proves the lost-event part of N9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_concurrent_commands_get_consecutive_versions() {
    let app = Arc::new(App::new().await);
    app.execute_all(1, [create("a")]).await;
    // Half of them run in another process, without shared memory.
    let other = Arc::new(app.restarted());
    let commands = (0..50_u64).map(|number| {
        let app = Arc::clone(if number % 2 == 0 { &app } else { &other });
        tokio::spawn(async move { app.execute(1, Command::Number(number)).await.expect("it succeeds in the end") })
    });
    let mut versions = Vec::new();
    for command in commands.collect::<Vec<_>>() {
        let done = command.await.expect("no panic");
        assert_eq!(done.events.len(), 1);
        assert_eq!(done.version, done.events[0].version);
        versions.push(done.version);
    }
    versions.sort();
    assert_eq!(versions, (2..=51).collect::<Vec<_>>());

    let events = app.recorded(1).await;
    let mut numbers: Vec<u64> = events[1..]
        .iter()
        .map(|event| event.raw.data["title"].as_str().and_then(|text| text.parse().ok()).expect("a number"))
        .collect();
    numbers.sort();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    app.project_all().await;
    app.assert_consistent("after the race").await;
}

/// Proves the conflict part of T9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_concurrent_commands_with_one_expected_version_one_wins() {
    let app = Arc::new(App::new().await);
    app.execute_all(1, [create("a")]).await;
    let commands = (0..20_u64).map(|number| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let request = CommandRequest { expected: Some(1), ..app.request() };
            app.events.execute(&app.family("f1"), &id(1), &Command::Number(number), &request).await
        })
    });
    let mut won = 0;
    for command in commands.collect::<Vec<_>>() {
        match command.await.expect("no panic") {
            Ok(done) => {
                assert_eq!(done.version, 2);
                won += 1;
            }
            Err(Failure::Conflict { version }) => assert_eq!(version, 2),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((won, app.recorded(1).await.len()), (1, 2));
}

/// Proves the processors part of T10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processors_run_during_commands() {
    let app = Arc::new(App::new().await);
    let (stop_sender, stopped) = tokio::sync::watch::channel(false);
    let running: Vec<_> = (0..3)
        .map(|_| {
            let (processor, mut stopped) = (app.restarted().processor(), stopped.clone());
            tokio::spawn(async move { processor.run(async move { drop(stopped.wait_for(|stop| *stop).await) }).await })
        })
        .collect();
    let commands = (1..=8_u64).map(|n| {
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            app.execute_all(n, [create("a")]).await;
            app.execute_all(n, (0..10).map(Command::Number)).await;
            app.execute_all(n, [Command::Complete(n % 2 == 0)]).await;
        })
    });
    for command in commands.collect::<Vec<_>>() {
        command.await.expect("no panic");
    }
    stop_sender.send(true).expect("they listen");
    for processor in running {
        processor.await.expect("no panic");
    }
    app.project_all().await;
    let expected: Vec<_> = (1..=8)
        .map(|n| format!("f1/{n} 9 v{}", if n % 2 == 0 { "12".to_owned() } else { "11 active".to_owned() }))
        .collect();
    assert_eq!(app.listed().await, expected);
    app.assert_consistent("at the end").await;
}
