//! Stored keys and index keys are those of chapters 4 to 6 of the document, byte for byte.

use nagaya_store::{Item, Key, Value};
use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{create_item, kondate_server};

/// Proves K1, K2, K3 and K4.
#[test]
fn stored_keys_are_documented() {
    all_items_have_the_documented_keys(&kondate_server());
}

/// Asserts the stored key and index keys; `{field}` stands for a field of the response.
#[track_caller]
fn assert_stored(server: &TestServer, answer: &Json, place: &str, attributes: &str) -> Item {
    let filled = |template: &str| {
        let mut parts = template.split('{');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (field, rest) = part.split_once('}').expect("a field ends");
            filled += text(answer, field);
            filled += rest;
        }
        filled
    };
    let (partition, sort) = place.split_once(' ').expect("two parts");
    let (partition, sort) = (filled(partition), filled(sort));
    let key = Key::new(partition.as_str(), sort.as_str());
    let item = server.block_on(server.store.get("MainTable", &key)).expect("the store answers");
    let item = item.unwrap_or_else(|| panic!("there is nothing under {partition} / {sort}"));
    let attribute = |name: &str| item.get(name).and_then(Value::as_str);
    assert_eq!((attribute("PK"), attribute("SK")), (Some(partition.as_str()), Some(sort.as_str())));
    let mut named = 0;
    for pair in attributes.split_whitespace() {
        let (name, value) = pair.split_once('=').expect("a name and a value");
        assert_eq!(attribute(name), Some(filled(value).as_str()), "{name} of {partition} / {sort}");
        named += 1;
    }
    let indexed = item.iter().filter(|(name, _)| name.starts_with("GSI")).count();
    assert_eq!(indexed, named, "index keys of {partition} / {sort}: {item:?}");
    item
}

pub(crate) fn all_items_have_the_documented_keys(server: &TestServer) {
    let cook = server.client_of_user("u_01", "u_01");
    let post = |path: &str, body: Json| cook.post(path, &body).expect_data(201);
    let assert_stored = |answer: &Json, place: &str, attributes: &str| assert_stored(server, answer, place, attributes);

    let profile = post("/v1/profile", json!({ "displayName": "花" }));
    assert_stored(&profile, "USER#u_01 PROFILE#", "");
    let recipe = create_item(server, "u_01", "recipe", &json!({ "recipeId": "r_01", "title": "肉じゃが" }));
    let item = assert_stored(&recipe, "USER#u_01 RECIPE#r_01", "GSI1PK=ENTITY#RECIPE#r_01 GSI1SK=OWNER#u_01");
    for attribute in ["title", "ingredients", "steps", "tags", "origin", "createdAt", "updatedAt"] {
        assert!(item.get(attribute).is_some(), "the recipe has no {attribute}");
    }
    let items = json!([{ "recipeId": "r_01", "title": "肉じゃが" }]);
    let set = create_item(server, "u_01", "set", &json!({ "setId": "s_01", "title": "平日", "items": items }));
    assert_stored(&set, "USER#u_01 SET#s_01", "GSI1PK=ENTITY#SET#s_01 GSI1SK=OWNER#u_01");
    for slot in ["CURRENT", "NEXT"] {
        let plan = cook.post(&format!("/v1/plans/{slot}/apply"), &json!({ "setId": "s_01" })).expect_data(200);
        let item = assert_stored(&plan, "USER#u_01 PLAN#{slot}", "");
        for attribute in ["setId", "setTitle", "appliedAt", "items"] {
            assert!(item.get(attribute).is_some(), "the plan has no {attribute}");
        }
    }
    let bought = post("/v1/shopping-items", json!({ "itemId": "i_01", "name": "豆腐" }));
    assert_stored(&bought, "USER#u_01 SHOPPING#i_01", "");
    let kept = post("/v1/fridge-items", json!({ "itemId": "f_01", "name": "卵" }));
    assert_stored(&kept, "USER#u_01 FRIDGE#f_01", "");
    cook.delete("/v1/fridge-items/f_01").expect_data(204);
    let deleted = cook.get("/v1/fridge-deleted-items").list().remove(0);
    assert_stored(&deleted, "USER#u_01 FRIDGE_DELETED#{deletedAt}#f_01", "");
    for scope in ["book", "catalog"] {
        let category = post("/v1/categories", json!({ "scope": scope, "categoryId": "c_01", "name": "主菜" }));
        assert_stored(&category, "USER#u_01 CATEGORY#{scope}#c_01", "");
    }
    let log = post("/v1/cooklogs", json!({ "date": "2026-02-09", "logId": "log_01", "title": "肉じゃが" }));
    assert_stored(&log, "USER#u_01 COOKLOG#2026-02-09#log_01", "");
    let settings = post("/v1/notification-settings", json!({}));
    assert_stored(&settings, "USER#u_01 NOTIFICATION_SETTINGS#", "");
    let device = post("/v1/push-tokens", json!({ "platform": "web", "token": "abc" }));
    assert_eq!(device["tokenHash"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_stored(&device, "USER#u_01 PUSH_TOKEN#web#{tokenHash}", "");

    catalog(server);
    payments(server);
}

/// Catalog items, and another user's saves of them.
fn catalog(server: &TestServer) {
    let (cook, guest) = (server.client_of_user("u_01", "u_01"), server.client_of_user("u_02", "u_02"));
    let assert_stored = |answer: &Json, place: &str, attributes: &str| assert_stored(server, answer, place, attributes);
    for (kind, id, own) in [("RECIPE", "r_01", "recipes"), ("SET", "s_01", "sets")] {
        let published = cook.post(&format!("/v1/{own}/{id}/publish"), &json!({})).expect_data(200);
        let place = format!("CATALOG#{kind} CREATED#{{createdAt}}#{id}");
        let attributes = format!(
            "GSI1PK=ENTITY#{kind}#{id} GSI1SK=PUBLIC# GSI2PK=CATALOG#{kind} GSI2SK=SORT#NEWEST#{{createdAt}}#{id} \
             GSI3PK=CREATOR#u_01#{kind} GSI3SK=CREATED#{{createdAt}}#{id}"
        );
        assert_stored(&published, &place, &attributes);
        let place = format!("CREATOR#u_01 CATALOG_{kind}#{{createdAt}}#{id}");
        let popular = |count| format!("GSI2PK=CATALOG#{kind} GSI2SK=SORT#POPULAR#{count:010}#{id}");
        assert_stored(&published, &place, &popular(0));
        let saved = guest.get_until(&format!("/v1/catalog/{own}/{id}"), |answer| answer.status == 200);
        saved.expect_data(200);
        let saved = guest.put(&format!("/v1/catalog/{own}/{id}/save")).expect_data(200);
        let index = format!("GSI3PK=USER#u_02#SAVED_{kind} GSI3SK=SAVED#{{savedAt}}#{id}");
        assert_stored(&saved, &format!("USER#u_02 SAVED#{kind}#{id}"), &index);
        let counted = |answer: &nagaya_testing::Response| answer.list().iter().any(|each| each["savedCount"] == 1);
        guest.get_until(&format!("/v1/catalog/{own}/popular"), counted);
        assert_stored(&published, &place, &popular(1));
    }
    let share = cook.post("/v1/shares", &json!({ "targetType": "RECIPE", "targetId": "r_01" })).expect_data(201);
    let index = "GSI3PK=CREATOR#u_01#SHARE GSI3SK=CREATED#{createdAt}#{shareId}";
    let item = assert_stored(&share, "SHARE#{shareId} META#", index);
    for attribute in ["targetType", "targetId", "authorName"] {
        assert!(item.get(attribute).is_some(), "the share has no {attribute}");
    }
}

/// Payments and their notifications.
fn payments(server: &TestServer) {
    let guest = server.client_of_user("u_02", "u_02");
    let assert_stored = |answer: &Json, place: &str| assert_stored(server, answer, place, "");
    let method = guest.post("/v1/payment-methods", &json!({ "token": "tok_visa" })).expect_data(201);
    assert_stored(&method, "USER#u_02 PAYMENT_METHOD#{paymentMethodId}");
    let asked = json!({ "targetType": "RECIPE", "targetId": "r_01" });
    let purchase = guest.with_header("idempotency-key", "k-1").post("/v1/purchases", &asked).expect_data(201);
    assert_stored(&purchase, "USER#u_02 PURCHASE#{purchasedAt}#{purchaseId}");
    let subscription = guest.post("/v1/subscription", &json!({ "plan": "standard" })).expect_data(201);
    assert_stored(&subscription, "USER#u_02 SUBSCRIPTION#ACTIVE");
    let notifications = guest.get("/v1/notifications").list();
    assert!(!notifications.is_empty(), "a purchase has a notification");
    for notification in &notifications {
        assert_stored(notification, "USER#u_02 NOTIFICATION#{createdAt}#{notificationId}");
    }
}
