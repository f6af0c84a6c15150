//! Every route, called by the wrong user and without a token.

use std::collections::BTreeMap;

use nagaya_server::document;
use nagaya_store::{Item, Scan, Value};
use nagaya_testing::{Client, Response, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{kondate_server, system};

/// Proves the walls of K5 to K15: the wall is the user.
#[test]
fn users_do_not_see_each_other() {
    no_route_reaches_another_user(&kondate_server());
}

#[test]
fn visitors_read_only_public_items() {
    only_public_routes_accept_visitors(&kondate_server());
}

/// Every operation of the API: method, path, and whether visitors may call it.
fn operations() -> Vec<(String, String, bool)> {
    let document = document(&system(), "", 0);
    let paths = document["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            if matches!(method.as_str(), "get" | "put" | "post" | "patch" | "delete") {
                let visitors = operation["security"].as_array().is_some_and(|all| all.contains(&json!({})));
                all.push((method.to_uppercase(), path.clone(), visitors));
            }
        }
    }
    assert!(all.len() > 80, "the document has {} operations", all.len());
    all
}

/// Values for the parameters of paths and bodies.
type Ids = BTreeMap<&'static str, String>;

/// A path with its parameters filled in. The same parameter name can mean different ids in different paths.
fn fill_path(path: &str, ids: &Ids) -> String {
    let of = |name: &str| match (name, path) {
        ("itemId", path) if path.contains("fridge-deleted") => &ids["deletedItemId"],
        ("itemId", path) if path.contains("fridge") => &ids["fridgeItemId"],
        ("createdAt", path) if path.contains("notifications") => &ids["notifiedAt"],
        _ => ids.get(name).unwrap_or_else(|| panic!("no value for {name} in {path}")),
    };
    let segment = |segment: &str| match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => of(name).clone(),
        None => segment.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// A body that refers to another user's items.
fn body(method: &str, path: &str, ids: &Ids) -> Option<Json> {
    let (recipe, set, item) = (&ids["recipeId"], &ids["setId"], &ids["itemId"]);
    match (method, path) {
        ("POST", "/v1/plans/{slot}/apply") => Some(json!({ "setId": set })),
        ("POST", "/v1/shopping-items/complete") => Some(json!({ "itemIds": [item] })),
        ("POST", "/v1/shares") => Some(json!({ "targetType": "RECIPE", "targetId": recipe })),
        ("POST", "/v1/purchases") => {
            Some(json!({ "targetType": "RECIPE", "targetId": recipe, "paymentMethodId": ids["paymentMethodId"] }))
        }
        ("POST", "/v1/subscription") => Some(json!({ "plan": "standard", "paymentMethodId": ids["paymentMethodId"] })),
        _ => None,
    }
}

/// Creates one item of each entity for a user; their ids.
fn create_one_of_each(server: &TestServer, cook: &Client<'_>) -> Ids {
    let post = |path: &str, body: Json| cook.post(path, &body).expect_data(201);
    post("/v1/profile", json!({ "displayName": "花" }));
    post("/v1/notification-settings", json!({}));
    let recipe = post("/v1/recipes", json!({ "title": "肉じゃが", "ingredients": [{ "name": "牛肉" }] }));
    let items = json!([{ "recipeId": recipe["recipeId"], "title": "肉じゃが" }]);
    let set = post("/v1/sets", json!({ "title": "平日", "items": items }));
    for slot in ["CURRENT", "NEXT"] {
        cook.post(&format!("/v1/plans/{slot}/apply"), &json!({ "setId": set["setId"] })).expect_data(200);
    }
    let shopping = post("/v1/shopping-items", json!({ "name": "豆腐" }));
    let (kept, deleted) =
        (post("/v1/fridge-items", json!({ "name": "卵" })), post("/v1/fridge-items", json!({ "name": "牛乳" })));
    cook.delete(&format!("/v1/fridge-items/{}", text(&deleted, "itemId"))).expect_data(204);
    let deleted = cook.get("/v1/fridge-deleted-items").list().remove(0);
    let category = post("/v1/categories", json!({ "scope": "book", "name": "主菜" }));
    let log = post("/v1/cooklogs", json!({ "date": "2026-02-09", "title": "肉じゃが" }));
    let device = post("/v1/push-tokens", json!({ "platform": "web", "token": "abc" }));
    let method = post("/v1/payment-methods", json!({ "token": "tok_visa" }));
    post("/v1/subscription", json!({ "plan": "standard" }));
    let notification = cook.get("/v1/notifications").list().remove(0);
    let share = post("/v1/shares", json!({ "targetType": "RECIPE", "targetId": recipe["recipeId"] }));
    // The search index has the recipe before the attacks start.
    server.block_on(nagaya_kondate::catch_up(&server.nagaya)).expect("it catches up");
    let of = |value: &Json, name: &str| text(value, name).to_owned();
    Ids::from([
        ("recipeId", of(&recipe, "recipeId")),
        ("setId", of(&set, "setId")),
        ("slot", "CURRENT".to_owned()),
        ("position", "0".to_owned()),
        ("itemId", of(&shopping, "itemId")),
        ("fridgeItemId", of(&kept, "itemId")),
        ("deletedItemId", of(&deleted, "itemId")),
        ("deletedAt", of(&deleted, "deletedAt")),
        ("scope", "book".to_owned()),
        ("categoryId", of(&category, "categoryId")),
        ("date", "2026-02-09".to_owned()),
        ("month", "2026-02".to_owned()),
        ("logId", of(&log, "logId")),
        ("platform", "web".to_owned()),
        ("tokenHash", of(&device, "tokenHash")),
        ("paymentMethodId", of(&method, "paymentMethodId")),
        ("purchasedAt", of(&notification, "createdAt")),
        ("purchaseId", of(&notification, "notificationId")),
        ("notifiedAt", of(&notification, "createdAt")),
        ("createdAt", of(&recipe, "createdAt")),
        ("notificationId", of(&notification, "notificationId")),
        ("shareId", of(&share, "shareId")),
        ("creatorId", "u_1".to_owned()),
    ])
}

/// The same keys with ids that never existed.
fn unknown_ids(ids: &Ids) -> Ids {
    let never = |name: &str, value: &String| match name {
        "slot" | "position" | "scope" | "platform" | "date" | "month" | "purchasedAt" | "notifiedAt" | "createdAt"
        | "deletedAt" => value.clone(),
        "tokenHash" => "0".repeat(64),
        "creatorId" => "u_nobody".to_owned(),
        _ => "01HARX5BD7F8G9H0J1K2M3N4PQ".to_owned(),
    };
    ids.iter().map(|(name, value)| (*name, never(name, value))).collect()
}

/// All items that are stored under a user's key.
fn stored(server: &TestServer, user: &str) -> Vec<Item> {
    let own = format!("USER#{user}");
    let (mut scan, mut found) = (Scan::table("MainTable"), Vec::new());
    loop {
        let page = server.block_on(server.store.scan(scan.clone())).expect("the store answers");
        found.extend(page.items.into_iter().filter(|item| item.get("PK").and_then(Value::as_str) == Some(&own)));
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return found,
        }
    }
}

/// The visible parts of a response.
fn visible(answer: &Response) -> (u16, Json) {
    let mut body = answer.body.clone();
    if let Json::Object(body) = &mut body {
        body.remove("requestId");
    }
    (answer.status, body)
}

pub(crate) fn no_route_reaches_another_user(server: &TestServer) {
    let cook = server.client_of_user("u_1", "u_1");
    let ids = create_one_of_each(server, &cook);
    let never = unknown_ids(&ids);
    let before = stored(server, "u_1");
    // Similar names are different users.
    for name in ["u_2", "u_10", "U_1", "u_1#RECIPE", "USER#u_1"] {
        let them = server.client_of_user(name, name);
        for (method, path, _) in operations() {
            // Everyone with the link can read it, and everyone has two plans to write.
            let theirs = body(&method, &path, &ids);
            let is_for_all = [("GET", "/v1/shares/{shareId}"), ("PUT", "/v1/plans/{slot}")].contains(&(&method, &path));
            if (!path.contains('{') && theirs.is_none()) || is_for_all {
                continue;
            }
            let ask = |ids: &Ids| {
                let body = body(&method, &path, ids)
                    .or_else(|| matches!(&*method, "POST" | "PUT" | "PATCH").then(|| json!({})));
                let them = them.with_header("idempotency-key", &format!("{name}-{path}"));
                visible(&them.send(&method, &fill_path(&path, ids), body.as_ref()))
            };
            let (ours, none) = (ask(&ids), ask(&never));
            assert_eq!(ours, none, "{name}: {method} {path}");
            let empty = ours.1["data"].as_array().is_some_and(Vec::is_empty) || ours.0 == 204;
            assert!(empty || ours.0 >= 400, "{name}: {method} {path} gives {ours:?}");
        }
        for (method, path, _) in operations() {
            if method == "GET" && !path.contains('{') {
                let found = them.get(&path);
                let words = found.body.to_string();
                assert!(!words.contains("肉じゃが") && !words.contains("u_1\""), "{name}: {path} gives {words}");
            }
        }
        let found = them.get("/v1/recipes?q=%E8%82%89%E3%81%98%E3%82%83%E3%81%8C").list();
        assert_eq!(found, Vec::<Json>::new(), "{name} finds another user's items");
    }
    assert_eq!(stored(server, "u_1"), before, "another user's item was changed");
}

pub(crate) fn only_public_routes_accept_visitors(server: &TestServer) {
    let cook = server.client_of_user("u_1", "u_1");
    let ids = create_one_of_each(server, &cook);
    let before = stored(server, "u_1");
    let visitor = server.anonymous_client();
    for (method, path, public) in operations() {
        let body =
            body(&method, &path, &ids).or_else(|| matches!(&*method, "POST" | "PUT" | "PATCH").then(|| json!({})));
        let answer = visitor.send(&method, &fill_path(&path, &ids), body.as_ref());
        let shown = answer.body.to_string();
        if path == "/v1/payments/webhook" {
            // The payment provider signs its messages, and has no token.
            answer.expect_problem(401, "bad_signature");
        } else if public {
            // Some lists need the id of a creator.
            assert!(matches!(answer.status, 200 | 400 | 404), "{method} {path}: {shown}");
            let link = path == "/v1/shares/{shareId}";
            assert!(link || !shown.contains("肉じゃが"), "{method} {path}: {shown}");
            assert!(!shown.contains("u_1"), "{method} {path}: {shown}");
        } else {
            answer.expect_problem(401, "no_token");
        }
    }
    assert_eq!(stored(server, "u_1"), before);
}
