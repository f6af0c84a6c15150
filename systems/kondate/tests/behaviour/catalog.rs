//! The catalog: published items are public until they are withdrawn.

use std::time::Duration;

use nagaya_store::ErrorKind;
use nagaya_testing::{Call, Client, Fault, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{create_item, instrumented_server, kondate_server, run_concurrently, system};

/// Proves the publishing part of K14, and K2.
#[test]
fn published_items_are_in_the_catalog_until_they_are_withdrawn() {
    let server = kondate_server();
    a_recipe_is_published_and_withdrawn(&server);
    a_set_is_published_and_withdrawn(&server);
}

pub(crate) fn a_recipe_is_published_and_withdrawn(server: &TestServer) {
    let recipe = json!({
        "title": "生姜焼き", "description": "早い", "memo": "母の味", "categoryId": "c_1", "tags": ["肉"], "steps": ["焼く"],
        "ingredients": [{ "name": "豚肉", "amount": 200, "unit": "g" }], "servings": 2, "cookMinutes": 20,
        "imageUrl": "https://img.example/1.png", "sourceUrl": "https://kondate.example/1",
    });
    publish_and_withdraw(server, "u_pub_r", "recipes", "recipeId", &recipe);
}

pub(crate) fn a_set_is_published_and_withdrawn(server: &TestServer) {
    let set = json!({
        "title": "平日の献立", "description": "五日分", "categoryId": "c_1", "tags": ["時短"],
        "items": [{ "recipeId": "r_01", "title": "生姜焼き", "servings": 2 }],
        "imageUrl": "https://img.example/1.png", "sourceUrl": "https://kondate.example/1",
    });
    publish_and_withdraw(server, "u_pub_s", "sets", "setId", &set);
}

fn publish_and_withdraw(server: &TestServer, user: &str, what: &str, id: &str, made: &Json) {
    let (hana, anonymous) = (server.client_of_user(user, user), server.anonymous_client());
    let own = hana.post(&format!("/v1/{what}"), made).expect_data(201);
    let own_path = format!("/v1/{what}/{}", text(&own, id));
    let (publish, withdraw) = (format!("{own_path}/publish"), format!("{own_path}/withdraw"));
    let public = format!("/v1/catalog/{what}/{}", text(&own, id));
    let of_creator = format!("/v1/catalog/creators/{user}/{what}");
    anonymous.get(&public).expect_problem(404, "not_found");

    // A publisher needs a profile, and the body can only have a price.
    hana.post_empty(&publish).expect_problem(409, "no_profile");
    hana.post("/v1/profile", &json!({ "displayName": "Hana" })).expect_data(201);
    assert_eq!(hana.post(&publish, &json!({ "price": -1 })).expect_problem(422, "invalid"), ["/price"]);
    assert_eq!(hana.post(&publish, &json!({ "savedCount": 9 })).expect_problem(422, "invalid"), ["/savedCount"]);
    hana.with_header("if-match", "\"v9\"").post_empty(&publish).expect_problem(412, "version_conflict");
    hana.post_empty(&withdraw).expect_problem(409, "not_published");

    // The copy has every field except private ones; the user's own item has the time of publication.
    let copy = hana.post(&publish, &json!({ "price": 300 })).expect_data(200);
    for (field, value) in made.as_object().expect("fields") {
        match field.as_str() {
            "memo" | "categoryId" => assert_eq!(copy.get(field), None),
            _ => assert_eq!(&copy[field], value, "{field}"),
        }
    }
    let about = [&copy["creatorId"], &copy["creatorName"], &copy["price"], &copy[id]];
    assert_eq!(about, [&json!(user), &json!("Hana"), &json!(300), &own[id]]);
    assert_eq!(hana.get_until(&own_path, published).expect_data(200)["publishedAt"], copy["createdAt"]);
    assert_eq!(hana.get_until(&public, is_ok).expect_data(200), copy);
    assert_eq!(hana.get_until(&of_creator, |answer| answer.list().len() == 1).list(), std::slice::from_ref(&copy));
    // It costs something: visitors see a preview.
    assert_eq!(anonymous.get(&public).expect_data(200)["preview"], true);
    let popular = format!("/v1/catalog/{what}/popular");
    let short = anonymous.get_until(&popular, |answer| position(answer, &copy, id).is_some());
    let short = short.list().into_iter().find(|short| short[id] == own[id]).expect("it is there");
    assert_eq!((&short["savedCount"], &short["createdAt"]), (&json!(0), &copy["createdAt"]));
    assert_eq!((&short["preview"], &short["description"]), (&json!(true), &copy["description"]));
    assert!(["steps", "items", "ingredients"].iter().all(|withheld| short.get(withheld).is_none()), "{short}");

    // A change is private until it is published too; the position in the catalog stays.
    server.clock.advance(Duration::from_secs(3));
    hana.patch(&own_path, &json!({ "title": "新しい", "imageUrl": null })).expect_data(200);
    assert_eq!(hana.get(&public).expect_data(200), copy);
    let again = hana.post_empty(&publish).expect_data(200);
    assert_eq!((&again["title"], again.get("imageUrl"), &again["price"]), (&json!("新しい"), None, &json!(300)));
    assert_eq!(again["createdAt"], copy["createdAt"]);
    // Another price is published like any other change.
    let dearer = hana.post(&publish, &json!({ "price": 500 })).expect_data(200);
    assert_eq!((&dearer["price"], &hana.get(&own_path).expect_data(200)["lastPrice"]), (&json!(500), &json!(500)));
    let again = hana.post(&publish, &json!({ "price": again["price"] })).expect_data(200);
    assert_eq!(hana.get(&own_path).expect_data(200)["lastPrice"], 300);
    hana.get_until(&public, |answer| answer.status == 200 && answer.body["data"] == again);
    anonymous.get_until(&popular, |answer| {
        let listed = answer.list();
        listed.iter().any(|short| short[id] == own[id] && short["title"] == "新しい" && short.get("imageUrl").is_none())
    });

    // Other users cannot publish, withdraw or delete it.
    for them in [&format!("{user}0"), "eve"] {
        let them = server.client_of_user(them, them);
        for path in [&publish, &withdraw] {
            them.post_empty(path).expect_problem(404, "not_found");
        }
        them.delete(&own_path).expect_problem(404, "not_found");
    }

    // A withdrawn item is not public; publishing it again is a new publication, even in the same second.
    assert_eq!(hana.post_empty(&withdraw).status, 204);
    hana.post_empty(&withdraw).expect_problem(409, "not_published");
    assert_eq!(hana.get_until(&own_path, |answer| !published(answer)).expect_data(200).get("publishedAt"), None);
    wait_until_removed(&anonymous, &public, &of_creator);
    let republished = hana.post_empty(&publish).expect_data(200);
    assert!(text(&republished, "createdAt") > text(&copy, "createdAt"));
    hana.post_empty(&withdraw);
    let later = hana.post_empty(&publish).expect_data(200);
    assert!(text(&later, "createdAt") > text(&republished, "createdAt"), "{later}");
    assert_eq!((&later["price"], hana.get(&own_path).expect_data(200).get("lastPrice")), (&json!(0), None));

    // A deleted item is not public.
    hana.with_header("if-match", "\"v1\"").delete(&own_path).expect_problem(412, "version_conflict");
    assert_eq!(hana.delete(&own_path).status, 204);
    hana.get_until(&own_path, |answer| answer.status == 404);
    hana.delete(&own_path).expect_problem(404, "not_found");
    wait_until_removed(&anonymous, &public, &of_creator);
}

fn is_ok(answer: &nagaya_testing::Response) -> bool {
    answer.status == 200
}

fn published(answer: &nagaya_testing::Response) -> bool {
    answer.expect_data(200).get("publishedAt").is_some()
}

/// The position of an item in a list.
fn position(answer: &nagaya_testing::Response, item: &Json, id: &str) -> Option<usize> {
    answer.list().iter().position(|each| each[id] == item[id])
}

#[track_caller]
fn wait_until_removed(anonymous: &Client<'_>, public: &str, of_creator: &str) {
    anonymous.get_until(public, |answer| answer.status == 404);
    anonymous.get_until(of_creator, |answer| answer.list().is_empty());
}

/// A user with a profile.
pub(crate) fn cook<'h>(server: &'h TestServer, name: &str) -> Client<'h> {
    let cook = server.client_of_user(name, name);
    cook.post("/v1/profile", &json!({ "displayName": name })).expect_data(201);
    cook
}

/// Creates a recipe and publishes it.
#[track_caller]
pub(crate) fn publish(cook: &Client<'_>, title: &str) -> Json {
    let made = cook.post("/v1/recipes", &json!({ "title": title })).expect_data(201);
    let copy = cook.post_empty(&format!("/v1/recipes/{}/publish", text(&made, "recipeId"))).expect_data(200);
    cook.get_until(&format!("/v1/catalog/recipes/{}", text(&made, "recipeId")), is_ok);
    copy
}

pub(crate) fn save_path(copy: &Json) -> String {
    format!("/v1/catalog/recipes/{}/save", text(copy, "recipeId"))
}

/// Proves the orders of K14, and the catalog part of K4.
#[test]
fn the_catalog_is_listed_by_time_by_saves_and_by_creator() {
    catalog_lists_are_sorted(&kondate_server());
}

pub(crate) fn catalog_lists_are_sorted(server: &TestServer) {
    let (ann, ben) = (cook(server, "u_ord_a"), cook(server, "u_ord_b"));
    let mut copies = Vec::new();
    for (cook, title) in [(&ann, "first"), (&ben, "second"), (&ann, "third")] {
        server.clock.advance(Duration::from_secs(1));
        copies.push(publish(cook, title));
    }
    let ids: Vec<_> = copies.iter().map(|copy| text(copy, "recipeId")).collect();
    let of = |answer: &nagaya_testing::Response| -> Vec<String> {
        let listed = answer.list();
        let listed = listed.iter().map(|each| text(each, "recipeId").to_owned());
        listed.filter(|id| ids.contains(&id.as_str())).collect()
    };
    let anonymous = server.anonymous_client();
    anonymous.get_until("/v1/catalog/recipes?limit=1000", |answer| of(answer) == [ids[2], ids[1], ids[0]]);
    anonymous.get_until("/v1/catalog/creators/u_ord_a/recipes", |answer| of(answer) == [ids[2], ids[0]]);
    anonymous.get_until("/v1/catalog/creators/u_ord_b/recipes", |answer| of(answer) == [ids[1]]);

    // Two users save the second recipe, one the first.
    for (cook, copy) in [(&ann, 1), (&ben, 1), (&ben, 0)] {
        cook.put(&save_path(&copies[copy])).expect_data(200);
    }
    anonymous.get_until("/v1/catalog/recipes/popular?limit=1000", |answer| of(answer) == [ids[1], ids[0], ids[2]]);
    // Then two save the first, and none the second.
    ann.put(&save_path(&copies[0])).expect_data(200);
    for cook in [&ann, &ben] {
        assert_eq!(cook.delete(&save_path(&copies[1])).status, 204);
    }
    anonymous.get_until("/v1/catalog/recipes/popular?limit=1000", |answer| {
        of(answer).first().map(String::as_str) == Some(ids[0])
    });
}

/// Proves the saving part of K14.
#[test]
fn saving_is_idempotent() {
    repeated_saves_have_no_further_effect(&kondate_server());
}

pub(crate) fn repeated_saves_have_no_further_effect(server: &TestServer) {
    let (ann, ben) = (cook(server, "u_sav_a"), server.client_of_user("u_sav_b", "u_sav_b"));
    let copy = publish(&ann, "肉じゃが");
    let saved = ben.put(&save_path(&copy)).expect_data(200);
    let known =
        json!([saved["userId"], saved["recipeId"], saved["creatorId"], saved["catalogCreatedAt"], saved["title"]]);
    assert_eq!(known, json!(["u_sav_b", copy["recipeId"], "u_sav_a", copy["createdAt"], "肉じゃが"]));
    assert_eq!(ben.put(&save_path(&copy)).expect_data(200), saved, "the same again is the same");
    assert_eq!(ben.get("/v1/saved-recipes").list(), std::slice::from_ref(&saved));
    assert!(ann.get("/v1/saved-recipes").list().is_empty());
    // A change of the same publication is not saved again.
    let own = format!("/v1/recipes/{}", text(&copy, "recipeId"));
    ann.patch(&own, &json!({ "title": "新じゃが" })).expect_data(200);
    let changed = ann.post_empty(&format!("{own}/publish")).expect_data(200);
    let public = format!("/v1/catalog/recipes/{}", text(&copy, "recipeId"));
    ben.get_until(&public, |answer| answer.body["data"]["title"] == changed["title"]);
    assert_eq!(ben.put(&save_path(&copy)).expect_data(200), saved);

    // Only catalog items can be saved; removing a save that does not exist succeeds.
    ben.put("/v1/catalog/recipes/r_404/save").expect_problem(404, "not_found");
    ben.put("/v1/catalog/recipes/nothing%20at%20all/save").expect_problem(404, "not_found");
    ben.put(&save_path(&copy).replace("recipes", "sets").replace("recipeId", "setId")).expect_problem(404, "not_found");
    assert_eq!(ben.delete("/v1/catalog/recipes/r_404/save").status, 204);
    ben.delete("/v1/catalog/recipes/nothing%20at%20all/save").expect_problem(404, "not_found");

    // A withdrawn item can be read in the list of saves and removed from it, but not saved.
    ann.post_empty(&format!("{own}/withdraw"));
    ben.get_until(&format!("/v1/catalog/recipes/{}", text(&copy, "recipeId")), |answer| answer.status == 404);
    ben.put(&save_path(&copy)).expect_problem(404, "not_found");
    let mut withdrawn = saved.clone();
    withdrawn["withdrawn"] = true.into();
    assert_eq!(ben.get("/v1/saved-recipes").list(), [withdrawn]);

    // Saving again refers to the new publication; `savedAt` stays.
    ann.patch(&own, &json!({ "title": "肉じゃが 改" })).expect_data(200);
    let republished = ann.post_empty(&format!("{own}/publish")).expect_data(200);
    ben.get_until(&format!("/v1/catalog/recipes/{}", text(&copy, "recipeId")), is_ok);
    let renewed = ben.put(&save_path(&copy)).expect_data(200);
    let fields = [&renewed["catalogCreatedAt"], &renewed["title"], &renewed["savedAt"]];
    assert_eq!(fields, [&republished["createdAt"], &json!("肉じゃが 改"), &saved["savedAt"]]);
    assert_eq!(ben.get("/v1/saved-recipes").list(), [renewed]);
    wait_for_count(server, &copy, 1);

    for _ in 0..2 {
        assert_eq!(ben.delete(&save_path(&copy)).status, 204);
    }
    assert!(ben.get("/v1/saved-recipes").list().is_empty());
    wait_for_count(server, &copy, 0);
}

#[test]
fn a_save_that_the_store_cannot_remove_is_not_reported_as_removed() {
    let (server, store) = instrumented_server();
    let (ann, ben) = (cook(&server, "u_del_a"), server.client_of_user("u_del_b", "u_del_b"));
    let copy = publish(&ann, "肉じゃが");
    let saved = ben.put(&save_path(&copy)).expect_data(200);
    let is_of_user = |call: &Call| call.is_write() && format!("{call:?}").contains("USER#u_del_b");
    let fault = store.inject(Fault::fail_before(|| ErrorKind::Busy.into()).matching(is_of_user));
    assert_eq!(ben.delete(&save_path(&copy)).status, 503);
    fault.remove();
    assert_eq!(ben.get("/v1/saved-recipes").list(), [saved]);
}

/// Two publications never have the same time; a published change is none.
#[test]
fn publishing_again_right_after_a_change_has_the_present_time() {
    let server = TestServer::builder(system()).start();
    let ann = cook(&server, "u_now_a");
    let copy = publish(&ann, "肉じゃが");
    let own = format!("/v1/recipes/{}", text(&copy, "recipeId"));
    server.clock.advance(Duration::from_secs(10));
    ann.patch(&own, &json!({ "title": "新じゃが" })).expect_data(200);
    let changed = ann.post_empty(&format!("{own}/publish")).expect_data(200);
    assert_eq!(changed["createdAt"], copy["createdAt"]);
    assert_eq!(ann.post_empty(&format!("{own}/withdraw")).status, 204);
    let again = ann.post_empty(&format!("{own}/publish")).expect_data(200);
    assert_eq!(again["createdAt"], changed["updatedAt"]);
}

/// Waits until a recipe has this count.
#[track_caller]
pub(crate) fn wait_for_count(server: &TestServer, copy: &Json, count: u64) {
    server.anonymous_client().get_until("/v1/catalog/recipes/popular?limit=1000", |answer| {
        answer.list().iter().any(|each| each["recipeId"] == copy["recipeId"] && each["savedCount"] == count)
    });
}

/// Proves the visitors' part of K14.
#[test]
fn without_a_token_the_catalog_is_read_and_nothing_else() {
    visitors_read_the_catalog(&kondate_server());
}

pub(crate) fn visitors_read_the_catalog(server: &TestServer) {
    let ann = cook(server, "u_vis_a");
    let copy = publish(&ann, "味噌汁");
    let anonymous = server.anonymous_client();
    let id = text(&copy, "recipeId");
    for path in [
        "recipes",
        "sets",
        "profile",
        "plans",
        "shopping-items",
        "fridge-items",
        "saved-recipes",
        "saved-sets",
        "shares",
        "notifications",
        "archive",
        "payment-methods",
        "purchases",
        "subscription",
        &format!("recipes/{id}"),
    ] {
        anonymous.get(&format!("/v1/{path}")).expect_problem(401, "no_token");
    }
    anonymous.put(&save_path(&copy)).expect_problem(401, "no_token");
    anonymous.delete(&save_path(&copy)).expect_problem(401, "no_token");
    anonymous.post_empty(&format!("/v1/recipes/{id}/publish")).expect_problem(401, "no_token");
    anonymous.post("/v1/shares", &json!({})).expect_problem(401, "no_token");
    anonymous.post("/v1/catalog/recipes", &json!({})).expect_problem(405, "no_such_method");
    anonymous.with_header("authorization", "Bearer x").get("/v1/catalog/recipes").expect_problem(401, "bad_token");
    for path in ["recipes", "recipes/popular", "sets", "sets/popular", "creators/u_vis_a/recipes"] {
        anonymous.get(&format!("/v1/catalog/{path}")).expect_data(200);
    }
}

/// Proves the ids' part of K14: what is found by an id stays its creator's.
#[test]
fn a_catalog_id_belongs_to_one_creator() {
    an_id_is_published_by_one_creator_only(&kondate_server());
}

pub(crate) fn an_id_is_published_by_one_creator_only(server: &TestServer) {
    let (ann, eve) = (cook(server, "u_id_a"), cook(server, "u_id_e"));
    for user in ["u_id_a", "u_id_e"] {
        create_item(server, user, "recipe", &json!({ "recipeId": "r_8801", "title": "same id" }));
    }
    let publish = "/v1/recipes/r_8801/publish";
    let copy = ann.post_empty(publish).expect_data(200);
    eve.post_empty(publish).expect_problem(409, "id_taken");
    server
        .anonymous_client()
        .get_until("/v1/catalog/recipes/r_8801", |answer| answer.status == 200 && answer.body["data"] == copy);
    // Not even while it is withdrawn or deleted: other users have saved it by its id.
    ann.delete("/v1/recipes/r_8801");
    eve.post_empty(publish).expect_problem(409, "id_taken");
    create_item(server, "u_id_a", "recipe", &json!({ "recipeId": "r_8801", "title": "again" }));
    let again = ann.post_empty(publish).expect_data(200);
    assert!(text(&again, "createdAt") > text(&copy, "createdAt"));

    // One of two concurrent requests succeeds.
    for user in ["u_id_a", "u_id_e"] {
        create_item(server, user, "recipe", &json!({ "recipeId": "r_8802", "title": "same id" }));
    }
    let cooks = [&ann, &eve];
    let mut statuses = run_concurrently(2, |n| cooks[n].post_empty("/v1/recipes/r_8802/publish").status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

/// Proves the ids' part of K14: nobody makes something by the id of another's, to be published before it.
#[test]
fn callers_cannot_choose_ids_of_publishable_items() {
    let server = kondate_server();
    let (ann, eve) = (cook(&server, "u_sel_a"), cook(&server, "u_sel_e"));
    for (path, id) in [("/v1/recipes", "recipeId"), ("/v1/sets", "setId")] {
        let made = ann.post(path, &json!({ "title": "x" })).expect_data(201);
        for chosen in [text(&made, id), "r_01"] {
            let answer = eve.post(path, &json!({ id: chosen, "title": "y" }));
            assert_eq!(answer.expect_problem(422, "invalid"), [format!("/{id}")]);
        }
        let own = eve.post(path, &json!({ "title": "y" })).expect_data(201);
        let own = format!("{path}/{}", text(&own, id));
        assert_eq!(eve.patch(&own, &json!({ id: made[id] })).expect_problem(422, "invalid"), [format!("/{id}")]);
        assert_eq!(eve.get(path).list().len(), 1);
    }
}

/// Proves the races' part of K14.
#[test]
fn concurrent_publishing_and_deleting_leaves_no_orphans() {
    concurrent_changes_leave_no_orphans(&kondate_server());
}

pub(crate) fn concurrent_changes_leave_no_orphans(server: &TestServer) {
    let ann = cook(server, "u_race_a");
    for round in 0..8 {
        let made = ann.post("/v1/recipes", &json!({ "title": "x" })).expect_data(201);
        let path = format!("/v1/recipes/{}", text(&made, "recipeId"));
        if round % 2 == 0 {
            ann.post_empty(&format!("{path}/publish")).expect_data(200);
        }
        let statuses = run_concurrently(5, |n| match n {
            0 | 1 => ann.post_empty(&format!("{path}/publish")).status,
            2 => ann.post_empty(&format!("{path}/withdraw")).status,
            3 => ann.patch(&path, &json!({ "title": "y" })).status,
            _ => ann.delete(&path).status,
        });
        assert_eq!(statuses[4], 204, "{statuses:?}");
        assert!(statuses.iter().all(|status| [200, 204, 404, 409].contains(status)), "{statuses:?}");
        wait_until_removed(
            &server.anonymous_client(),
            &format!("/v1/catalog/recipes/{}", text(&made, "recipeId")),
            RACE_CATALOG,
        );
        let popular = server.anonymous_client().get("/v1/catalog/recipes/popular?limit=1000");
        assert_eq!(position(&popular, &made, "recipeId"), None, "an orphan");
    }
}

const RACE_CATALOG: &str = "/v1/catalog/creators/u_race_a/recipes";

/// Every reference of the OpenAPI document resolves, also in custom routes.
#[test]
fn the_openapi_document_has_resolvable_references() {
    let server = kondate_server();
    let document = server.anonymous_client().get("/openapi.json");
    assert_eq!(document.status, 200);
    let mut references = Vec::new();
    collect_references(&document.body, &mut references);
    assert!(references.iter().any(|each| each.ends_with("/CatalogSet")), "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("a place in the document");
        assert!(document.body.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for path in
        ["/v1/recipes/{recipeId}/publish", "/v1/catalog/sets/{setId}/save", "/v1/shares/{shareId}", "/v1/shares"]
    {
        assert!(document.body["paths"].get(path).is_some(), "{path} is not described");
    }
}

#[test]
fn the_openapi_document_describes_the_bodies_and_answers_of_custom_routes() {
    let server = kondate_server();
    let document = server.anonymous_client().get("/openapi.json").body;
    let content = |path: &str, rest: &str| {
        let place = format!("/paths/{}/{rest}/content/application~1json/schema", path.replace('/', "~1"));
        document.pointer(&place).unwrap_or_else(|| panic!("{place}")).clone()
    };
    let answered = |path: &str, of: &str| content(path, of)["properties"]["data"].clone();

    let price = &content("/v1/recipes/{recipeId}/publish", "post/requestBody")["properties"]["price"];
    assert!(price.get("default").is_none() && price["description"].as_str().is_some_and(|text| text.contains("stays")));
    let purchase = &content("/v1/purchases", "post/requestBody")["properties"];
    assert_eq!(purchase["targetType"]["enum"], json!(["RECIPE", "SET"]));

    let months = answered("/v1/archive", "get/responses/200");
    assert_eq!(months["items"]["required"], json!(["month"]));
    assert_eq!(months["items"]["properties"]["month"]["type"], "string");
    let days = answered("/v1/archive/{month}", "get/responses/200");
    assert_eq!(days["items"]["required"], json!(["date", "logs"]));

    let link = &answered("/v1/shares/{shareId}", "get/responses/200")["properties"];
    assert!(link["shareId"].is_object() && link["authorName"].is_object(), "{link}");
    assert!(link.get("ownerUserId").is_none(), "{link}");
}

fn collect_references(value: &Json, references: &mut Vec<String>) {
    match value {
        Json::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Json::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect_references(value, references));
        }
        Json::Array(values) => values.iter().for_each(|value| collect_references(value, references)),
        _ => {}
    }
}
