//! The current plan and the next plan.

use std::sync::Arc;

use nagaya_kondate::LocalPayments;
use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{kondate_server, modified_design, run_concurrently, system_with};

/// Proves the applying part of K8.
#[test]
fn a_set_can_be_applied_to_a_plan() {
    a_set_is_applied_to_either_plan(&kondate_server());
}

pub(crate) fn a_set_is_applied_to_either_plan(server: &TestServer) {
    let mio = server.client_of_user("u_apply", "u_apply");
    let weekdays = set(&mio, "平日", &[("r_01", "生姜焼き"), ("r_02", "肉じゃが")]);
    let weekend = set(&mio, "週末", &[("r_03", "カレー")]);

    for slot in ["CURRENT", "NEXT"] {
        let path = format!("/v1/plans/{slot}");
        let apply = format!("{path}/apply");
        mio.get(&path).expect_problem(404, "not_found");
        mio.with_header("if-match", "*")
            .post(&apply, &json!({ "setId": weekdays }))
            .expect_problem(412, "version_conflict");
        let made = mio.post(&apply, &json!({ "setId": weekdays }));
        assert!(made.header("etag").is_some_and(|tag| tag.starts_with("\"v1-")));
        let made = made.expect_data(200);
        assert_eq!((text(&made, "slot"), text(&made, "userId")), (slot, "u_apply"));
        assert_eq!((text(&made, "setId"), text(&made, "setTitle")), (weekdays.as_str(), "平日"));
        assert_eq!(text(&made, "appliedAt"), text(&made, "updatedAt"));
        let items = json!([
            { "recipeId": "r_01", "title": "生姜焼き", "servings": 2, "cooked": false },
            { "recipeId": "r_02", "title": "肉じゃが", "servings": 2, "cooked": false },
        ]);
        assert_eq!(made["items"], items);
        assert_eq!(mio.get(&path).expect_data(200), made);

        // Applying another set replaces the plan, without the cooked marks of the former one.
        let cooked = json!({ "items": [{ "title": "生姜焼き", "cooked": true, "date": "2030-01-01" }] });
        mio.patch(&path, &cooked).expect_data(200);
        for stale in ["\"v1\"", "W/\"v2\"", "\"x\""] {
            mio.with_header("if-match", stale)
                .post(&apply, &json!({ "setId": weekend }))
                .expect_problem(412, "version_conflict");
        }
        let replaced =
            mio.with_header("if-match", "\"v2\"").post(&apply, &json!({ "setId": weekend })).expect_data(200);
        assert_eq!((text(&replaced, "setId"), text(&replaced, "setTitle")), (weekend.as_str(), "週末"));
        let items = json!([{ "recipeId": "r_03", "title": "カレー", "servings": 2, "cooked": false }]);
        assert_eq!(replaced["items"], items);
    }

    // A plan is a copy: changes of the set do not affect it.
    mio.patch(&format!("/v1/sets/{weekend}"), &json!({ "title": "別", "items": [] })).expect_data(200);
    assert_eq!(mio.delete(&format!("/v1/sets/{weekend}")).status, 204);
    assert_eq!(text(&mio.get("/v1/plans/NEXT").expect_data(200), "setTitle"), "週末");

    let apply = "/v1/plans/NEXT/apply";
    assert_eq!(mio.post(apply, &json!({ "setId": weekend })).expect_problem(404, "not_found"), ["/setId"]);
    let yui = server.client_of_user("u_appl", "u_appl");
    assert_eq!(yui.post(apply, &json!({ "setId": weekdays })).expect_problem(404, "not_found"), ["/setId"]);
    for (body, at) in [
        (json!({}), vec!["/setId"]),
        (json!({ "setId": null }), vec!["/setId"]),
        (json!({ "setId": "" }), vec!["/setId"]),
        (json!({ "setId": weekdays, "items": [] }), vec!["/items"]),
        (json!({ "userId": "u_appl", "setId": [weekdays] }), vec!["/userId", "/setId"]),
    ] {
        assert_eq!(mio.post(apply, &body).expect_problem(422, "invalid"), at, "{body}");
    }
    for slot in ["currents", "LAST", "CURRENT%23", "promote"] {
        mio.post(&format!("/v1/plans/{slot}/apply"), &json!({ "setId": weekdays })).expect_problem(404, "not_found");
    }
    assert_eq!(mio.get("/v1/plans").list().len(), 2);
    assert_eq!(yui.get("/v1/plans").list(), Vec::<Json>::new());
}

/// Proves the moving part of K8.
#[test]
fn the_next_plan_can_be_promoted() {
    promoting_moves_a_plan_and_logs_cooked_meals(&kondate_server());
}

pub(crate) fn promoting_moves_a_plan_and_logs_cooked_meals(server: &TestServer) {
    let mio = server.client_of_user("u_promote", "u_promote");
    let promote = || mio.send("POST", "/v1/plans/promote", None);
    promote().expect_problem(409, "nothing_next");

    // Without a current plan nothing is logged.
    let weekdays = set(&mio, "平日", &[("r_01", "生姜焼き"), ("r_02", "肉じゃが"), ("r_03", "カレー")]);
    let next = mio.post("/v1/plans/NEXT/apply", &json!({ "setId": weekdays })).expect_data(200);
    let current = promote().expect_data(200);
    assert_eq!(text(&current, "slot"), "CURRENT");
    for field in ["setId", "setTitle", "appliedAt", "items"] {
        assert_eq!(current[field], next[field], "{field}");
    }
    mio.get("/v1/plans/NEXT").expect_problem(404, "not_found");
    promote().expect_problem(409, "nothing_next");
    assert_eq!(mio.get("/v1/plans/CURRENT").expect_data(200), current);
    assert_eq!(logs(&mio), Vec::<Json>::new());

    // Cooked meals of the old plan are logged, on their day or today.
    let items = json!([
        { "recipeId": "r_01", "title": "生姜焼き", "servings": 3, "date": "2029-12-30", "cooked": true },
        { "recipeId": null, "title": "残り物", "date": null, "servings": null, "cooked": true },
        { "recipeId": "r_03", "title": "カレー", "date": "2029-12-31", "cooked": false },
        { "title": "サラダ" },
    ]);
    mio.patch("/v1/plans/CURRENT", &json!({ "items": items })).expect_data(200);
    let by_hand = json!({ "slot": "NEXT", "items": [{ "title": "外食", "date": "2030-01-09" }] });
    mio.post("/v1/plans", &by_hand).expect_data(201);
    let current = promote().expect_data(200);
    // A plan without a set does not keep the set of the former one.
    assert_eq!((current.get("setId"), current.get("setTitle"), current.get("appliedAt")), (None, None, None));
    assert_eq!(current["items"][0]["title"], "外食");
    let logs = logs(&mio);
    assert_eq!(logs.len(), 2);
    let on_its_day = logs.iter().find(|log| log["title"] == "生姜焼き").expect("is logged");
    assert_eq!((text(on_its_day, "date"), text(on_its_day, "recipeId")), ("2029-12-30", "r_01"));
    assert_eq!((text(on_its_day, "setId"), &on_its_day["servings"]), (weekdays.as_str(), &json!(3)));
    let today = logs.iter().find(|log| log["title"] == "残り物").expect("is logged");
    assert_eq!(text(today, "date"), &text(today, "createdAt")[..10]);
    assert_eq!((today.get("recipeId"), today.get("servings")), (None, None));
    assert_eq!(text(today, "setId"), weekdays);
}

/// Proves the concurrency part of K8.
#[test]
fn concurrent_promotions_happen_once() {
    concurrent_promotions_move_the_plan_once(&kondate_server());
}

pub(crate) fn concurrent_promotions_move_the_plan_once(server: &TestServer) {
    let mio = server.client_of_user("u_rush", "u_rush");
    for round in 0..5 {
        // The largest possible plan: all its logs are written in one change set.
        let items: Vec<_> = (0..50).map(|n| json!({ "title": format!("{round}-{n}"), "cooked": true })).collect();
        match round {
            0 => mio.post("/v1/plans", &json!({ "slot": "CURRENT", "items": items })).expect_data(201),
            _ => mio.patch("/v1/plans/CURRENT", &json!({ "items": items })).expect_data(200),
        };
        let title = format!("next {round}");
        mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": [{ "title": title }] })).expect_data(201);
        let answers = run_concurrently(8, |_| mio.send("POST", "/v1/plans/promote", None));
        let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
        assert_eq!(done.len(), 1);
        refused.iter().for_each(|answer| drop(answer.expect_problem(409, "nothing_next")));
        assert_eq!(mio.get("/v1/plans/CURRENT").expect_data(200)["items"], json!([{ "title": title }]));
        mio.get("/v1/plans/NEXT").expect_problem(404, "not_found");
    }
    let mut titles: Vec<_> = logs(&mio).iter().map(|log| text(log, "title").to_owned()).collect();
    titles.sort();
    let mut expected: Vec<_> = (0..5).flat_map(|round| (0..50).map(move |n| format!("{round}-{n}"))).collect();
    expected.sort();
    assert_eq!(titles, expected);
}

/// Proves the concurrency part of K8.
#[test]
fn a_change_during_a_promotion_is_logged_or_refused() {
    a_change_during_a_promotion_is_not_lost(&kondate_server());
}

pub(crate) fn a_change_during_a_promotion_is_not_lost(server: &TestServer) {
    let mio = server.client_of_user("u_tick", "u_tick");
    for round in 0..12 {
        let title = format!("dish {round}");
        let _ = mio.delete("/v1/plans/CURRENT");
        mio.post("/v1/plans", &json!({ "slot": "CURRENT", "items": [{ "title": title }] })).expect_data(201);
        mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": [] })).expect_data(201);
        let cooked = json!({ "items": [{ "title": title, "cooked": true }] });
        let answers = run_concurrently(2, |n| match n {
            0 => mio.with_header("if-match", "\"v1\"").patch("/v1/plans/CURRENT", &cooked).status,
            _ => mio.send("POST", "/v1/plans/promote", None).status,
        });
        assert_eq!(answers[1], 200);
        assert!(matches!(answers[0], 200 | 412), "{answers:?}");
        let logged = logs(&mio).iter().any(|log| text(log, "title") == title);
        assert_eq!(logged, answers[0] == 200, "round {round}");
    }
}

/// A promotion also moves fields that the design adds later.
#[test]
fn a_field_added_to_the_design_is_moved_too() {
    let field = "shelf = { type = \"string\", optional = true }";
    let design = modified_design(|source| {
        ["plan", "fridge_item", "fridge_deleted_item"].iter().fold(source, |source, entity| {
            let begin = format!("[entity.{entity}.fields]\n");
            assert!(source.contains(&begin), "{entity}");
            source.replace(&begin, &format!("{begin}{field}\n"))
        })
    });
    let server = TestServer::in_memory(system_with(design, Arc::new(LocalPayments::default())));
    let mio = server.client_of_user("u_grow", "u_grow");

    let next = mio.post("/v1/plans", &json!({ "slot": "NEXT", "shelf": "top", "items": [] })).expect_data(201);
    let current = mio.post_empty("/v1/plans/promote").expect_data(200);
    assert_eq!((text(&current, "shelf"), &current["menuId"]), ("top", &next["menuId"]));

    let egg = mio.post("/v1/fridge-items", &json!({ "name": "卵", "shelf": "door" })).expect_data(201);
    assert_eq!(mio.delete(&format!("/v1/fridge-items/{}", text(&egg, "itemId"))).status, 204);
    let deleted = &mio.get("/v1/fridge-deleted-items").list()[0];
    assert_eq!(text(deleted, "shelf"), "door");
    let restore =
        format!("/v1/fridge-deleted-items/{}/{}/restore", text(deleted, "deletedAt"), text(deleted, "itemId"));
    assert_eq!(text(&mio.post_empty(&restore).expect_data(200), "shelf"), "door");
}

/// Request headers of custom routes are in the OpenAPI document.
#[test]
fn headers_of_custom_routes_are_documented() {
    let server = kondate_server();
    let document = server.anonymous_client().get("/openapi.json");
    let takes = |path: &str, method: &str, name: &str| {
        let parameters = document.body["paths"][path][method]["parameters"].clone();
        let wanted = json!({ "$ref": format!("#/components/parameters/{name}") });
        assert!(parameters.as_array().is_some_and(|all| all.contains(&wanted)), "{method} {path}: {parameters}");
    };
    takes("/v1/plans/{slot}/apply", "post", "IfMatch");
    takes("/v1/fridge-items/{itemId}", "delete", "IfMatch");
    takes("/v1/fridge-deleted-items/{deletedAt}/{itemId}/restore", "post", "IfMatch");
    takes("/v1/shares", "post", "IdempotencyKey");
}

/// Creates a set of these recipes for two.
#[track_caller]
pub(crate) fn set(client: &Client<'_>, title: &str, recipes: &[(&str, &str)]) -> String {
    let item = |(id, title): &(&str, &str)| json!({ "recipeId": id, "title": title, "servings": 2 });
    let items: Vec<_> = recipes.iter().map(item).collect();
    let set = client.post("/v1/sets", &json!({ "title": title, "items": items })).expect_data(201);
    text(&set, "setId").to_owned()
}

fn logs(client: &Client<'_>) -> Vec<Json> {
    client.get("/v1/cooklogs-between?limit=1000").list()
}
