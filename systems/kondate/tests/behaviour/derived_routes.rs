//! The routes that the design alone gives: create, read, change, delete, list.

use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::kondate_server;

/// Proves K5.
#[test]
fn a_user_has_one_profile() {
    a_profile_is_created_read_and_changed(&kondate_server());
}

pub(crate) fn a_profile_is_created_read_and_changed(server: &TestServer) {
    let mio = server.client_of_user("u_prof", "u_prof");
    mio.get("/v1/profile").expect_problem(404, "not_found");
    let profile = json!({ "displayName": "澪", "email": "mio@example.com", "householdSize": 3, "allergies": ["そば"] });
    check_singleton(server, "u_prof", "/v1/profile", &profile, &json!({ "bio": "料理好き", "email": null }));
    let changed = mio.get("/v1/profile").expect_data(200);
    assert_eq!((text(&changed, "bio"), changed.get("email"), &changed["householdSize"]), ("料理好き", None, &json!(3)));
    for wrong in [json!({ "email": "x" }), json!({ "householdSize": 0 }), json!({ "userId": "u_pro" })] {
        mio.patch("/v1/profile", &wrong).expect_problem(422, "invalid");
    }
}

/// Proves the settings part of K15.
#[test]
fn a_user_has_settings_of_notifications() {
    settings_are_created_read_and_changed(&kondate_server());
}

pub(crate) fn settings_are_created_read_and_changed(server: &TestServer) {
    let path = "/v1/notification-settings";
    check_singleton(server, "u_sets", path, &json!({}), &json!({ "catalogNews": true }));
    let settings = server.client_of_user("u_sets", "u_sets").get(path).expect_data(200);
    let expected = [
        ("pushEnabled", true),
        ("emailEnabled", false),
        ("planReminder", true),
        ("shoppingReminder", true),
        ("fridgeReminder", true),
        ("catalogNews", true),
    ];
    for (name, value) in expected {
        assert_eq!(settings[name], value, "{name}");
    }
}

/// An entity with one item per user: created once, read, changed with its ETag, hidden from other users.
fn check_singleton(server: &TestServer, user: &str, path: &str, made: &Json, patch: &Json) {
    let mio = server.client_of_user(user, user);
    let first = mio.post(path, made);
    assert_eq!(first.header("location"), Some(path));
    assert!(first.header("etag").is_some_and(|tag| tag.starts_with("\"v1-")));
    let first = first.expect_data(201);
    assert_eq!(text(&first, "userId"), user);
    mio.post(path, made).expect_problem(409, "taken");
    assert_eq!(mio.get(path).expect_data(200), first);
    for them in users_with_similar_ids(server, user) {
        them.get(path).expect_problem(404, "not_found");
        them.patch(path, patch).expect_problem(404, "not_found");
        them.delete(path).expect_problem(404, "not_found");
    }
    assert_eq!(mio.get(path).expect_data(200), first);
    mio.with_header("if-match", "\"v2\"").patch(path, patch).expect_problem(412, "version_conflict");
    mio.with_header("if-match", "\"v1\"").patch(path, patch).expect_data(200);
    assert_eq!(mio.delete(path).status, 204);
    mio.get(path).expect_problem(404, "not_found");
    mio.post(path, made).expect_data(201);
    mio.patch(path, patch).expect_data(200);
}

/// Proves K6, and K20's order.
#[test]
fn recipes_are_stored() {
    recipes_are_created_read_changed_deleted_and_listed_newest_first(&kondate_server());
}

pub(crate) fn recipes_are_created_read_changed_deleted_and_listed_newest_first(server: &TestServer) {
    let body = |title: &str| {
        json!({
            "title": title, "servings": 2, "tags": ["肉"], "steps": ["焼く"],
            "ingredients": [{ "name": "豚肉", "amount": 200, "unit": "g" }],
        })
    };
    let found = ["recipeId", "ingredients", "steps", "tags", "origin", "createdAt", "updatedAt"];
    check_newest_first(server, "u_book", "/v1/recipes", "recipeId", &body, &found);
    let mio = server.client_of_user("u_book", "u_book");
    for (wrong, at) in [
        (json!({}), "/title"),
        (json!({ "title": "x", "publishedAt": "2030-01-01T00:00:00Z" }), "/publishedAt"),
        (json!({ "title": "x", "ingredients": [{ "amount": 1 }] }), "/ingredients/0/name"),
        (json!({ "title": "x", "origin": "stolen" }), "/origin"),
    ] {
        assert_eq!(mio.post("/v1/recipes", &wrong).expect_problem(422, "invalid"), [at], "{wrong}");
    }
}

/// Proves K7, and K20's order.
#[test]
fn sets_are_stored() {
    sets_are_created_read_changed_deleted_and_listed_newest_first(&kondate_server());
}

pub(crate) fn sets_are_created_read_changed_deleted_and_listed_newest_first(server: &TestServer) {
    let body =
        |title: &str| json!({ "title": title, "items": [{ "recipeId": "r_01", "title": "生姜焼き", "servings": 2 }] });
    check_newest_first(
        server,
        "u_menu",
        "/v1/sets",
        "setId",
        &body,
        &["setId", "items", "tags", "origin", "createdAt"],
    );
    let nameless = json!({ "title": "x", "items": [{ "recipeId": "r_01", "title": "" }] });
    let refused = server.client_of_user("u_menu", "u_menu").post("/v1/sets", &nameless);
    assert_eq!(refused.expect_problem(422, "invalid"), ["/items/0/title"]);
}

/// An entity that is listed newest first and found by its id.
fn check_newest_first(
    server: &TestServer,
    user: &str,
    path: &str,
    id: &str,
    body: &dyn Fn(&str) -> Json,
    fields: &[&str],
) {
    let mio = server.client_of_user(user, user);
    assert_eq!(mio.get(path).list(), Vec::<Json>::new());
    let made: Vec<_> = ["a", "b", "c", "d", "e"].map(|title| mio.post(path, &body(title)).expect_data(201)).into();
    for field in fields {
        assert!(made[0].get(field).is_some(), "{field}");
    }
    let place = |item: &Json| format!("{path}/{}", text(item, id));
    let titles = |path: &str| titles(&mio.get(path).list());
    assert_eq!(titles(path), ["e", "d", "c", "b", "a"]);
    // Paging repeats no item.
    let mut paged = Vec::new();
    let mut next = Some(format!("{path}?limit=2"));
    while let Some(path_of_page) = next {
        let page = mio.get(&path_of_page);
        paged.extend(self::titles(&page.list()));
        next = page.body["nextCursor"].as_str().map(|cursor| format!("{path}?limit=2&cursor={cursor}"));
    }
    assert_eq!(paged, ["e", "d", "c", "b", "a"]);

    // By its id: the index lags behind.
    let detail = mio.get_until(&place(&made[1]), |answer| answer.status == 200);
    assert_eq!(detail.expect_data(200), made[1].clone());
    assert!(detail.header("etag").is_some_and(|tag| tag.starts_with("\"v1-")));
    let changed =
        mio.with_header("if-match", "\"v1\"").patch(&place(&made[1]), &json!({ "title": "B" })).expect_data(200);
    mio.with_header("if-match", "\"v1\"")
        .patch(&place(&made[1]), &json!({ "title": "C" }))
        .expect_problem(412, "version_conflict");
    assert_eq!(text(&changed, "createdAt"), text(&made[1], "createdAt"));
    mio.get_until(&place(&made[1]), |answer| answer.body["data"] == changed);

    for them in users_with_similar_ids(server, user) {
        assert_eq!(them.get(path).list(), Vec::<Json>::new());
        them.get(&place(&made[1])).expect_problem(404, "not_found");
        them.patch(&place(&made[1]), &json!({ "title": "theirs" })).expect_problem(404, "not_found");
        them.delete(&place(&made[1])).expect_problem(404, "not_found");
        let refused = them.post(path, &json!({ "title": "x", "userId": user })).expect_problem(422, "invalid");
        assert_eq!(refused, ["/userId"]);
    }
    assert_eq!(mio.delete(&place(&made[3])).status, 204);
    mio.delete(&place(&made[3])).expect_problem(404, "not_found");
    mio.get_until(&place(&made[3]), |answer| answer.status == 404);
    assert_eq!(titles(path), ["e", "c", "B", "a"]);
}

/// Proves K11.
#[test]
fn categories_have_two_scopes() {
    categories_of_both_scopes_are_separate(&kondate_server());
}

pub(crate) fn categories_of_both_scopes_are_separate(server: &TestServer) {
    let mio = server.client_of_user("u_cat", "u_cat");
    let make = |scope: &str, id: &str, name: &str| {
        let body = json!({ "scope": scope, "categoryId": id, "name": name, "position": 1 });
        mio.post("/v1/categories", &body).expect_data(201)
    };
    let (meat, fish) = (make("book", "c_01", "肉"), make("book", "c_02", "魚"));
    // The same id in the other scope is a different category.
    let new = make("catalog", "c_01", "新着");
    let of = |who: &Client<'_>, scope: &str| who.get(&format!("/v1/categories?scope={scope}")).list();
    assert_eq!(of(&mio, "book"), [meat.clone(), fish]);
    assert_eq!(of(&mio, "catalog"), std::slice::from_ref(&new));
    assert_eq!(mio.get("/v1/categories?scope=boo").status, 400);
    assert_eq!(mio.get("/v1/categories").status, 400);

    let renamed = mio.patch("/v1/categories/book/c_01", &json!({ "name": "肉料理", "position": 2 })).expect_data(200);
    assert_eq!((text(&renamed, "name"), &renamed["position"]), ("肉料理", &json!(2)));
    assert_eq!(mio.get("/v1/categories/catalog/c_01").expect_data(200), new);
    assert_eq!(
        mio.patch("/v1/categories/book/c_01", &json!({ "scope": "catalog" })).expect_problem(422, "invalid"),
        ["/scope"]
    );
    for them in users_with_similar_ids(server, "u_cat") {
        assert_eq!(of(&them, "book"), Vec::<Json>::new());
        them.get("/v1/categories/book/c_01").expect_problem(404, "not_found");
        them.patch("/v1/categories/book/c_01", &json!({ "name": "x" })).expect_problem(404, "not_found");
        them.delete("/v1/categories/book/c_01").expect_problem(404, "not_found");
    }
    assert_eq!(mio.delete("/v1/categories/book/c_01").status, 204);
    mio.get("/v1/categories/book/c_01").expect_problem(404, "not_found");
    assert_eq!(of(&mio, "catalog"), [new]);
    let refused = mio.post("/v1/categories", &json!({ "scope": "shelf", "name": "x" }));
    assert_eq!(refused.expect_problem(422, "invalid"), ["/scope"]);
}

/// Proves the order of K11.
#[test]
fn categories_are_listed_by_position() {
    categories_are_in_the_order_of_their_positions(&kondate_server());
}

pub(crate) fn categories_are_in_the_order_of_their_positions(server: &TestServer) {
    let mio = server.client_of_user("u_pos", "u_pos");
    for (id, position) in [("c_01", 20), ("c_02", 3), ("c_03", 20), ("c_04", 0)] {
        let body = json!({ "scope": "book", "categoryId": id, "name": id, "position": position });
        mio.post("/v1/categories", &body).expect_data(201);
    }
    let order = || -> Vec<String> {
        let listed = mio.get("/v1/categories?scope=book").list();
        listed.iter().map(|each| text(each, "categoryId").to_owned()).collect()
    };
    assert_eq!(order(), ["c_04", "c_02", "c_01", "c_03"]);
    mio.patch("/v1/categories/book/c_03", &json!({ "position": 1 })).expect_data(200);
    assert_eq!(order(), ["c_04", "c_03", "c_02", "c_01"]);
    assert!(mio.get("/v1/categories?scope=catalog").list().is_empty());
    for (wrong, at) in [("", "scope"), ("?scope=shelf", "scope"), ("?scope=book&order=name", "order")] {
        let refused = mio.get(&format!("/v1/categories{wrong}"));
        assert_eq!(refused.expect_problem(400, "bad_parameter"), [at], "{wrong}");
    }
    assert!(server.client_of_user("u_po", "u_po").get("/v1/categories?scope=book").list().is_empty());
    server.anonymous_client().get("/v1/categories?scope=book").expect_problem(401, "no_token");
}

/// Proves the listing and changing part of K9 and K10.
#[test]
fn shopping_and_fridge_items_are_stored() {
    shopping_and_fridge_items_are_created_read_and_changed(&kondate_server());
}

pub(crate) fn shopping_and_fridge_items_are_created_read_and_changed(server: &TestServer) {
    let mio = server.client_of_user("u_things", "u_things");
    for path in ["/v1/shopping-items", "/v1/fridge-items"] {
        let made =
            mio.post(path, &json!({ "name": "卵", "amount": 10, "unit": "個", "category": "乳卵" })).expect_data(201);
        let place = format!("{path}/{}", text(&made, "itemId"));
        assert_eq!(mio.get(&place).expect_data(200), made);
        let changed = mio.patch(&place, &json!({ "amount": 6, "category": null })).expect_data(200);
        assert_eq!((&changed["amount"], changed.get("category")), (&json!(6), None));
        assert_eq!(mio.get(path).list(), std::slice::from_ref(&changed));
        for them in users_with_similar_ids(server, "u_things") {
            assert_eq!(them.get(path).list(), Vec::<Json>::new());
            them.get(&place).expect_problem(404, "not_found");
            them.patch(&place, &json!({ "amount": 1 })).expect_problem(404, "not_found");
            them.delete(&place).expect_problem(404, "not_found");
        }
        for wrong in [json!({ "name": "" }), json!({ "amount": -1 }), json!({ "itemId": "i_02" })] {
            mio.patch(&place, &wrong).expect_problem(422, "invalid");
        }
        assert_eq!(mio.get(&place).expect_data(200), changed);
        assert_eq!(mio.delete(&place).status, 204);
        mio.get(&place).expect_problem(404, "not_found");
    }
}

/// Proves that a new user has nothing, for every list of one's own.
#[test]
fn a_new_user_starts_with_nothing() {
    every_list_of_a_new_user_is_empty(&kondate_server());
}

pub(crate) fn every_list_of_a_new_user_is_empty(server: &TestServer) {
    let mio = server.client_of_user("u_new", "u_new");
    for path in [
        "/v1/recipes",
        "/v1/sets",
        "/v1/plans",
        "/v1/shopping-items",
        "/v1/shopping-items-open",
        "/v1/fridge-items",
        "/v1/fridge-deleted-items",
        "/v1/categories?scope=book",
        "/v1/categories?scope=catalog",
        "/v1/payment-methods",
        "/v1/purchases",
        "/v1/purchases-between",
        "/v1/notifications",
        "/v1/notifications-unread",
        "/v1/push-tokens",
        "/v1/cooklogs?date=2030-01",
        "/v1/cooklogs-between",
        "/v1/saved-recipes",
        "/v1/saved-sets",
        "/v1/archive",
    ] {
        assert_eq!(mio.get(path).list(), Vec::<Json>::new(), "{path}");
        server.anonymous_client().get(path).expect_problem(401, "no_token");
    }
    for path in ["/v1/profile", "/v1/subscription", "/v1/notification-settings", "/v1/plans/CURRENT", "/v1/plans/NEXT"]
    {
        mio.get(path).expect_problem(404, "not_found");
    }
}

fn titles(list: &[Json]) -> Vec<String> {
    list.iter().map(|each| text(each, "title").to_owned()).collect()
}

/// Users with ids similar to this one's.
fn users_with_similar_ids<'h>(server: &'h TestServer, user: &str) -> Vec<Client<'h>> {
    let alike = [user[..user.len() - 1].to_owned(), format!("{user}2"), user.to_uppercase(), format!("{user}#RECIPE")];
    alike.iter().map(|them| server.client_of_user(them, them)).collect()
}
