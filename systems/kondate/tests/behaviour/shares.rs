//! Share links: everyone with a link reads one item, as long as it exists.

use std::{collections::BTreeSet, time::Duration};

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::{
    catalog::cook,
    harness::{create_item, kondate_server},
};

/// Proves K3.
#[test]
fn a_link_shows_one_item_to_all_until_it_is_revoked() {
    links_show_the_shared_item(&kondate_server());
}

pub(crate) fn links_show_the_shared_item(server: &TestServer) {
    let (ann, eve, anonymous) = (cook(server, "u_shr_a"), cook(server, "u_shr_e"), server.anonymous_client());
    let recipe = json!({
        "title": "生姜焼き", "memo": "内緒", "categoryId": "c_1", "steps": ["焼く"], "servings": 2,
        "sourceUrl": "https://kondate.example/1",
    });
    let recipe = ann.post("/v1/recipes", &recipe).expect_data(201);
    let set = json!({ "title": "平日", "items": [{ "recipeId": recipe["recipeId"], "title": "生姜焼き" }] });
    let set = ann.post("/v1/sets", &set).expect_data(201);

    let share = json!({ "targetType": "RECIPE", "targetId": recipe["recipeId"] });
    let made = ann.post("/v1/shares", &share);
    let link = made.expect_data(201);
    let path = format!("/v1/shares/{}", text(&link, "shareId"));
    assert_eq!(made.header("location"), Some(path.as_str()));
    assert_ne!(link["shareId"], recipe["recipeId"]);

    // The link shows the current item without private fields, with or without a token.
    let shown = anonymous.get(&path).expect_data(200);
    let target = json!({
        "title": "生姜焼き", "steps": ["焼く"], "servings": 2, "ingredients": [], "tags": [],
        "sourceUrl": "https://kondate.example/1",
    });
    let expected = json!({
        "shareId": link["shareId"], "targetType": "RECIPE", "targetId": recipe["recipeId"], "authorName": "u_shr_a",
        "sourceUrl": "https://kondate.example/1", "createdAt": link["createdAt"], "target": target,
    });
    assert_eq!(shown, expected);
    assert_eq!(eve.get(&path).expect_data(200), shown);
    let own = format!("/v1/recipes/{}", text(&recipe, "recipeId"));
    ann.patch(&own, &json!({ "title": "生姜焼き 改" })).expect_data(200);
    assert_eq!(anonymous.get(&path).expect_data(200)["target"]["title"], "生姜焼き 改");
    let of_set = ann.post("/v1/shares", &json!({ "targetType": "SET", "targetId": set["setId"] })).expect_data(201);
    let shown = anonymous.get(&format!("/v1/shares/{}", text(&of_set, "shareId"))).expect_data(200);
    assert_eq!((&shown["target"]["title"], &shown["target"]["items"]), (&json!("平日"), &set["items"]));
    assert!(!shown.to_string().contains("ownerUserId"), "{shown}");

    // A link gives access to nothing else: neither to other routes of its target nor to other items.
    for them in [&eve, &server.client_of_user("u_shr_a0", "u_shr_a0")] {
        them.get(&own).expect_problem(404, "not_found");
        them.delete(&path).expect_problem(404, "not_found");
    }
    anonymous.delete(&path).expect_problem(401, "no_token");
    anonymous.get(&own).expect_problem(401, "no_token");

    // A revoked link, or one whose target is deleted, is not found.
    assert_eq!(ann.delete(&path).status, 204);
    anonymous.get(&path).expect_problem(404, "not_found");
    let path = format!("/v1/shares/{}", text(&ann.post("/v1/shares", &share).expect_data(201), "shareId"));
    anonymous.get(&path).expect_data(200);
    assert_eq!(ann.delete(&own).status, 204);
    anonymous.get(&path).expect_problem(404, "not_found");
}

/// Proves the walls' part of K3.
#[test]
fn only_own_items_can_be_shared() {
    items_of_other_users_cannot_be_shared(&kondate_server());
}

pub(crate) fn items_of_other_users_cannot_be_shared(server: &TestServer) {
    let (ann, eve) = (cook(server, "u_own_a"), cook(server, "u_own_e"));
    let recipe = ann.post("/v1/recipes", &json!({ "title": "秘伝" })).expect_data(201);
    let target = |kind: &str, id: &str| json!({ "targetType": kind, "targetId": id });
    let id = text(&recipe, "recipeId");
    eve.post("/v1/shares", &target("RECIPE", id)).expect_problem(404, "not_found");
    ann.post("/v1/shares", &target("SET", id)).expect_problem(404, "not_found");
    ann.post("/v1/shares", &target("RECIPE", "r_404")).expect_problem(404, "not_found");

    // Callers cannot set the owner, the author and the id.
    for (field, value) in [("ownerUserId", "u_own_a"), ("authorName", "Ann"), ("shareId", "s_01")] {
        let mut body = target("RECIPE", id);
        body[field] = value.into();
        assert_eq!(ann.post("/v1/shares", &body).expect_problem(422, "invalid"), [format!("/{field}")]);
    }
    assert_eq!(ann.post("/v1/shares", &json!({})).expect_problem(422, "invalid"), ["/targetType", "/targetId"]);
    assert_eq!(
        ann.post("/v1/shares", &target("PROFILE", "x")).expect_problem(422, "invalid").first().map(String::as_str),
        Some("/targetType")
    );

    // With the same id as another user's item, the caller's own item is shared.
    create_item(server, "u_own_e", "recipe", &json!({ "recipeId": id, "title": "eve's" }));
    let link = eve.post("/v1/shares", &target("RECIPE", id)).expect_data(201);
    let path = format!("/v1/shares/{}", text(&link, "shareId"));
    assert_eq!(server.anonymous_client().get(&path).expect_data(200)["target"]["title"], "eve's");
    eve.delete(&format!("/v1/recipes/{id}"));
    server.anonymous_client().get(&path).expect_problem(404, "not_found");

    // Guessed links are not found, without a reason.
    for id in ["s_01", id, "01HZX5K7N2M4P6Q8R9S0T1V3W5", "x", "%23", "..%2Fmeta"] {
        server.anonymous_client().get(&format!("/v1/shares/{id}")).expect_problem(404, "not_found");
    }
    // Sharing needs a profile.
    let plain = server.client_of_user("u_own_p", "u_own_p");
    let recipe = plain.post("/v1/recipes", &json!({ "title": "x" })).expect_data(201);
    plain.post("/v1/shares", &target("RECIPE", text(&recipe, "recipeId"))).expect_problem(409, "no_profile");
}

/// Proves the listing part of K3.
#[test]
fn links_are_listed_to_their_owner_newest_first() {
    owners_list_their_links(&kondate_server());
}

pub(crate) fn owners_list_their_links(server: &TestServer) {
    let (ann, eve) = (cook(server, "u_lst_a"), cook(server, "u_lst_e"));
    let recipe = ann.post("/v1/recipes", &json!({ "title": "x" })).expect_data(201);
    let share = json!({ "targetType": "RECIPE", "targetId": recipe["recipeId"] });
    let mut made: Vec<Json> = Vec::new();
    for _ in 0..3 {
        server.clock.advance(Duration::from_secs(1));
        made.insert(0, ann.post("/v1/shares", &share).expect_data(201));
    }
    ann.get_until("/v1/shares", |answer| answer.list() == made);
    assert!(eve.get("/v1/shares").list().is_empty());
    server.anonymous_client().get("/v1/shares").expect_problem(401, "no_token");
    assert_eq!(ann.delete(&format!("/v1/shares/{}", text(&made[1], "shareId"))).status, 204);
    ann.get_until("/v1/shares", |answer| answer.list() == [made[0].clone(), made[2].clone()]);

    // A repeated request with the same key gives one link.
    let once = ann.with_header("idempotency-key", "once");
    let first = once.post("/v1/shares", &share).expect_data(201);
    assert_eq!(once.post("/v1/shares", &share).expect_data(201), first);
}

/// Proves the ids' part of K19: what one id is says nothing about one of another millisecond.
#[test]
fn ids_of_links_have_eighty_random_bits_each() {
    let server = kondate_server();
    let ann = cook(&server, "u_rnd");
    let recipe = ann.post("/v1/recipes", &json!({ "title": "x" })).expect_data(201);
    let share = json!({ "targetType": "RECIPE", "targetId": recipe["recipeId"] });
    // A ULID has ten characters of time and sixteen random ones.
    let random_part = |_| {
        server.clock.advance(Duration::from_millis(1));
        text(&ann.post("/v1/shares", &share).expect_data(201), "shareId")[10..].to_owned()
    };
    let chance: Vec<String> = (0..64).map(random_part).collect();
    assert!(chance.iter().all(|chance| chance.len() == 16));
    for at in 0..16 {
        let letters: BTreeSet<_> = chance.iter().map(|chance| chance.as_bytes()[at]).collect();
        // 64 draws from 32 characters miss about four of them; sixteen or fewer distinct ones would not be random.
        assert!(letters.len() > 16, "{at}: {letters:?}");
    }
}
