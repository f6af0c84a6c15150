//! `PUT` of what a user has one of: creates it or replaces it, and the same again changes nothing.

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{kondate_server, run_concurrently};

/// Proves that K5, K8 and the settings of K15 can be written without knowing whether they exist.
#[test]
fn profile_plans_and_settings_are_replaced() {
    what_a_user_has_one_of_is_replaced(&kondate_server());
}

pub(crate) fn what_a_user_has_one_of_is_replaced(server: &TestServer) {
    let profile = json!({ "displayName": "澪", "bio": "料理好き", "allergies": ["そば"] });
    check(
        server,
        "/v1/profile",
        &profile,
        &json!({ "displayName": "Mio" }),
        &[("bio", None), ("allergies", Some(json!([])))],
    );
    let settings = json!({ "catalogNews": true, "pushEnabled": false });
    let defaults = [("catalogNews", Some(json!(false))), ("pushEnabled", Some(json!(true)))];
    check(server, "/v1/notification-settings", &settings, &json!({}), &defaults);
    let plan = json!({ "setId": "s_01", "setTitle": "平日", "items": [{ "title": "カレー" }] });
    let emptied = [("setId", None), ("setTitle", None), ("items", Some(json!([])))];
    check(server, "/v1/plans/CURRENT", &plan, &json!({}), &emptied);
    check(server, "/v1/plans/next", &json!({ "items": [{ "title": "外食", "cooked": true }] }), &json!({}), &[]);
}

fn check(server: &TestServer, path: &str, made: &Json, other: &Json, replaced: &[(&str, Option<Json>)]) {
    let mio = server.client_of_user("u_put", "u_put");
    let put = |body: &Json| mio.send("PUT", path, Some(body));
    mio.with_header("if-match", "*").send("PUT", path, Some(made)).expect_problem(412, "version_conflict");
    let first = put(made);
    assert_eq!(first.header("location").map(str::to_lowercase), Some(path.to_lowercase()), "{path}");
    let first = first.expect_data(201);
    for (field, value) in made.as_object().expect("fields").iter().filter(|(field, _)| *field != "items") {
        assert_eq!(&first[field], value, "{path}: {field}");
    }
    // The same again, and what was just read, change nothing.
    server.clock.advance(std::time::Duration::from_secs(2));
    assert_eq!(put(made).expect_data(200), first, "{path}");
    assert_eq!(put(&first).expect_data(200), first, "{path}");
    assert_eq!(mio.get(path).expect_data(200), first, "{path}");

    // What is left out is as in a new one; what does not change stays.
    let second = put(other).expect_data(200);
    for (field, value) in replaced {
        assert_eq!(second.get(field), value.as_ref(), "{path}: {field}");
    }
    for field in ["userId", "createdAt", "menuId", "slot"] {
        assert_eq!(second.get(field), first.get(field), "{path}: {field}");
    }
    assert_eq!(second["version"], 2, "{path}");
    assert!(text(&second, "updatedAt") > text(&first, "updatedAt"), "{path}");

    // Only the version that the caller knows.
    mio.with_header("if-match", "\"v1\"").send("PUT", path, Some(made)).expect_problem(412, "version_conflict");
    mio.with_header("if-match", "\"v2\"").send("PUT", path, Some(made)).expect_data(200);
    for (wrong, at) in [
        (json!({ "userId": "u_pu" }), "/userId"),
        (json!({ "updatedAt": "2001-01-01T00:00:00Z" }), "/updatedAt"),
        (json!({ "version": 77 }), "/version"),
        (json!({ "color": "red" }), "/color"),
    ] {
        let mut body = made.clone();
        body.as_object_mut().expect("fields").extend(wrong.as_object().expect("fields").clone());
        assert_eq!(put(&body).expect_problem(422, "invalid"), [at], "{path}: {wrong}");
    }

    // Concurrent requests make one, and other users do not see it.
    assert_eq!(mio.delete(path).status, 204);
    let mut statuses = run_concurrently(4, |_| put(made).status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 201], "{path}");
    let before = mio.get(path).expect_data(200);
    let other_user = server.client_of_user("u_pu", "u_pu");
    other_user.get(path).expect_problem(404, "not_found");
    other_user.send("PUT", path, Some(other)).expect_data(201);
    assert_eq!(other_user.delete(path).status, 204);
    server.anonymous_client().send("PUT", path, Some(made)).expect_problem(401, "no_token");
    assert_eq!(mio.get(path).expect_data(200), before);
}

#[test]
fn a_replacement_that_does_not_fit_is_refused() {
    let server = kondate_server();
    let mio = server.client_of_user("u_bad", "u_bad");
    let put = |path: &str, body: Json| mio.send("PUT", path, Some(&body));
    for _ in 0..2 {
        assert_eq!(put("/v1/profile", json!({})).expect_problem(422, "invalid"), ["/displayName"]);
        let nothing = json!({ "displayName": null });
        assert_eq!(put("/v1/profile", nothing).expect_problem(422, "invalid"), ["/displayName"]);
        let untitled = json!({ "items": [{ "date": "2030-01-01" }] });
        assert_eq!(put("/v1/plans/CURRENT", untitled).expect_problem(422, "invalid"), ["/items/0/title"]);
        mio.send("PUT", "/v1/profile", Some(&json!({ "displayName": "澪" })));
        mio.send("PUT", "/v1/plans/CURRENT", Some(&json!({})));
    }
    // The path says which plan it is.
    assert_eq!(put("/v1/plans/CURRENT", json!({ "slot": "NEXT" })).expect_problem(422, "invalid"), ["/slot"]);
    put("/v1/plans/CURRENT", json!({ "slot": "current" })).expect_data(200);
    put("/v1/plans/LATER", json!({})).expect_problem(404, "not_found");
    mio.post("/v1/profile", &json!({ "displayName": "x" })).expect_problem(409, "taken");
}
