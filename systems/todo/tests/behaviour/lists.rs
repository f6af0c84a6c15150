//! Lists: by status, and page by page while writes go on.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::{Value as Json, json};

use crate::harness::{Client, Lists as _, TestServer, path, text, titles_of, todos};

/// Proves the status part of T6.
#[test]
fn active_todos_are_listed_and_others_when_asked_for() {
    lists_go_by_status(&todos());
}

pub(crate) fn lists_go_by_status(server: &TestServer) {
    let mio = server.user("f-status", "mio");
    let todos: Vec<_> = ["a", "b", "c"].iter().map(|title| mio.make(title)).collect();
    mio.synced(&mio.patch(&path(&todos[1]), &json!({ "completed": true })).data(200)).data(200);
    mio.lists("/todos", &["a", "c"]);
    mio.lists("/todos?status=active", &["a", "c"]);
    mio.lists("/todos?status=completed", &["b"]);
    mio.lists("/todos?status=all", &["a", "b", "c"]);
    mio.lists("/todos?order=desc", &["c", "a"]);
    mio.lists("/todos?limit=1", &["a"]);
    // What is changed last comes last.
    mio.synced(&mio.patch(&path(&todos[0]), &json!({ "title": "a2" })).data(200)).data(200);
    mio.synced(&mio.patch(&path(&todos[1]), &json!({ "completed": false })).data(200)).data(200);
    mio.lists("/todos", &["c", "a2", "b"]);
    mio.lists("/todos?status=completed", &[]);
}

/// Proves T7.
#[test]
fn paging_goes_on_where_it_ended() {
    paging_misses_nothing_and_repeats_nothing_while_writes_go_on(&todos());
}

/// All pages of a list: how often each title came.
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

pub(crate) fn paging_misses_nothing_and_repeats_nothing_while_writes_go_on(server: &TestServer) {
    let mio = server.user("f-paging", "mio");
    let stay: Vec<String> = (0..12).map(|n| format!("stays {n:02}")).collect();
    let mut moved = Vec::new();
    for title in &stay {
        mio.make(title);
        moved.push(mio.make(&format!("moves {}", moved.len())));
    }
    let expected: Vec<_> = mio.get("/todos?status=all").list();
    assert_eq!(expected.len(), 24);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Others rename, complete, reopen, delete and make todos all the time.
            let ren = server.user("f-paging", "ren");
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
                    // Not so fast that a page never ends.
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
    // A cursor is good for its own question, and its own family.
    let page = mio.get("/todos?limit=1");
    let cursor = text(&page.body, "nextCursor").to_owned();
    assert_eq!(mio.get(&format!("/todos?status=all&limit=1&cursor={cursor}")).status, 400);
    assert_eq!(server.user("f-other", "mio").get(&format!("/todos?limit=1&cursor={cursor}")).status, 400);
    assert_eq!(mio.get(&format!("/todos?limit=1&cursor={cursor}")).status, 200);
}
