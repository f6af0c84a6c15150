//! A shopping list from a plan says what it left out, and knows what is bought.

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::{
    harness::kondate_server,
    shopping::{add, add_from_plan, added_by, recipe},
};

/// Proves the part of K9 that a list from a plan says what it left out.
#[test]
fn a_list_from_a_plan_says_what_it_left_out() {
    what_is_left_out_has_a_reason(&kondate_server());
}

pub(crate) fn what_is_left_out_has_a_reason(server: &TestServer) {
    let mio = server.client_of_user("u_left", "u_left");
    let stew = json!([
        { "name": "玉ねぎ", "amount": 3, "unit": "個" },
        { "name": "人参", "amount": 1, "unit": "本" },
        { "name": "塩" },
        { "name": "米", "amount": 300, "unit": "g" },
        { "name": "醤油", "amount": 1, "unit": "T" },
        { "name": "水" },
    ]);
    let stew = recipe(&mio, None, &stew);
    let items = json!([
        { "recipeId": stew, "title": "肉じゃが" },
        { "recipeId": stew, "title": "昨日の肉じゃが", "cooked": true },
        { "title": "残り物" },
        { "recipeId": "r_99", "title": "消えた" },
    ]);
    mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": items })).expect_data(201);
    for there in [
        json!({ "name": "玉ねぎ", "amount": 1, "unit": "個" }),
        json!({ "name": "塩", "amount": 1, "unit": "袋" }),
        json!({ "name": "醤油" }),
    ] {
        mio.post("/v1/fridge-items", &there).expect_data(201);
    }
    add(&mio, &json!({ "name": "玉ねぎ", "amount": 1, "unit": "個" }));
    add(&mio, &json!({ "name": "人参", "amount": 5, "unit": "本" }));

    let answer = add_from_plan(&mio, "NEXT").expect_data(201);
    let added: Vec<_> =
        answer["added"].as_array().expect("a list").iter().map(|item| (text(item, "name"), &item["amount"])).collect();
    assert_eq!(added, [("玉ねぎ", &json!(1)), ("米", &json!(300)), ("水", &Json::Null)]);
    let dishes = json!([
        { "recipeId": stew, "title": "昨日の肉じゃが", "reason": "cooked" },
        { "title": "残り物", "reason": "no_recipe" },
        { "recipeId": "r_99", "title": "消えた", "reason": "recipe_not_found" },
    ]);
    assert_eq!(answer["leftOut"]["dishes"], dishes);
    let ingredients = json!([
        { "name": "玉ねぎ", "amount": 1, "unit": "個", "reason": "in_fridge" },
        { "name": "玉ねぎ", "amount": 1, "unit": "個", "reason": "on_list" },
        { "name": "人参", "amount": 1, "unit": "本", "reason": "on_list" },
        { "name": "塩", "reason": "in_fridge" },
        { "name": "醤油", "amount": 1, "unit": "T", "reason": "in_fridge" },
    ]);
    assert_eq!(answer["leftOut"]["ingredients"], ingredients);
}

/// Proves the part of K9 that what is bought for a plan is not listed for it again.
#[test]
fn bought_items_are_not_listed_again() {
    what_is_bought_for_a_plan_counts(&kondate_server());
}

pub(crate) fn what_is_bought_for_a_plan_counts(server: &TestServer) {
    let mio = server.client_of_user("u_bought", "u_bought");
    let eggs = recipe(&mio, Some(2), &json!([{ "name": "卵", "amount": 4, "unit": "個" }]));
    let plan = json!({ "slot": "CURRENT", "items": [{ "recipeId": eggs, "title": "x", "servings": 2 }] });
    mio.post("/v1/plans", &plan).expect_data(201);
    // Bought at another time, for something else.
    add(&mio, &json!({ "name": "卵", "amount": 4, "unit": "個", "completed": true }));
    let line = added_by(&add_from_plan(&mio, "CURRENT")).remove(0);
    let bought = json!({ "itemIds": [line["itemId"]] });
    mio.post("/v1/shopping-items/complete", &bought).expect_data(200);
    let again = add_from_plan(&mio, "CURRENT").expect_data(201);
    assert_eq!(again["added"], json!([]));
    let reason = json!([{ "name": "卵", "amount": 4, "unit": "個", "reason": "bought" }]);
    assert_eq!(again["leftOut"]["ingredients"], reason);

    // In the fridge it counts there, and once: a plan for twice as many needs the rest.
    mio.post("/v1/shopping-items/complete", &json!({ "itemIds": [line["itemId"]], "toFridge": true })).expect_data(200);
    let more = json!({ "items": [{ "recipeId": eggs, "title": "x", "servings": 4 }] });
    mio.patch("/v1/plans/CURRENT", &more).expect_data(200);
    let rest = add_from_plan(&mio, "CURRENT").expect_data(201);
    assert_eq!(rest["added"][0]["amount"], 4);
    let reason = json!([{ "name": "卵", "amount": 4, "unit": "個", "reason": "in_fridge" }]);
    assert_eq!(rest["leftOut"]["ingredients"], reason);
}

/// Proves the part of K9 that names are compared without the difference of hiragana, katakana and width.
#[test]
fn names_in_either_kana_are_the_same() {
    kana_and_width_make_no_difference(&kondate_server());
}

pub(crate) fn kana_and_width_make_no_difference(server: &TestServer) {
    let mio = server.client_of_user("u_kana", "u_kana");
    let salad = json!([
        { "name": "トマト", "amount": 2, "unit": "個" },
        { "name": "にんじん", "amount": 1, "unit": "本" },
        { "name": "ﾊﾞﾀｰ", "amount": 10, "unit": "g" },
        { "name": "とまと", "amount": 1, "unit": "コ" },
    ]);
    let salad = recipe(&mio, None, &salad);
    let plan = json!({ "slot": "CURRENT", "items": [{ "recipeId": salad, "title": "x" }] });
    mio.post("/v1/plans", &plan).expect_data(201);
    for there in [
        json!({ "name": "ﾄﾏﾄ", "amount": 2, "unit": "個" }),
        json!({ "name": "ばたー", "amount": 10, "unit": "ｇ" }),
        json!({ "name": "トマト", "amount": 1, "unit": "こ" }),
    ] {
        mio.post("/v1/fridge-items", &there).expect_data(201);
    }
    add(&mio, &json!({ "name": "ニンジン", "amount": 1, "unit": "本" }));
    assert_eq!(added_by(&add_from_plan(&mio, "CURRENT")), Vec::<Json>::new());
}
