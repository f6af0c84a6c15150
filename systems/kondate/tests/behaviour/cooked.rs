//! Single dishes of a plan are marked as cooked.

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{kondate_server, run_concurrently};

/// Proves the part of K8 that marks single dishes as cooked.
#[test]
fn single_dishes_are_marked_as_cooked() {
    each_dish_is_marked_by_its_position(&kondate_server());
}

pub(crate) fn each_dish_is_marked_by_its_position(server: &TestServer) {
    let mio = server.client_of_user("u_dish", "u_dish");
    let path = |at: &str| format!("/v1/plans/CURRENT/items/{at}/cooked");
    mio.put(&path("0")).expect_problem(404, "not_found");
    let items: Vec<_> = (0..6).map(|n| json!({ "title": format!("{n}"), "recipeId": "r_01" })).collect();
    mio.post("/v1/plans", &json!({ "slot": "CURRENT", "items": items })).expect_data(201);

    let plan = mio.send("PUT", &path("1"), Some(&json!({ "date": "2030-01-09" }))).expect_data(200);
    let dish = json!({ "title": "1", "recipeId": "r_01", "date": "2030-01-09", "cooked": true });
    assert_eq!(plan["items"][1], dish);
    assert!(plan["items"][0]["cooked"] != true);
    // The same again changes nothing; without a date, the date stays.
    assert_eq!(mio.send("PUT", &path("1"), Some(&json!({ "date": "2030-01-09" }))).expect_data(200), plan);
    assert_eq!(mio.put(&path("1")).expect_data(200), plan);
    let undone = mio.delete(&path("1")).expect_data(200);
    assert_eq!((&undone["items"][1]["cooked"], &undone["items"][1]["date"]), (&json!(false), &json!("2030-01-09")));
    assert_eq!(mio.delete(&path("1")).expect_data(200), undone);

    // Concurrent marks of different dishes are all kept.
    run_concurrently(6, |n| mio.put(&path(&n.to_string())).expect_data(200));
    let plan = mio.get("/v1/plans/CURRENT").expect_data(200);
    assert!(plan["items"].as_array().expect("a list").iter().all(|dish| dish["cooked"] == true));
    let stale = mio.with_header("if-match", "\"v1\"");
    stale.delete(&path("0")).expect_problem(412, "version_conflict");

    for none in ["6", "-1", "x", "00", "+1", "99999999999999999999"] {
        mio.put(&path(none)).expect_problem(404, "not_found");
    }
    mio.put("/v1/plans/NEXT/items/0/cooked").expect_problem(404, "not_found");
    mio.put("/v1/plans/LATER/items/0/cooked").expect_problem(404, "not_found");
    let wrong = mio.send("PUT", &path("0"), Some(&json!({ "date": "yesterday", "cooked": true })));
    let mut at = wrong.expect_problem(422, "invalid");
    at.sort();
    assert_eq!(at, ["/cooked", "/date"]);
    server.client_of_user("u_dis", "u_dis").put(&path("0")).expect_problem(404, "not_found");
    server.anonymous_client().put(&path("0")).expect_problem(401, "no_token");

    // The day on which a dish was cooked is the day of its log.
    mio.send("PUT", &path("0"), Some(&json!({ "date": "2030-01-02" }))).expect_data(200);
    mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": [] })).expect_data(201);
    mio.post_empty("/v1/plans/promote").expect_data(200);
    let logs: Vec<Json> = mio.get("/v1/cooklogs?date=2030-01-02").list();
    assert_eq!(logs.iter().map(|log| text(log, "title")).collect::<Vec<_>>(), ["0"]);
}
