//! Shopped goods: one request completes shopping items and puts the goods into the fridge.

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::{
    harness::{kondate_server, run_concurrently},
    shopping::add,
};

/// Proves the part of K9 and K10 that moves shopped goods into the fridge.
#[test]
fn completed_items_are_put_into_the_fridge() {
    goods_are_completed_and_in_the_fridge(&kondate_server());
}

pub(crate) fn goods_are_completed_and_in_the_fridge(server: &TestServer) {
    let mio = server.client_of_user("u_shopped", "u_shopped");
    let milk = json!({ "name": "牛乳", "amount": 2, "unit": "本", "category": "乳卵", "note": "低脂肪" });
    let (milk, egg) = (add(&mio, &milk), add(&mio, &json!({ "name": "卵" })));
    let shop = |ids: &[&str], to_fridge: bool| {
        mio.post("/v1/shopping-items/complete", &json!({ "itemIds": ids, "toFridge": to_fridge }))
    };
    // The list names the fridge item that each has become.
    shop(&[&egg], false).list();
    assert_eq!(mio.get("/v1/fridge-items").list(), Vec::<Json>::new());
    let done = shop(&[&milk, &egg, &milk], true).list();
    assert!(done.iter().all(|item| item["completed"] == true));
    let fridge = mio.get("/v1/fridge-items").list();
    let names = |items: &[Json], id: &str| {
        let mut names: Vec<_> =
            items.iter().map(|item| [text(item, "name"), text(item, id)].map(str::to_owned)).collect();
        names.sort();
        names
    };
    assert_eq!((done.len(), names(&done, "fridgeItemId")), (2, names(&fridge, "itemId")));
    let milk_there = fridge.iter().find(|item| item["name"] == "牛乳").expect("it is there");
    let fields = ["amount", "unit", "category", "note"].map(|field| milk_there[field].clone());
    assert_eq!(fields, [json!(2), json!("本"), json!("乳卵"), json!("低脂肪")]);

    // What is in the fridge is not put there again, also concurrently.
    assert_eq!(shop(&[&milk, &egg], true).list(), done);
    let rice = add(&mio, &json!({ "name": "米" }));
    run_concurrently(4, |_| shop(&[&rice], true).expect_data(200));
    assert_eq!(mio.get("/v1/fridge-items").list().len(), 3);
    // An item that is bought once more is put there once more.
    mio.patch(&format!("/v1/shopping-items/{egg}"), &json!({ "completed": false })).expect_data(200);
    let again = shop(&[&egg], true).list();
    assert_ne!(again[0]["fridgeItemId"], done[1]["fridgeItemId"]);
    assert_eq!(mio.get("/v1/fridge-items").list().len(), 4);

    // All or none, and callers do not choose the fridge item.
    let tea = add(&mio, &json!({ "name": "茶" }));
    assert_eq!(shop(&[&tea, "i_99"], true).expect_problem(404, "not_found"), ["/itemIds/1"]);
    let path = format!("/v1/shopping-items/{tea}");
    assert_eq!(mio.get(&path).expect_data(200)["completed"], false);
    assert_eq!(mio.patch(&path, &json!({ "fridgeItemId": egg })).expect_problem(422, "invalid"), ["/fridgeItemId"]);
    let wrong = mio.post("/v1/shopping-items/complete", &json!({ "itemIds": [tea], "toFridge": "yes" }));
    assert_eq!(wrong.expect_problem(422, "invalid"), ["/toFridge"]);
    let other = server.client_of_user("u_shoppe", "u_shoppe");
    let body = json!({ "itemIds": [tea], "toFridge": true });
    assert_eq!(other.post("/v1/shopping-items/complete", &body).expect_problem(404, "not_found"), ["/itemIds/0"]);
    server.anonymous_client().post("/v1/shopping-items/complete", &body).expect_problem(401, "no_token");
    assert!(other.get("/v1/fridge-items").list().is_empty());

    // As many as one write takes.
    let ids: Vec<_> =
        (0..46).map(|n| add(&mio, &json!({ "itemId": format!("i_{n}"), "name": format!("{n}") }))).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(shop(&ids, true).expect_problem(422, "invalid"), ["/itemIds"]);
    assert_eq!(shop(&ids[..45], true).list().len(), 45);
    assert_eq!(mio.get("/v1/fridge-items?limit=1000").list().len(), 4 + 45);
}
