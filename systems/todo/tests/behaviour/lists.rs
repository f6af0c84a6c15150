//! TodoClient by status, and paging during writes.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value as Json, json};

use crate::harness::{Client, TestServer, TodoClient as _, path, text, titles_of, todo_server};

/// Proves the status part of T6.
#[test]
fn active_todos_are_listed_by_default() {
    lists_are_filtered_by_status(&todo_server());
}

pub(crate) fn lists_are_filtered_by_status(server: &TestServer) {
    let mio = server.client_of_user("f-status", "mio");
    let todos: Vec<_> = ["a", "b", "c"].iter().map(|title| mio.create(title)).collect();
    mio.synced(&mio.patch(&path(&todos[1]), &json!({ "completed": true })).expect_data(200)).expect_data(200);
    mio.wait_for_list("/todos", &["a", "c"]);
    mio.wait_for_list("/todos?status=active", &["a", "c"]);
    mio.wait_for_list("/todos?status=completed", &["b"]);
    mio.wait_for_list("/todos?status=all", &["a", "b", "c"]);
    mio.wait_for_list("/todos?order=desc", &["c", "a"]);
    mio.wait_for_list("/todos?limit=1", &["a"]);
    // A change moves none of them.
    mio.synced(&mio.patch(&path(&todos[0]), &json!({ "title": "a2" })).expect_data(200)).expect_data(200);
    mio.synced(&mio.patch(&path(&todos[1]), &json!({ "completed": false })).expect_data(200)).expect_data(200);
    mio.wait_for_list("/todos", &["a2", "b", "c"]);
    mio.wait_for_list("/todos?status=completed", &[]);
}

/// Proves T7.
#[test]
fn paging_continues_after_the_last_page() {
    paging_misses_and_repeats_nothing_during_writes(&todo_server());
}

/// All pages of a list: the number of occurrences of each title.
fn pages(client: &Client<'_>, path: &str) -> (BTreeMap<String, usize>, usize) {
    let (mut seen, mut cursor, mut count) = (BTreeMap::new(), None::<String>, 0);
    loop {
        let next = cursor.map_or(String::new(), |cursor| format!("&cursor={cursor}"));
        let page = client.get(&format!("{path}{next}"));
        count += 1;
        assert!(page.list().len() <= 3 && count < 500, "{page:?}");
        for title in titles_of(&page.list()) {
            *seen.entry(title.to_owned()).or_default() += 1;
        }
        match page.body.get("nextCursor").and_then(Json::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => return (seen, count),
        }
    }
}

pub(crate) fn paging_misses_and_repeats_nothing_during_writes(server: &TestServer) {
    let mio = server.client_of_user("f-paging", "mio");
    let stay: Vec<String> = (0..12).map(|n| format!("stays {n:02}")).collect();
    let mut moved = Vec::new();
    for title in &stay {
        mio.create(title);
        moved.push(mio.create(&format!("moves {}", moved.len())));
    }
    let expected: Vec<_> = mio.get("/todos?status=all").list();
    assert_eq!(expected.len(), 24);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Other clients rename, complete, reopen, delete and create todos all the time.
            let ren = server.client_of_user("f-paging", "ren");
            for round in 0.. {
                for (n, todo) in moved.iter().enumerate().skip(1) {
                    if done.load(Ordering::SeqCst) {
                        return;
                    }
                    ren.patch(
                        &path(todo),
                        &json!({ "title": format!("moves {n}"), "completed": (n + round) % 2 == 0 }),
                    );
                    if round == 1 && n % 4 == 0 {
                        ren.delete(&path(todo));
                    }
                    ren.post("/todos", &json!({ "title": format!("new {round} {n}") }));
                    // Slow enough that paging makes progress.
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        });
        for list in ["/todos?limit=3", "/todos?status=all&limit=3", "/todos?limit=3&order=desc"] {
            let (seen, count) = pages(&mio, list);
            assert!(count > 4, "{list}: {count} pages");
            for title in stay.iter().map(String::as_str) {
                assert_eq!(seen.get(title), Some(&1), "{list}: {title} in {seen:?}");
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    // A cursor is valid only for its own query and family.
    let page = mio.get("/todos?limit=1");
    let cursor = text(&page.body, "nextCursor").to_owned();
    assert_eq!(mio.get(&format!("/todos?status=all&limit=1&cursor={cursor}")).status, 400);
    assert_eq!(server.client_of_user("f-other", "mio").get(&format!("/todos?limit=1&cursor={cursor}")).status, 400);
    assert_eq!(mio.get(&format!("/todos?limit=1&cursor={cursor}")).status, 200);
}

/// A change of a todo between two pages.
#[derive(Debug, Clone, Copy)]
enum Change {
    Rename,
    Note,
    /// Out of the active list and back into it.
    CompleteAndReopen,
    Delete,
    /// A new todo; this one stays as it is.
    Create,
}

/// For each page after the first, the changes before it, and of which todos.
type Changes = Vec<Vec<(usize, Change)>>;

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => Just(Change::Rename),
        2 => Just(Change::Note),
        1 => Just(Change::CompleteAndReopen),
        1 => Just(Change::Delete),
        1 => Just(Change::Create),
    ]
}

/// Proves T7.
#[test]
fn a_walk_returns_each_todo_that_stays_once_and_in_order_whatever_changes_between_its_pages() {
    const TODOS: usize = 5;
    let server = todo_server();
    let families = Cell::new(0);
    let between = prop::collection::vec((0..TODOS, change()), 0..3);
    let walks = (1..3_usize, any::<bool>(), any::<bool>(), prop::collection::vec(between, 1..TODOS));
    let config = Config { cases: 12, failure_persistence: None, ..Config::default() };
    let walk = |(limit, descending, all, changes): (usize, bool, bool, Changes)| {
        families.set(families.get() + 1);
        let mio = server.client_of_user(&format!("f-{}", families.get()), "mio");
        let tick = || server.clock.advance(Duration::from_millis(1));
        let mut todos = Vec::new();
        for n in 0..TODOS {
            tick();
            todos.push(mio.create(&format!("todo {n}")));
        }
        let mut stays = [true; TODOS];
        let (mut seen, mut changes, mut cursor) = (Vec::new(), changes.into_iter(), None::<String>);
        loop {
            let next = cursor.map_or(String::new(), |cursor| format!("&cursor={cursor}"));
            let (order, status) = (if descending { "desc" } else { "asc" }, if all { "all" } else { "active" });
            let page = mio.get(&format!("/todos?limit={limit}&order={order}&status={status}{next}"));
            seen.extend(page.list().iter().map(|todo| text(todo, "todoId").to_owned()));
            let Some(next) = page.body.get("nextCursor").and_then(Json::as_str) else { break };
            cursor = Some(next.to_owned());
            for (step, (n, change)) in changes.next().unwrap_or_default().into_iter().enumerate() {
                tick();
                let path = path(&todos[n]);
                let change_it = |body: Json| {
                    let changed = mio.patch(&path, &body);
                    if changed.status == 200 {
                        mio.synced(&changed.body["data"]);
                    }
                };
                match change {
                    Change::Rename => change_it(json!({ "title": format!("renamed {} {step}", seen.len()) })),
                    Change::Note => change_it(json!({ "note": format!("noted {} {step}", seen.len()) })),
                    Change::CompleteAndReopen => {
                        stays[n] = all && stays[n];
                        change_it(json!({ "completed": true }));
                        change_it(json!({ "completed": false }));
                    }
                    Change::Delete => {
                        stays[n] = false;
                        mio.delete(&path);
                    }
                    Change::Create => drop(mio.create("new")),
                }
            }
        }
        let staying = todos.iter().zip(stays).filter(|(_, stays)| *stays);
        let mut expected: Vec<_> = staying.map(|(todo, _)| text(todo, "todoId")).collect();
        if descending {
            expected.reverse();
        }
        let found: Vec<_> = seen.iter().map(String::as_str).filter(|id| expected.contains(id)).collect();
        prop_assert_eq!(found, expected);
        Ok(())
    };
    TestRunner::new(config).run(&walks, walk).expect("each todo that stays, once");
}

/// Proves K20.
#[test]
fn todos_of_one_millisecond_are_listed_in_the_order_in_which_they_were_created() {
    let server = todo_server();
    let mio = server.client_of_user("f-order", "mio");
    let titles: Vec<String> = (0..300).map(|n| format!("todo {n:03}")).collect();
    let mut last = Json::Null;
    for title in &titles {
        last = mio.post("/todos", &json!({ "title": title })).expect_data(201);
    }
    mio.synced(&last).expect_data(200);
    let all = mio.get_until("/todos?limit=1000", |page| page.list().len() == titles.len());
    assert_eq!(titles_of(&all.list()), titles);
    let latest = mio.get("/todos?limit=3&order=desc").list();
    assert_eq!(titles_of(&latest), ["todo 299", "todo 298", "todo 297"]);
}
