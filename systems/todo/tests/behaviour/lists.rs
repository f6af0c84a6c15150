//! TodoClient by status, and paging during writes.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
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
    // The most recently changed todo comes last.
    mio.synced(&mio.patch(&path(&todos[0]), &json!({ "title": "a2" })).expect_data(200)).expect_data(200);
    mio.synced(&mio.patch(&path(&todos[1]), &json!({ "completed": false })).expect_data(200)).expect_data(200);
    mio.wait_for_list("/todos", &["c", "a2", "b"]);
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
                    std::thread::sleep(std::time::Duration::from_millis(20));
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
