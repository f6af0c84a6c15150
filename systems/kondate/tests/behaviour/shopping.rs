//! The shopping list: completed items, and items from a plan.

use std::time::Duration;

use nagaya_store::{Item, Key, Page, PagePosition, Value, WriteAction};
use nagaya_testing::{Call, Client, Fault, Response, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{create_items, instrumented_server, kondate_server, run_concurrently};

/// Proves the completing part of K9.
#[test]
fn shopping_items_are_completed_one_by_one_or_in_bulk() {
    completing_marks_all_or_none(&kondate_server());
}

pub(crate) fn completing_marks_all_or_none(server: &TestServer) {
    let mio = server.client_of_user("u_buy", "u_buy");
    let ids: Vec<_> = ["牛乳", "卵", "米"].map(|name| add(&mio, &json!({ "name": name }))).into();
    let complete = |ids: &[&str]| mio.post("/v1/shopping-items/complete", &json!({ "itemIds": ids }));

    let path = format!("/v1/shopping-items/{}", ids[0]);
    let milk = mio.patch(&path, &json!({ "completed": true })).expect_data(200);
    assert_eq!(text(&milk, "completedAt"), text(&milk, "updatedAt"));
    assert_eq!(mio.patch(&path, &json!({ "completedAt": null })).expect_problem(422, "invalid"), ["/completedAt"]);
    server.clock.advance(Duration::from_secs(5));

    // In bulk: in the given order, each once; completed items are unchanged.
    let done = complete(&[&ids[2], &ids[0], &ids[2]]).list();
    let at = |item: &Json| (text(item, "itemId").to_owned(), item["completed"] == true);
    assert_eq!(done.iter().map(at).collect::<Vec<_>>(), [(ids[2].clone(), true), (ids[0].clone(), true)]);
    assert_eq!(done[1], milk);
    assert!(text(&done[0], "completedAt") > text(&milk, "completedAt"));
    let open = mio.get("/v1/shopping-items-open").list();
    assert_eq!(open.iter().map(|item| text(item, "name")).collect::<Vec<_>>(), ["卵"]);
    assert_eq!(complete(&[&ids[2], &ids[0]]).list(), done);

    // If one item is unknown or another user's, none is marked.
    let theirs = add(&server.client_of_user("u_bu", "u_bu"), &json!({ "name": "茶" }));
    let missing = complete(&[&ids[1], "i_99", &theirs, "i_99"]);
    assert_eq!(missing.expect_problem(404, "not_found"), ["/itemIds/1", "/itemIds/2"]);
    assert_eq!(mio.get(&format!("/v1/shopping-items/{}", ids[1])).expect_data(200)["completed"], false);

    let many: Vec<_> = (0..91).map(|n| format!("i_{n}")).collect();
    for (body, at) in [
        (json!({}), vec!["/itemIds"]),
        (json!({ "itemIds": [] }), vec!["/itemIds"]),
        (json!({ "itemIds": ids[1] }), vec!["/itemIds"]),
        (json!({ "itemIds": many }), vec!["/itemIds"]),
        (json!({ "itemIds": [ids[1], 1, "a b"] }), vec!["/itemIds/1", "/itemIds/2"]),
        (json!({ "itemIds": [ids[1]], "userId": "u_bu" }), vec!["/userId"]),
    ] {
        assert_eq!(mio.post("/v1/shopping-items/complete", &body).expect_problem(422, "invalid"), at, "{body}");
    }

    // The largest bulk request, sent concurrently: each item is marked once.
    let ids: Vec<_> =
        (0..90).map(|n| add(&mio, &json!({ "itemId": format!("i_{n}"), "name": format!("{n}") }))).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let answers = run_concurrently(3, |_| complete(&ids).list());
    assert!(answers.iter().all(|items| items.len() == 90 && items.iter().all(|item| item["version"] == 2)));
    assert!(answers.iter().all(|items| items == &answers[0]));
}

/// Proves the part of K9 that makes a list from a plan.
#[test]
fn a_plan_becomes_a_shopping_list() {
    ingredients_of_a_plan_are_summed_minus_the_stock(&kondate_server());
}

pub(crate) fn ingredients_of_a_plan_are_summed_minus_the_stock(server: &TestServer) {
    let mio = server.client_of_user("u_list", "u_list");
    let ginger = json!([
        { "name": "豚肉", "amount": 200, "unit": "g" },
        { "name": "玉ねぎ", "amount": 0.5, "unit": "個" },
        { "name": "醤油", "amount": 2, "unit": "T" },
        { "name": "塩", "note": "少々" },
    ]);
    let ginger = recipe(&mio, Some(2), &ginger);
    let stew = json!([
        { "name": " 豚肉", "amount": 150, "unit": "ｇ" },
        { "name": "玉ねぎ", "amount": 1, "unit": "個" },
        { "name": "じゃがいも", "amount": 3, "unit": "個" },
        { "name": "塩" },
        { "name": "水", "amount": 0.1, "unit": "l" },
        { "name": "水", "amount": 0.2, "unit": "l" },
    ]);
    let stew = recipe(&mio, None, &stew);
    let from = |slot: &str| add_from_plan(&mio, slot);
    from("NEXT").expect_problem(404, "not_found");

    let items = json!([
        // Four servings from a recipe for two.
        { "recipeId": ginger, "title": "生姜焼き", "servings": 4 },
        // A recipe without servings is used as it is.
        { "recipeId": stew, "title": "肉じゃが", "servings": 4 },
        // Recipes without ingredients.
        { "title": "残り物" },
        { "recipeId": "r_99", "title": "消えた" },
    ]);
    mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": items })).expect_data(201);
    // In the fridge: a part of the meat, potatoes without an amount, and soy sauce in a unit that cannot be converted.
    for there in [
        json!({ "name": "豚肉", "amount": 100, "unit": "g" }),
        json!({ "name": "ジャガイモ" }),
        json!({ "name": "じゃがいも" }),
        json!({ "name": "醤油", "amount": 1, "unit": "本" }),
    ] {
        mio.post("/v1/fridge-items", &there).expect_data(201);
    }
    // On the list: an onion. Completed items do not count.
    add(&mio, &json!({ "name": "玉ねぎ", "amount": 1, "unit": "個" }));
    add(&mio, &json!({ "name": "豚肉", "amount": 900, "unit": "g", "completed": true }));

    let added = added_by(&from("NEXT"));
    let lines = lines(&added);
    let expected = [
        ("塩", json!(null), json!(null), json!(null)),
        ("水", json!(0.3), json!("l"), json!(stew)),
        ("玉ねぎ", json!(1), json!("個"), json!(null)),
        ("豚肉", json!(450), json!("g"), json!(null)),
        ("醤油", json!(4), json!("T"), json!(ginger)),
    ];
    assert_eq!(lines, expected.map(|(name, amount, unit, recipe)| (name.to_owned(), amount, unit, recipe)));
    let open = mio.get("/v1/shopping-items-open").list();
    assert_eq!(open.len(), 6);
    assert!(added.iter().all(|item| open.contains(item)));

    // Repeating adds nothing, also concurrently; once an item was removed from the list, it is needed again.
    assert_eq!(added_by(&from("NEXT")), Vec::<Json>::new());
    let water = added.iter().find(|item| item["name"] == "水").expect("is listed");
    assert_eq!(mio.delete(&format!("/v1/shopping-items/{}", text(water, "itemId"))).status, 204);
    let again: Vec<_> = run_concurrently(6, |_| added_by(&from("NEXT")).len());
    assert_eq!(again.iter().sum::<usize>(), 1, "{again:?}");

    for (body, at) in [
        (json!({}), vec!["/slot"]),
        (json!({ "slot": "later" }), vec!["/slot"]),
        (json!({ "slot": "NEXT", "userId": "u_lis" }), vec!["/userId"]),
    ] {
        assert_eq!(mio.post("/v1/shopping-items/from-plan", &body).expect_problem(422, "invalid"), at, "{body}");
    }
}

/// Proves the part of K9 that makes a list from each of the two plans.
#[test]
fn two_plans_have_separate_shopping_items() {
    each_plan_has_its_own_shopping_items(&kondate_server());
}

pub(crate) fn each_plan_has_its_own_shopping_items(server: &TestServer) {
    let mio = server.client_of_user("u_both", "u_both");
    let eggs = recipe(&mio, Some(2), &json!([{ "name": "卵", "amount": 2, "unit": "個" }]));
    let rice = recipe(&mio, Some(2), &json!([{ "name": "米", "amount": 1, "unit": "合" }]));
    let amounts = |slot: &str| -> Vec<(String, Json)> {
        let added = added_by(&mio.post("/v1/shopping-items/from-plan", &json!({ "slot": slot })));
        lines(&added).into_iter().map(|(name, amount, ..)| (name, amount)).collect()
    };
    let two_eggs = [("卵".to_owned(), json!(2))];
    let dish = |id: &str, cooked: bool| json!({ "recipeId": id, "title": "x", "servings": 2, "cooked": cooked });

    // Cooked meals need nothing.
    let items = json!([dish(&eggs, false), dish(&rice, true)]);
    let plan = mio.post("/v1/plans", &json!({ "slot": "CURRENT", "items": items })).expect_data(201);
    assert_eq!(amounts("CURRENT"), two_eggs);
    let line = &mio.get("/v1/shopping-items-open").list()[0];
    assert_eq!(text(line, "menuId"), text(&plan, "menuId"));
    let path = format!("/v1/shopping-items/{}", text(line, "itemId"));
    assert_eq!(mio.patch(&path, &json!({ "menuId": null })).expect_problem(422, "invalid"), ["/menuId"]);

    // The eggs on the list belong to the first plan: the second plan adds its own, once.
    mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": [dish(&eggs, false)] })).expect_data(201);
    assert_eq!(amounts("NEXT"), two_eggs);
    for slot in ["CURRENT", "NEXT"] {
        assert_eq!(amounts(slot), [], "{slot}");
    }
    // A promoted plan keeps its items; those of the former plan can be used by any plan.
    mio.post_empty("/v1/plans/promote").expect_data(200);
    assert_eq!(amounts("CURRENT"), []);
    mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": [dish(&eggs, false)] })).expect_data(201);
    assert_eq!(amounts("NEXT"), []);
    // Applying a set makes a new plan, which can use the items of the plan that it replaces.
    let set = json!({ "title": "x", "items": [{ "recipeId": eggs, "title": "x", "servings": 6 }] });
    let set = mio.post("/v1/sets", &set).expect_data(201);
    let applied = mio.post("/v1/plans/CURRENT/apply", &json!({ "setId": set["setId"] })).expect_data(200);
    assert_ne!(applied["menuId"], plan["menuId"]);
    assert_eq!(amounts("CURRENT"), two_eggs);
}

/// Proves the part of K9 that makes a list from a plan.
#[test]
fn a_long_list_is_added_completely_and_once() {
    a_list_larger_than_one_change_set_is_added_once(&kondate_server());
}

pub(crate) fn a_list_larger_than_one_change_set_is_added_once(server: &TestServer) {
    let mio = server.client_of_user("u_feast", "u_feast");
    let yui = server.client_of_user("u_feas", "u_feas");
    let dish = |n: usize| {
        let ingredients: Vec<_> = (0..50).map(|m| json!({ "name": format!("{n} {m}"), "amount": m + 1 })).collect();
        json!({ "recipeId": recipe(&mio, None, &ingredients.into()), "title": "x" })
    };
    let items: Vec<_> = (0..5).map(dish).collect();
    for cook in [&mio, &yui] {
        cook.post("/v1/plans", &json!({ "slot": "CURRENT", "items": items })).expect_data(201);
    }
    let from = |cook: &Client<'_>| added_by(&add_from_plan(cook, "CURRENT"));
    let added = run_concurrently(3, |_| from(&mio).len());
    assert_eq!(added.iter().sum::<usize>(), 250, "{added:?}");
    let mut listed: Vec<_> = lines(&mio.get("/v1/shopping-items-open?limit=1000").list());
    assert_eq!(listed.len(), 250);
    listed.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(listed.len(), 250);
    // Recipes of other users are not used.
    assert_eq!(from(&yui), Vec::<Json>::new());
}

/// Proves the part of K9 that makes a list from a plan, and that it reads a full fridge and a long list page by page.
#[test]
fn a_list_is_made_from_a_plan_however_much_there_is() {
    let (server, store) = instrumented_server();
    let mio = server.client_of_user("u_full", "u_full");
    let thing = |n: usize| json!({ "name": format!("thing {n}"), "amount": 1, "unit": "kg" });
    create_items(&server, "u_full", "fridge_item", &(0..1_450).map(thing).collect::<Vec<_>>());
    let listed = (1_500..2_350).map(|n| {
        let mut item = thing(n);
        item["completed"] = (n % 2 == 0).into();
        item
    });
    create_items(&server, "u_full", "shopping_item", &listed.collect::<Vec<_>>());
    // More lines than a change set takes, and then what is there, first and last.
    let ingredients = |names: &[usize]| -> Json { names.iter().map(|n| thing(*n)).collect() };
    let missing: Vec<_> = (3_000..3_100).collect();
    let dishes = [&missing[..50], &missing[50..], &[0, 1_449, 1_450, 1_501, 2_349, 2_348]];
    let items = dishes.map(|names| json!({ "recipeId": recipe(&mio, None, &ingredients(names)), "title": "x" }));
    mio.post("/v1/plans", &json!({ "slot": "CURRENT", "items": items })).expect_data(201);
    store.take_queries();

    let added = added_by(&mio.post("/v1/shopping-items/from-plan", &json!({ "slot": "CURRENT" })));
    let is_users = |partition| partition == "USER#u_full".into();
    let reads: Vec<_> = store.take_queries().into_iter().filter(|query| is_users(query.partition.clone())).collect();
    assert_eq!(reads.len(), 15 + 9, "each page once");
    assert!(reads.iter().all(|query| query.limit == Some(100)));
    let names = lines(&added).into_iter().map(|(name, ..)| name);
    let expected = [1_450, 2_348].into_iter().chain(missing).map(|n| format!("thing {n}"));
    assert_eq!(names.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// Proves the part of K9 that makes a list from a plan: what another run adds between two change sets is not added again.
#[test]
fn a_run_between_two_change_sets_of_another_adds_the_rest() {
    let (server, store) = instrumented_server();
    let mio = server.client_of_user("u_two", "u_two");
    let items: Vec<_> = (0..4)
        .map(|n| {
            let ingredients = (0..50).map(|m| json!({ "name": format!("{n} {m}"), "amount": 1 })).collect();
            json!({ "recipeId": recipe(&mio, None, &ingredients), "title": "x" })
        })
        .collect();
    mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": items })).expect_data(201);
    let from = || added_by(&mio.post("/v1/shopping-items/from-plan", &json!({ "slot": "NEXT" }))).len();
    let first_set = store.inject(Fault::pause_after().matching(adds_shopping_items).once());
    let added = std::thread::scope(|threads| {
        let first = threads.spawn(from);
        while first_set.hits() < 1 {
            std::thread::yield_now();
        }
        let second = from();
        first_set.remove();
        [first.join().expect("an answer"), second]
    });
    assert_eq!(added, [90, 110]);
    assert_eq!(mio.get("/v1/shopping-items-open?limit=1000").list().len(), 200);
}

fn adds_shopping_items(call: &Call) -> bool {
    let is_item = |item: &Item| item.get("SK").and_then(Value::as_str).is_some_and(|key| key.starts_with("SHOPPING#"));
    call.writes().iter().any(|write| matches!(&write.action, WriteAction::Put { item } if is_item(item)))
}

#[test]
fn a_list_without_end_is_not_read_to_the_end() {
    let (server, store) = instrumented_server();
    let mio = server.client_of_user("u_end", "u_end");
    let eggs = recipe(&mio, None, &json!([{ "name": "卵", "amount": 1 }]));
    mio.post("/v1/plans", &json!({ "slot": "NEXT", "items": [{ "recipeId": eggs, "title": "x" }] })).expect_data(201);
    for id in ["a_1", "a_2"] {
        mio.post("/v1/fridge-items", &json!({ "itemId": id, "name": "米" })).expect_data(201);
    }
    // After each page the store begins again behind the first item.
    store.rewrite_pages(|query, page| match page.items.last() {
        Some(item) if query.partition == "USER#u_end".into() => {
            let next = PagePosition { key: Key::new("USER#u_end", "FRIDGE#a_1"), index_key: None };
            Page { items: vec![item.clone(); 100], next: Some(next), ..page }
        }
        _ => page,
    });
    let refused = mio.post("/v1/shopping-items/from-plan", &json!({ "slot": "NEXT" }));
    refused.expect_problem(409, "too_many_items");
}

/// A run may read many items: the runs of one user must not keep others waiting.
#[test]
fn a_user_makes_few_lists_at_the_same_time() {
    let (server, store) = instrumented_server();
    let [mio, yui] = ["u_slow", "u_slo"].map(|user| server.client_of_user(user, user));
    for cook in [&mio, &yui] {
        cook.post("/v1/plans", &json!({ "slot": "NEXT", "items": [] })).expect_data(201);
    }
    let from = |cook: &Client<'_>| cook.post("/v1/shopping-items/from-plan", &json!({ "slot": "NEXT" }));
    let is_of_mio = |call: &Call| matches!(call, Call::Query(query) if query.partition == "USER#u_slow".into());
    let held = store.inject(Fault::pause_after().matching(is_of_mio));
    std::thread::scope(|threads| {
        let runs = [(); 2].map(|()| threads.spawn(|| from(&mio).status));
        while held.hits() < 2 {
            std::thread::yield_now();
        }
        from(&mio).expect_problem(503, "overloaded");
        from(&yui).expect_data(201);
        held.remove();
        assert_eq!(runs.map(|run| run.join().expect("an answer")), [201, 201]);
    });
}

/// Items as tuples, sorted by name.
fn lines(items: &[Json]) -> Vec<(String, Json, Json, Json)> {
    let line = |item: &Json| {
        (text(item, "name").to_owned(), item["amount"].clone(), item["unit"].clone(), item["recipeId"].clone())
    };
    let mut lines: Vec<_> = items.iter().map(line).collect();
    lines.sort_by(|one, other| one.0.cmp(&other.0));
    lines
}

/// The items that a request for the needs of a plan has added.
#[track_caller]
pub(crate) fn added_by(answer: &Response) -> Vec<Json> {
    answer.expect_data(201)["added"].as_array().expect("a list").clone()
}

/// Adds what a plan needs. On a slow store a user with several requests at once is asked to repeat some of them.
pub(crate) fn add_from_plan(cook: &Client<'_>, slot: &str) -> Response {
    let add = || cook.post("/v1/shopping-items/from-plan", &json!({ "slot": slot }));
    let mut answer = add();
    for _ in 0..30 {
        if answer.status != 503 {
            break;
        }
        answer.expect_problem(503, "overloaded");
        std::thread::sleep(Duration::from_secs(1));
        answer = add();
    }
    answer
}

#[track_caller]
pub(crate) fn add(client: &Client<'_>, item: &Json) -> String {
    text(&client.post("/v1/shopping-items", item).expect_data(201), "itemId").to_owned()
}

#[track_caller]
pub(crate) fn recipe(client: &Client<'_>, servings: Option<u8>, ingredients: &Json) -> String {
    let recipe = json!({ "title": "x", "servings": servings, "ingredients": ingredients });
    text(&client.post("/v1/recipes", &recipe).expect_data(201), "recipeId").to_owned()
}
