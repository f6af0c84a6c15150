//! The fridge gives back what was deleted.

use std::time::Duration;

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{at_once, kitchen};

/// Proves K10.
#[test]
fn what_was_deleted_can_be_restored() {
    deleting_moves_an_item_and_restoring_moves_it_back(&kitchen());
}

pub(crate) fn deleting_moves_an_item_and_restoring_moves_it_back(server: &TestServer) {
    let mio = server.user("u_cold", "u_cold");
    let egg = json!({
        "name": "卵", "amount": 10, "unit": "個", "category": "乳卵", "note": "奥", "bestBefore": "2030-02-01",
    });
    let egg = mio.post("/v1/fridge-items", &egg).data(201);
    let path = format!("/v1/fridge-items/{}", text(&egg, "itemId"));
    let egg = mio.patch(&path, &json!({ "amount": 6.5 })).data(200);
    let milk = mio.post("/v1/fridge-items", &json!({ "name": "牛乳" })).data(201);

    // Deleted as the one that the caller knows, once.
    mio.with("if-match", "\"v1\"").delete(&path).problem(412, "version_conflict");
    server.clock.advance(Duration::from_secs(3));
    let gone = mio.with("if-match", "\"v2\"").delete(&path);
    assert_eq!((gone.status, &gone.body), (204, &json!(null)));
    mio.delete(&path).problem(404, "not_found");
    mio.get(&path).problem(404, "not_found");
    assert_eq!(mio.get("/v1/fridge-items").list(), std::slice::from_ref(&milk));
    server.clock.advance(Duration::from_secs(3));
    assert_eq!(mio.delete(&format!("/v1/fridge-items/{}", text(&milk, "itemId"))).status, 204);

    // Last deleted first, with all that they were.
    let deleted = mio.get("/v1/fridge-deleted-items").list();
    assert_eq!(deleted.iter().map(|item| text(item, "name")).collect::<Vec<_>>(), ["牛乳", "卵"]);
    for (field, value) in egg.as_object().expect("an item").iter().filter(|(field, _)| *field != "version") {
        assert_eq!(&deleted[1][field], value, "{field}");
    }
    assert!(text(&deleted[1], "deletedAt") > text(&egg, "updatedAt"));

    // It comes back as it was; that it came back is a change.
    let restored = mio.post_empty(&restore(&deleted[1]));
    assert!(restored.header("etag").is_some_and(|tag| tag.starts_with("\"v1-")));
    let restored = restored.data(200);
    let fresh = ["version", "updatedAt"];
    for (field, value) in egg.as_object().expect("an item").iter().filter(|(field, _)| !fresh.contains(&field.as_str()))
    {
        assert_eq!(&restored[field], value, "{field}");
    }
    assert!(text(&restored, "updatedAt") > text(&egg, "updatedAt"));
    assert_eq!(restored.get("deletedAt"), None);
    assert_eq!(mio.get(&path).data(200), restored);
    mio.post_empty(&restore(&deleted[1])).problem(404, "not_found");
    assert_eq!(mio.get("/v1/fridge-deleted-items").list(), [deleted[0].clone()]);

    // Somebody else's is not there, and neither is what cannot be.
    for them in ["u_col", "u_cold2", "U_COLD"] {
        let them = server.user(them, them);
        them.post_empty(&restore(&deleted[0])).problem(404, "not_found");
        them.delete(&path).problem(404, "not_found");
    }
    for wrong in ["yesterday/i_01", "2030-01-01T00:00:00Z/i_01", "2030-01-01T00:00:00Z/a%23b"] {
        mio.post_empty(&format!("/v1/fridge-deleted-items/{wrong}/restore")).problem(404, "not_found");
    }
    // Only deleting makes a deleted item, and only the fridge item can be changed.
    assert!(matches!(mio.post("/v1/fridge-deleted-items", &deleted[0]).status, 404 | 405));
    assert!(matches!(mio.patch(place(&restore(&deleted[0])), &json!({ "name": "x" })).status, 404 | 405));
    assert_eq!(mio.delete(place(&restore(&deleted[0]))).status, 204);
    mio.post_empty(&restore(&deleted[0])).problem(404, "not_found");
}

/// Proves the part of K10 that has an end.
#[test]
fn after_thirty_days_it_is_gone() {
    nothing_is_restored_after_thirty_days(&kitchen());
}

pub(crate) fn nothing_is_restored_after_thirty_days(server: &TestServer) {
    let mio = server.user("u_late", "u_late");
    for name in ["a", "b"] {
        let item = mio.post("/v1/fridge-items", &json!({ "name": name })).data(201);
        assert_eq!(mio.delete(&format!("/v1/fridge-items/{}", text(&item, "itemId"))).status, 204);
    }
    let deleted = mio.get("/v1/fridge-deleted-items").list();
    let day = Duration::from_secs(24 * 60 * 60);
    server.clock.advance(30 * day - Duration::from_secs(10));
    mio.post_empty(&restore(&deleted[0])).data(200);
    server.clock.advance(Duration::from_secs(20));
    mio.post_empty(&restore(&deleted[1])).problem(404, "not_found");
    assert_eq!(mio.get("/v1/fridge-deleted-items").list(), Vec::<Json>::new());
}

/// Proves the part of K10 that overwrites nothing.
#[test]
fn what_has_taken_its_place_stays() {
    an_id_that_is_taken_again_is_not_restored_over(&kitchen());
}

pub(crate) fn an_id_that_is_taken_again_is_not_restored_over(server: &TestServer) {
    let mio = server.user("u_twice", "u_twice");
    let path = "/v1/fridge-items/f_01";
    let make = |name: &str| mio.post("/v1/fridge-items", &json!({ "itemId": "f_01", "name": name })).data(201);
    make("first");
    assert_eq!(mio.delete(path).status, 204);
    // Deleted again within the same second: both can be restored, one at a time.
    make("second");
    assert_eq!(mio.delete(path).status, 204);
    let third = make("third");
    let deleted = mio.get("/v1/fridge-deleted-items").list();
    assert_eq!(deleted.iter().map(|item| text(item, "name")).collect::<Vec<_>>(), ["second", "first"]);
    for each in &deleted {
        assert_eq!(mio.post_empty(&restore(each)).problem(409, "taken"), ["/itemId"]);
    }
    assert_eq!(mio.get(path).data(200), third);
    assert_eq!(mio.get("/v1/fridge-deleted-items").list(), deleted);
    assert_eq!(mio.delete(path).status, 204);
    assert_eq!(mio.post_empty(&restore(&deleted[1])).data(200)["name"], "first");
    assert_eq!(mio.get("/v1/fridge-deleted-items").list().len(), 2);
}

/// Proves the concurrency part of K10.
#[test]
fn several_who_restore_at_once_restore_once() {
    restoring_at_once_happens_once_and_loses_nothing(&kitchen());
}

pub(crate) fn restoring_at_once_happens_once_and_loses_nothing(server: &TestServer) {
    let mio = server.user("u_crowd", "u_crowd");
    let path = "/v1/fridge-items/f_01";
    mio.post("/v1/fridge-items", &json!({ "itemId": "f_01", "name": "卵", "amount": 3 })).data(201);
    for _ in 0..5 {
        assert_eq!(statuses(at_once(4, |_| mio.delete(path).status), 204), [404; 3]);
        let deleted = mio.get("/v1/fridge-deleted-items").list();
        assert_eq!(deleted.len(), 1);
        let restored = at_once(8, |_| mio.post_empty(&restore(&deleted[0])).status);
        assert_eq!(statuses(restored, 200), [404; 7]);
        assert_eq!(mio.get("/v1/fridge-items").list().len(), 1);
        assert_eq!(mio.get("/v1/fridge-deleted-items").list(), Vec::<Json>::new());
    }

    // Deleted and restored by many: it is always in one of the two places, and never in both.
    at_once(4, |n| {
        for _ in 0..25 {
            match n {
                0 => assert!(matches!(mio.delete(path).status, 204 | 404)),
                _ => {
                    for each in mio.get("/v1/fridge-deleted-items").list() {
                        assert!(matches!(mio.post_empty(&restore(&each)).status, 200 | 404 | 409));
                    }
                }
            }
        }
    });
    let (here, there) = (mio.get("/v1/fridge-items").list(), mio.get("/v1/fridge-deleted-items").list());
    assert_eq!(here.len() + there.len(), 1, "{here:?} {there:?}");
    let item = here.iter().chain(&there).next().expect("is somewhere");
    assert_eq!((text(item, "name"), &item["amount"]), ("卵", &json!(3)));
}

/// Proves the concurrency part of K10.
#[test]
fn what_is_changed_while_it_is_deleted_is_not_lost() {
    a_deleted_item_is_as_it_was_last_changed(&kitchen());
}

pub(crate) fn a_deleted_item_is_as_it_was_last_changed(server: &TestServer) {
    let mio = server.user("u_stir", "u_stir");
    for round in 0..20 {
        let path = format!("/v1/fridge-items/f_{round}");
        mio.post("/v1/fridge-items", &json!({ "itemId": format!("f_{round}"), "name": "卵", "note": "0" })).data(201);
        let changes = at_once(5, |n| {
            let change = |m: usize| mio.patch(&path, &json!({ "note": format!("{n}-{m}") }));
            match n {
                // Amid the changes of the others.
                0 => {
                    change(0);
                    assert_eq!(mio.delete(&path).status, 204);
                    Vec::new()
                }
                _ => (0..6).map(change).filter(|changed| changed.status == 200).collect(),
            }
        });
        let last =
            changes.iter().flatten().map(|changed| changed.data(200)).max_by_key(|item| item["version"].as_u64());
        let deleted = mio.get("/v1/fridge-deleted-items").list();
        let deleted = deleted.iter().find(|item| item["itemId"] == format!("f_{round}")).expect("is deleted");
        // The one who deletes changes it too, and does not say when.
        if text(deleted, "note") != "0-0" {
            assert_eq!(deleted["note"], last.map_or(json!("0"), |last| last["note"].clone()));
        }
    }
}

/// The others, where one is this.
#[track_caller]
fn statuses(mut statuses: Vec<u16>, one: u16) -> Vec<u16> {
    let at = statuses.iter().position(|status| *status == one);
    statuses.remove(at.unwrap_or_else(|| panic!("none is {one}: {statuses:?}")));
    statuses
}

fn restore(deleted: &Json) -> String {
    format!("/v1/fridge-deleted-items/{}/{}/restore", text(deleted, "deletedAt"), text(deleted, "itemId"))
}

/// The path of a deleted item, from that by which it is restored.
fn place(restore: &str) -> &str {
    restore.trim_end_matches("/restore")
}
