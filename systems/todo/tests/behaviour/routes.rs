//! The documented routes and their bodies.

use serde_json::json;

use crate::harness::{TestServer, TodoClient as _, path, text, todo_server};

/// Proves T6. Proves the body part of T1.
#[test]
fn the_documented_routes_exist() {
    every_route_answers_as_documented(&todo_server());
}

pub(crate) fn every_route_answers_as_documented(server: &TestServer) {
    let mio = server.client_of_user("f-routes", "mio");
    let made = mio.post("/todos", &json!({ "title": "Buy milk" }));
    let todo = made.expect_data(201);
    let id = text(&todo, "todoId").to_owned();
    let expected = json!({
        "familyId": "f-routes",
        "todoId": id,
        "title": "Buy milk",
        "completed": false,
        "version": 1,
        "lastEventId": todo["lastEventId"],
        "updatedAt": todo["updatedAt"],
    });
    assert_eq!(made.body, json!({ "data": expected }));
    assert_eq!(id.len(), 26);
    assert_eq!(text(&todo, "lastEventId").len(), 26);
    let stamp = text(&todo, "updatedAt");
    assert!(stamp.starts_with("2030-01-01T00:") && stamp.ends_with('Z') && stamp.len() == 24, "{stamp}");
    assert_eq!((made.header("etag"), made.header("location")), (Some("\"v1\""), Some(&*format!("/todos/{id}"))));

    // The list has the same item as the response.
    let read = mio.synced(&todo);
    assert_eq!(read.body, json!({ "data": expected }));
    assert_eq!(read.header("etag"), Some("\"v1\""));
    assert_eq!(mio.with_header("if-none-match", "\"v1\"").get(&path(&todo)).status, 304);
    assert_eq!(mio.wait_for_list("/todos", &["Buy milk"]).body, json!({ "data": [expected] }));

    // One change gives one event; a no-op gives none.
    let changed = mio.patch(&path(&todo), &json!({ "title": "Buy bread", "completed": true }));
    let todo = changed.expect_data(200);
    assert_eq!((&todo["title"], &todo["completed"], &todo["version"]), (&json!("Buy bread"), &json!(true), &json!(3)));
    assert_eq!(changed.header("etag"), Some("\"v3\""));
    for nothing in [json!({}), json!({ "title": "Buy bread" }), json!({ "completed": true })] {
        assert_eq!(mio.patch(&path(&todo), &nothing).expect_data(200), todo);
    }
    assert_eq!(mio.synced(&todo).expect_data(200), todo);
    let reopened = mio.patch(&path(&todo), &json!({ "completed": false })).expect_data(200);
    assert_eq!((&reopened["completed"], &reopened["version"]), (&json!(false), &json!(4)));

    let types: Vec<_> = mio
        .get(&format!("{}/history", path(&todo)))
        .list()
        .iter()
        .map(|event| text(event, "eventType").to_owned())
        .collect();
    assert_eq!(types, ["TodoCreated", "TodoTitleChanged", "TodoCompleted", "TodoReopened"]);

    // A deleted todo is not listed, but keeps its history.
    let deleted = mio.delete(&path(&todo));
    assert_eq!((deleted.status, &deleted.body), (204, &json!(null)));
    mio.wait_for_list("/todos?status=all", &[]);
    mio.get(&path(&todo)).expect_problem(404, "not_found");
    mio.patch(&path(&todo), &json!({ "completed": true })).expect_problem(404, "not_found");
    mio.delete(&path(&todo)).expect_problem(404, "not_found");
    let history = mio.get(&format!("{}/history", path(&todo))).list();
    assert_eq!((history.len(), &history[4]["eventType"], &history[4]["data"]), (5, &json!("TodoDeleted"), &json!({})));
}

/// Proves the request part of T5. Proves the limits part of T4.
#[test]
fn invalid_requests_are_refused() {
    invalid_requests_are_refused_with_a_pointer(&todo_server());
}

pub(crate) fn invalid_requests_are_refused_with_a_pointer(server: &TestServer) {
    let mio = server.client_of_user("f-unfit", "mio");
    let todo = mio.create("Buy milk");
    for (body, place) in [
        (json!({ "title": "x", "familyId": "f-other" }), "/familyId"),
        (json!({ "title": "x", "todoId": "01HARX5BD7F8G9H0J1K2M3N4PQ" }), "/todoId"),
        (json!({ "title": "x", "version": 7 }), "/version"),
        (json!({ "title": "" }), "/title"),
        (json!({ "title": " \t\u{3000}\n" }), "/title"),
        (json!({ "title": 7 }), "/title"),
        (json!({ "title": null }), "/title"),
        (json!({ "title": "長".repeat(501) }), "/title"),
    ] {
        assert_eq!(mio.post("/todos", &body).expect_problem(422, "invalid"), [place], "{body}");
        assert_eq!(mio.patch(&path(&todo), &body).expect_problem(422, "invalid"), [place], "{body}");
    }
    assert_eq!(mio.post("/todos", &json!({})).expect_problem(422, "invalid"), ["/title"]);
    assert_eq!(mio.patch(&path(&todo), &json!({ "completed": "yes" })).expect_problem(422, "invalid"), ["/completed"]);
    // Length limits count characters.
    mio.patch(&path(&todo), &json!({ "title": "長".repeat(500) })).expect_data(200);

    for bad in
        ["/todos?status=done", "/todos?limit=0", "/todos?limit=1001", "/todos?order=up", "/todos?familyId=f-other"]
    {
        assert_eq!(mio.get(bad).expect_problem(400, "bad_parameter").len(), 1, "{bad}");
    }
    mio.get("/todos?limit=1&limit=2").expect_problem(400, "bad_parameter");
    assert_eq!(mio.get("/todos?cursor=made-up").status, 400);
    for bad in ["after=x", "after=01harx5bd7f8g9h0j1k2m3n4pq", "before=x"] {
        mio.get(&format!("{}?{bad}", path(&todo))).expect_problem(400, "bad_parameter");
    }
    for id in ["01HARX5BD7F8G9H0J1K2M3N4PQ", "none", "%2F", "HEAD%23", "..%2F.."] {
        mio.get(&format!("/todos/{id}")).expect_problem(404, "not_found");
        mio.patch(&format!("/todos/{id}"), &json!({ "completed": true })).expect_problem(404, "not_found");
        mio.delete(&format!("/todos/{id}")).expect_problem(404, "not_found");
        mio.get(&format!("/todos/{id}/history")).expect_problem(404, "not_found");
    }
    assert_eq!(server.anonymous_client().get("/todos").status, 401);
    assert_eq!(server.anonymous_client().post("/todos", &json!({ "title": "x" })).status, 401);
    // No refused request changed anything.
    mio.wait_for_list("/todos", &["長".repeat(500).as_str()]);
}
