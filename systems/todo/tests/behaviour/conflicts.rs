//! Conflicting changes are refused.

use serde_json::json;

use crate::harness::{TestServer, path, text, todo_server};

/// Proves T9 over HTTP.
#[test]
fn an_expected_version_is_enforced() {
    a_change_with_a_stale_version_is_refused(&todo_server());
}

pub(crate) fn a_change_with_a_stale_version_is_refused(server: &TestServer) {
    let mio = server.client_of_user("f-conflict", "mio");
    let todo = mio.post("/todos", &json!({ "title": "a" })).expect_data(201);
    let expects = |tag: &str| mio.with_header("if-match", tag);
    assert_eq!(expects("\"v1\"").patch(&path(&todo), &json!({ "title": "b" })).expect_data(200)["version"], 2);
    for stale in ["\"v1\"", "\"v3\"", "\"x\"", "W/\"v2\"", "v2"] {
        expects(stale).patch(&path(&todo), &json!({ "title": "c" })).expect_problem(412, "version_conflict");
        expects(stale).delete(&path(&todo)).expect_problem(412, "version_conflict");
    }
    // Also where the change is a no-op.
    expects("\"v1\"").patch(&path(&todo), &json!({ "title": "b" })).expect_problem(412, "version_conflict");
    assert_eq!(expects("*").patch(&path(&todo), &json!({ "title": "c" })).expect_data(200)["version"], 3);
    expects("\"v1\"")
        .patch("/todos/01HARX5BD7F8G9H0J1K2M3N4PQ", &json!({ "title": "c" }))
        .expect_problem(404, "not_found");
    // One of several ETags has to match.
    expects("\"v1\", \"v2\"").patch(&path(&todo), &json!({ "title": "d" })).expect_problem(412, "version_conflict");
    assert_eq!(expects("\"v1\", \"v3\"").delete(&path(&todo)).status, 204);
    assert_eq!(mio.get(&format!("{}/history", path(&todo))).list().len(), 4);
}

/// Proves T9's concurrency over HTTP.
#[test]
fn concurrent_changes_are_serialized() {
    many_concurrent_changes_all_succeed(&todo_server());
}

pub(crate) fn many_concurrent_changes_all_succeed(server: &TestServer) {
    let mio = server.client_of_user("f-storm", "mio");
    let todo = mio.post("/todos", &json!({ "title": "a" })).expect_data(201);
    let mut versions: Vec<u64> = std::thread::scope(|scope| {
        let change = |n: usize| {
            let (mio, path) = (mio.clone(), path(&todo));
            scope.spawn(move || {
                mio.patch(&path, &json!({ "title": format!("n{n}") })).expect_data(200)["version"].as_u64()
            })
        };
        let changes: Vec<_> = (0..50).map(change).collect();
        changes.into_iter().map(|change| change.join().expect("no panic").expect("a version")).collect()
    });
    versions.sort();
    assert_eq!(versions, (2..=51).collect::<Vec<_>>());
    let history = mio.get(&format!("{}/history?limit=100", path(&todo))).list();
    let mut titles: Vec<_> = history[1..].iter().map(|event| text(&event["data"], "title").to_owned()).collect();
    titles.sort();
    let mut expected: Vec<_> = (0..50).map(|n| format!("n{n}")).collect();
    expected.sort();
    assert_eq!(titles, expected);
}
