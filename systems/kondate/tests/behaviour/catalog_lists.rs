//! The lists of the catalog: the same items in every order, and whether the caller has saved them.

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::{
    catalog::{cook, publish, save_path, wait_for_count},
    harness::kondate_server,
};

/// Proves the part of K14 that items are the same in every order.
#[test]
fn every_order_has_whole_items_and_tells_what_is_saved() {
    items_are_the_same_in_every_order(&kondate_server());
}

pub(crate) fn items_are_the_same_in_every_order(server: &TestServer) {
    let (ann, ben) = (cook(server, "u_all_a"), cook(server, "u_all_b"));
    let recipe = json!({
        "title": "生姜焼き", "description": "早い", "tags": ["肉"], "steps": ["焼く"], "servings": 2, "cookMinutes": 20,
        "ingredients": [{ "name": "豚肉", "amount": 200, "unit": "g" }],
    });
    let made = ann.post("/v1/recipes", &recipe).expect_data(201);
    let copy = ann.post_empty(&format!("/v1/recipes/{}/publish", text(&made, "recipeId"))).expect_data(200);
    let public = format!("/v1/catalog/recipes/{}", text(&copy, "recipeId"));
    ben.get_until(&public, |answer| answer.status == 200);
    publish(&ann, "肉じゃが");
    assert_eq!((&copy["saved"], &copy["savedCount"]), (&json!(false), &json!(0)));

    ben.put(&save_path(&copy)).expect_data(200);
    wait_for_count(server, &copy, 1);
    let whole = ben.get(&public).expect_data(200);
    assert_eq!((&whole["saved"], &whole["savedCount"], &whole["steps"]), (&json!(true), &json!(1), &json!(["焼く"])));
    server.block_on(nagaya_kondate::catch_up(&server.nagaya)).expect("it catches up");
    let day = &text(&copy, "createdAt")[..10];
    let paths = [
        "/v1/catalog/recipes?limit=1000".to_owned(),
        "/v1/catalog/recipes/popular?limit=1000".to_owned(),
        "/v1/catalog/creators/u_all_a/recipes".to_owned(),
        "/v1/creator-recipes?creatorId=u_all_a".to_owned(),
        format!("/v1/catalog-recipes-created-between?from={day}T00:00:00Z"),
        "/v1/catalog/recipes?q=%E7%94%9F%E5%A7%9C%E7%84%BC".to_owned(),
    ];
    let find = |list: Vec<Json>| list.into_iter().find(|each| each["recipeId"] == copy["recipeId"]);
    for path in &paths {
        assert_eq!(find(ben.get(path).list()).as_ref(), Some(&whole), "{path}");
        // Who has not saved it sees the same item, not saved.
        for other in [&ann, &server.anonymous_client()] {
            let seen = find(other.get(path).list()).expect("it is listed");
            let mut expected = whole.clone();
            expected["saved"] = false.into();
            assert_eq!(seen, expected, "{path}");
        }
    }
    // The tag of an item changes with what it tells.
    let tag = ben.get(&public).header("etag").expect("a tag").to_owned();
    let known = ben.with_header("if-none-match", &tag);
    assert_eq!(known.get(&public).status, 304);
    assert_eq!(ben.delete(&save_path(&copy)).status, 204);
    assert_eq!(known.get(&public).expect_data(200)["saved"], false);
}

/// Proves the part of K14 that a long list by saves is paged without loss.
#[test]
fn a_long_list_by_saves_is_paged_without_loss() {
    let server = kondate_server();
    let ann = cook(&server, "u_all_p");
    let made: Vec<_> = (0..26).map(|n| text(&publish(&ann, &format!("{n}")), "recipeId").to_owned()).collect();
    let ids = |list: &[Json]| -> Vec<String> { list.iter().map(|each| text(each, "recipeId").to_owned()).collect() };
    for path in ["/v1/catalog/recipes/popular?", "/v1/creator-recipes?creatorId=u_all_p&"] {
        let all = ids(&ann.get(path.trim_end_matches(['?', '&'])).list());
        assert_eq!(all, made.iter().rev().cloned().collect::<Vec<_>>(), "{path}");
        let (mut paged, mut next) = (Vec::new(), Some(format!("{path}limit=22")));
        while let Some(path_of_page) = next {
            let page = ann.get(&path_of_page);
            paged.push(ids(&page.list()));
            next = page.body["nextCursor"].as_str().map(|cursor| format!("{path}limit=22&cursor={cursor}"));
        }
        assert_eq!((paged[0].len(), paged.concat()), (22, all), "{path}");
        for wrong in ["limit=0", "limit=1001", "order=up", "limit=1&limit=2", "color=red"] {
            ann.get(&format!("{path}{wrong}")).expect_problem(400, "bad_parameter");
        }
        assert_eq!(ids(&ann.get(&format!("{path}order=asc&limit=1")).list()), made[..1]);
    }
    ann.get("/v1/creator-recipes").expect_problem(400, "bad_parameter");
    ann.get(&format!("/v1/creator-recipes?creatorId={}", "x".repeat(65))).expect_problem(400, "bad_parameter");
    ann.get("/v1/catalog/recipes/popular?cursor=x").expect_problem(400, "bad_cursor");
}

/// Proves the part of K14 that sets are the same in every order.
#[test]
fn sets_are_whole_in_every_order_too() {
    let server = kondate_server();
    let ann = cook(&server, "u_all_s");
    let set = json!({ "title": "平日", "items": [{ "recipeId": "r_01", "title": "生姜焼き" }] });
    let made = ann.post("/v1/sets", &set).expect_data(201);
    let copy = ann.post_empty(&format!("/v1/sets/{}/publish", text(&made, "setId"))).expect_data(200);
    ann.put(&format!("/v1/catalog/sets/{}/save", text(&copy, "setId"))).expect_data(200);
    for path in ["/v1/catalog/sets", "/v1/catalog/sets/popular", "/v1/catalog/creators/u_all_s/sets"] {
        let listed = ann.get(path).list().remove(0);
        assert_eq!((&listed["items"][0]["title"], &listed["saved"]), (&json!("生姜焼き"), &json!(true)), "{path}");
    }
}

/// Proves the part of K14 that a saved item which was withdrawn says so.
#[test]
fn saved_items_tell_that_they_were_withdrawn() {
    withdrawn_items_say_so(&kondate_server());
}

pub(crate) fn withdrawn_items_say_so(server: &TestServer) {
    let (ann, ben) = (cook(server, "u_wdr_a"), server.client_of_user("u_wdr_b", "u_wdr_b"));
    let (gone, kept) = (publish(&ann, "一"), publish(&ann, "二"));
    for copy in [&gone, &kept] {
        assert_eq!(ben.put(&save_path(copy)).expect_data(200)["withdrawn"], false);
    }
    let withdrawn = || -> Vec<(String, bool)> {
        let listed = ben.get("/v1/saved-recipes").list();
        listed.iter().map(|each| (text(each, "title").to_owned(), each["withdrawn"] == true)).collect()
    };
    assert_eq!(withdrawn(), [("二".to_owned(), false), ("一".to_owned(), false)]);
    let own = format!("/v1/recipes/{}", text(&gone, "recipeId"));
    assert_eq!(ann.post_empty(&format!("{own}/withdraw")).status, 204);
    ben.get_until("/v1/saved-recipes", |answer| answer.list().iter().any(|each| each["withdrawn"] == true));
    assert_eq!(withdrawn(), [("二".to_owned(), false), ("一".to_owned(), true)]);
    let detail = format!("/v1/saved-recipes/{}", text(&gone, "recipeId"));
    assert_eq!(ben.get(&detail).expect_data(200)["withdrawn"], true);
    // Published again, it is there again, also for those who saved it before.
    ann.post_empty(&format!("{own}/publish")).expect_data(200);
    ben.get_until("/v1/saved-recipes", |answer| answer.list().iter().all(|each| each["withdrawn"] == false));
}
