//! Items of the catalog in use: copied into one's own book, and sets applied to a plan.

use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use crate::{
    catalog::cook,
    harness::kondate_server,
    payments::add_method,
    shopping::{add_from_plan, added_by},
};

/// Publishes a recipe of eggs and a set of it, at a price; their copies in the catalog.
fn publish_dinner(cook: &Client<'_>, price: u64) -> [Json; 2] {
    let recipe = json!({
        "title": "卵焼き", "steps": ["焼く"], "servings": 2, "memo": "母の味", "sourceUrl": "https://kondate.example/1",
        "ingredients": [{ "name": "卵", "amount": 3, "unit": "個" }],
    });
    let recipe = publish(cook, "recipes", "recipeId", &recipe, price);
    let set =
        json!({ "title": "朝食", "items": [{ "recipeId": recipe["recipeId"], "title": "卵焼き", "servings": 4 }] });
    let set = publish(cook, "sets", "setId", &set, price);
    [recipe, set]
}

fn publish(cook: &Client<'_>, what: &str, id: &str, item: &Json, price: u64) -> Json {
    let own = cook.post(&format!("/v1/{what}"), item).expect_data(201);
    let own = text(&own, id);
    let copy = cook.post(&format!("/v1/{what}/{own}/publish"), &json!({ "price": price })).expect_data(200);
    cook.get_until(&format!("/v1/catalog/{what}/{own}"), |answer| answer.status == 200);
    copy
}

/// Proves the part of K6, K7 and K14 that copies an item of the catalog into one's own book.
#[test]
fn catalog_items_are_copied_into_ones_own_book() {
    a_catalog_item_is_copied(&kondate_server());
}

pub(crate) fn a_catalog_item_is_copied(server: &TestServer) {
    let (ann, ben) = (cook(server, "u_cpy_a"), cook(server, "u_cpy_b"));
    let [recipe, set] = publish_dinner(&ann, 0);
    for (what, id, copy) in [("recipes", "recipeId", &recipe), ("sets", "setId", &set)] {
        let path = format!("/v1/catalog/{what}/{}/copy", text(copy, id));
        let made = ben.with_header("idempotency-key", what).post_empty(&path);
        let own = made.expect_data(201);
        assert_eq!(made.header("location"), Some(format!("/v1/{what}/{}", text(&own, id)).as_str()));
        assert_ne!(own[id], copy[id]);
        assert_eq!((text(&own, "userId"), text(&own, "origin")), ("u_cpy_b", "catalog"));
        assert_eq!(own["copiedFrom"], copy[id]);
        for field in ["title", "tags", "ingredients", "steps", "servings", "items", "sourceUrl"] {
            assert_eq!(own.get(field), copy.get(field), "{what}: {field}");
        }
        assert_eq!((own.get("memo"), own.get("publishedAt")), (None, None));
        // The same request again makes no other copy; a copy is the user's own, and is not published.
        assert_eq!(ben.with_header("idempotency-key", what).post_empty(&path).expect_data(201), own);
        assert_eq!(ben.get(&format!("/v1/{what}")).list(), std::slice::from_ref(&own));
        let own_path = format!("/v1/{what}/{}", text(&own, id));
        ben.patch(&own_path, &json!({ "title": "私の" })).expect_data(200);
        ben.post_empty(&format!("{own_path}/publish")).expect_problem(409, "copied");
        assert_eq!(
            ben.patch(&own_path, &json!({ "copiedFrom": null })).expect_problem(422, "invalid"),
            ["/copiedFrom"]
        );

        ann.post_empty(&path).expect_problem(409, "own_item");
        server.anonymous_client().post_empty(&path).expect_problem(401, "no_token");
        ben.post_empty(&format!("/v1/catalog/{what}/r_404/copy")).expect_problem(404, "not_found");
        ben.post_empty(&format!("/v1/catalog/{what}/no%20id/copy")).expect_problem(404, "not_found");
        assert_eq!(ann.post_empty(&format!("/v1/{what}/{}/withdraw", text(copy, id))).status, 204);
        ben.get_until(&format!("/v1/catalog/{what}/{}", text(copy, id)), |answer| answer.status == 404);
        ben.post_empty(&path).expect_problem(404, "not_found");
    }
}

/// Proves the part of K8 that applies a set of the catalog to a plan.
#[test]
fn saved_sets_are_applied_to_a_plan() {
    a_saved_set_is_applied(&kondate_server());
}

pub(crate) fn a_saved_set_is_applied(server: &TestServer) {
    let (ann, ben) = (cook(server, "u_use_a"), cook(server, "u_use_b"));
    let [recipe, set] = publish_dinner(&ann, 0);
    ben.put(&format!("/v1/catalog/sets/{}/save", text(&set, "setId"))).expect_data(200);
    let plan = ben.post("/v1/plans/NEXT/apply", &json!({ "setId": set["setId"] })).expect_data(200);
    assert_eq!((&plan["setId"], text(&plan, "setTitle")), (&set["setId"], "朝食"));
    let dish = json!({ "recipeId": recipe["recipeId"], "title": "卵焼き", "servings": 4, "cooked": false });
    assert_eq!(plan["items"], json!([dish]));
    // Its recipes are the catalog's: the shopping list has their ingredients.
    let added = added_by(&add_from_plan(&ben, "NEXT"));
    assert_eq!(
        (text(&added[0], "name"), &added[0]["amount"], &added[0]["recipeId"]),
        ("卵", &json!(6), &recipe["recipeId"])
    );

    // A withdrawn one is no longer there, nor are its recipes.
    for path in [format!("sets/{}", text(&set, "setId")), format!("recipes/{}", text(&recipe, "recipeId"))] {
        assert_eq!(ann.post_empty(&format!("/v1/{path}/withdraw")).status, 204);
        ben.get_until(&format!("/v1/catalog/{path}"), |answer| answer.status == 404);
    }
    let refused = ben.post("/v1/plans/CURRENT/apply", &json!({ "setId": set["setId"] }));
    assert_eq!(refused.expect_problem(404, "not_found"), ["/setId"]);
    let left_out = &add_from_plan(&ben, "NEXT").expect_data(201)["leftOut"]["dishes"];
    assert_eq!(left_out[0]["reason"], "recipe_not_found");
}

/// Proves the part of K8 and K14 that what costs something is used by those who paid it.
#[test]
fn paid_items_are_used_by_those_who_paid() {
    let server = kondate_server();
    let (ann, ben) = (cook(&server, "u_due_a"), cook(&server, "u_due_b"));
    let [recipe, set] = publish_dinner(&ann, 300);
    let apply = || ben.post("/v1/plans/CURRENT/apply", &json!({ "setId": set["setId"] }));
    let copies = [
        format!("/v1/catalog/recipes/{}/copy", text(&recipe, "recipeId")),
        format!("/v1/catalog/sets/{}/copy", text(&set, "setId")),
    ];
    apply().expect_problem(402, "payment_required");
    for path in &copies {
        ben.post_empty(path).expect_problem(402, "payment_required");
    }
    let by_hand = json!({ "slot": "NEXT", "items": [{ "recipeId": recipe["recipeId"], "title": "卵焼き" }] });
    ben.post("/v1/plans", &by_hand).expect_data(201);
    let listed = add_from_plan(&ben, "NEXT").expect_data(201);
    let dish = json!({ "recipeId": recipe["recipeId"], "title": "卵焼き", "reason": "not_bought" });
    assert_eq!((&listed["added"], &listed["leftOut"]["dishes"]), (&json!([]), &json!([dish])));

    add_method(&ben, "tok_visa");
    for (key, kind, id) in [("1", "RECIPE", &recipe["recipeId"]), ("2", "SET", &set["setId"])] {
        let order = json!({ "targetType": kind, "targetId": id });
        ben.with_header("idempotency-key", key).post("/v1/purchases", &order).expect_data(201);
    }
    apply().expect_data(200);
    let own = ben.post_empty(&copies[0]).expect_data(201);
    ben.post_empty(&copies[1]).expect_data(201);
    assert_eq!(added_by(&add_from_plan(&ben, "NEXT")).len(), 1);

    // A link to the copy shows a preview to those who have not paid.
    let share = json!({ "targetType": "RECIPE", "targetId": own["recipeId"] });
    let link = ben.post("/v1/shares", &share).expect_data(201);
    let shown = server.anonymous_client().get(&format!("/v1/shares/{}", text(&link, "shareId"))).expect_data(200);
    assert_eq!((&shown["target"]["preview"], shown["target"].get("steps")), (&json!(true), None));
}
