//! Where the items lie: keys and index keys as the document's chapters 4 to 6 write them, byte for byte.

use nagaya_store::{Item, Key, Value};
use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{given, kitchen};

/// Proves K1, K2, K3 and K4.
#[test]
fn items_lie_as_documented() {
    everything_lies_where_the_document_says(&kitchen());
}

/// The item under a key; `{field}` in it and in the attributes stands for a value of what was answered.
#[track_caller]
fn lies(server: &TestServer, answer: &Json, place: &str, attributes: &str) -> Item {
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

pub(crate) fn everything_lies_where_the_document_says(server: &TestServer) {
    let cook = server.user("u_01", "u_01");
    let post = |path: &str, body: Json| cook.post(path, &body).data(201);
    let lies = |answer: &Json, place: &str, attributes: &str| lies(server, answer, place, attributes);

    let profile = post("/v1/profile", json!({ "displayName": "花" }));
    lies(&profile, "USER#u_01 PROFILE#", "");
    let recipe = given(server, "u_01", "recipe", &json!({ "recipeId": "r_01", "title": "肉じゃが" }));
    let item = lies(&recipe, "USER#u_01 RECIPE#r_01", "GSI1PK=ENTITY#RECIPE#r_01 GSI1SK=OWNER#u_01");
    for attribute in ["title", "ingredients", "steps", "tags", "origin", "createdAt", "updatedAt"] {
        assert!(item.get(attribute).is_some(), "the recipe has no {attribute}");
    }
    let items = json!([{ "recipeId": "r_01", "title": "肉じゃが" }]);
    let set = given(server, "u_01", "set", &json!({ "setId": "s_01", "title": "平日", "items": items }));
    lies(&set, "USER#u_01 SET#s_01", "GSI1PK=ENTITY#SET#s_01 GSI1SK=OWNER#u_01");
    for slot in ["CURRENT", "NEXT"] {
        let plan = cook.post(&format!("/v1/plans/{slot}/apply"), &json!({ "setId": "s_01" })).data(200);
        let item = lies(&plan, "USER#u_01 PLAN#{slot}", "");
        for attribute in ["setId", "setTitle", "appliedAt", "items"] {
            assert!(item.get(attribute).is_some(), "the plan has no {attribute}");
        }
    }
    let bought = post("/v1/shopping-items", json!({ "itemId": "i_01", "name": "豆腐" }));
    lies(&bought, "USER#u_01 SHOPPING#i_01", "");
    let kept = post("/v1/fridge-items", json!({ "itemId": "f_01", "name": "卵" }));
    lies(&kept, "USER#u_01 FRIDGE#f_01", "");
    cook.delete("/v1/fridge-items/f_01").data(204);
    let deleted = cook.get("/v1/fridge-deleted-items").list().remove(0);
    lies(&deleted, "USER#u_01 FRIDGE_DELETED#{deletedAt}#f_01", "");
    for scope in ["book", "catalog"] {
        let category = post("/v1/categories", json!({ "scope": scope, "categoryId": "c_01", "name": "主菜" }));
        lies(&category, "USER#u_01 CATEGORY#{scope}#c_01", "");
    }
    let log = post("/v1/cooklogs", json!({ "date": "2026-02-09", "logId": "log_01", "title": "肉じゃが" }));
    lies(&log, "USER#u_01 COOKLOG#2026-02-09#log_01", "");
    let settings = post("/v1/notification-settings", json!({}));
    lies(&settings, "USER#u_01 NOTIFICATION_SETTINGS#", "");
    let device = post("/v1/push-tokens", json!({ "platform": "web", "token": "abc" }));
    assert_eq!(device["tokenHash"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    lies(&device, "USER#u_01 PUSH_TOKEN#web#{tokenHash}", "");

    catalog(server);
    payments(server);
}

/// What is public, and what somebody else has saved of it.
fn catalog(server: &TestServer) {
    let (cook, guest) = (server.user("u_01", "u_01"), server.user("u_02", "u_02"));
    let lies = |answer: &Json, place: &str, attributes: &str| lies(server, answer, place, attributes);
    for (kind, id, own) in [("RECIPE", "r_01", "recipes"), ("SET", "s_01", "sets")] {
        let published = cook.post(&format!("/v1/{own}/{id}/publish"), &json!({})).data(200);
        let place = format!("CATALOG#{kind} CREATED#{{createdAt}}#{id}");
        let attributes = format!(
            "GSI1PK=ENTITY#{kind}#{id} GSI1SK=PUBLIC# GSI2PK=CATALOG#{kind} GSI2SK=SORT#NEWEST#{{createdAt}}#{id} \
             GSI3PK=CREATOR#u_01#{kind} GSI3SK=CREATED#{{createdAt}}#{id}"
        );
        lies(&published, &place, &attributes);
        let place = format!("CREATOR#u_01 CATALOG_{kind}#{{createdAt}}#{id}");
        let popular = |count| format!("GSI2PK=CATALOG#{kind} GSI2SK=SORT#POPULAR#{count:010}#{id}");
        lies(&published, &place, &popular(0));
        let saved = guest.until(&format!("/v1/catalog/{own}/{id}"), |answer| answer.status == 200);
        saved.data(200);
        let saved = guest.put(&format!("/v1/catalog/{own}/{id}/save")).data(200);
        lies(&saved, &format!("USER#u_02 SAVED#{kind}#{id}"), "");
        let counted = |answer: &nagaya_testing::Response| answer.list().iter().any(|each| each["savedCount"] == 1);
        guest.until(&format!("/v1/catalog/{own}/popular"), counted);
        lies(&published, &place, &popular(1));
    }
    let share = cook.post("/v1/shares", &json!({ "targetType": "RECIPE", "targetId": "r_01" })).data(201);
    let index = "GSI3PK=CREATOR#u_01#SHARE GSI3SK=CREATED#{createdAt}#{shareId}";
    let item = lies(&share, "SHARE#{shareId} META#", index);
    for attribute in ["targetType", "targetId", "authorName"] {
        assert!(item.get(attribute).is_some(), "the share has no {attribute}");
    }
}

/// What is paid, and what is told about it.
fn payments(server: &TestServer) {
    let guest = server.user("u_02", "u_02");
    let lies = |answer: &Json, place: &str| lies(server, answer, place, "");
    let method = guest.post("/v1/payment-methods", &json!({ "token": "tok_visa" })).data(201);
    lies(&method, "USER#u_02 PAYMENT_METHOD#{paymentMethodId}");
    let asked = json!({ "targetType": "RECIPE", "targetId": "r_01" });
    let purchase = guest.with("idempotency-key", "k-1").post("/v1/purchases", &asked).data(201);
    lies(&purchase, "USER#u_02 PURCHASE#{purchasedAt}#{purchaseId}");
    let subscription = guest.post("/v1/subscription", &json!({ "plan": "standard" })).data(201);
    lies(&subscription, "USER#u_02 SUBSCRIPTION#ACTIVE");
    let told = guest.get("/v1/notifications").list();
    assert!(!told.is_empty(), "nothing is told about a purchase");
    for told in &told {
        lies(told, "USER#u_02 NOTIFICATION#{createdAt}#{notificationId}");
    }
}
