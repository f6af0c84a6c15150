//! Deleted fridge items can be restored.

use std::time::Duration;

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{kondate_server, run_concurrently};

/// Proves K10.
#[test]
fn deleted_fridge_items_can_be_restored() {
    deleting_moves_an_item_and_restoring_moves_it_back(&kondate_server());
}

pub(crate) fn deleting_moves_an_item_and_restoring_moves_it_back(server: &TestServer) {
    let mio = server.client_of_user("u_cold", "u_cold");
    let egg = json!({
        "name": "卵", "amount": 10, "unit": "個", "category": "乳卵", "note": "奥", "bestBefore": "2030-02-01",
    });
    let egg = mio.post("/v1/fridge-items", &egg).expect_data(201);
    let path = format!("/v1/fridge-items/{}", text(&egg, "itemId"));
    let egg = mio.patch(&path, &json!({ "amount": 6.5 })).expect_data(200);
    let milk = mio.post("/v1/fridge-items", &json!({ "name": "牛乳" })).expect_data(201);

    // The delete checks the ETag, and succeeds once.
    mio.with_header("if-match", "\"v1\"").delete(&path).expect_problem(412, "version_conflict");
    server.clock.advance(Duration::from_secs(3));
    let gone = mio.with_header("if-match", "\"v2\"").delete(&path);
    assert_eq!((gone.status, &gone.body), (204, &json!(null)));
    mio.delete(&path).expect_problem(404, "not_found");
    mio.get(&path).expect_problem(404, "not_found");
    assert_eq!(mio.get("/v1/fridge-items").list(), std::slice::from_ref(&milk));
    server.clock.advance(Duration::from_secs(3));
    assert_eq!(mio.delete(&format!("/v1/fridge-items/{}", text(&milk, "itemId"))).status, 204);

    // Most recently deleted first, with all fields.
    let deleted = mio.get("/v1/fridge-deleted-items").list();
    assert_eq!(deleted.iter().map(|item| text(item, "name")).collect::<Vec<_>>(), ["牛乳", "卵"]);
    for (field, value) in egg.as_object().expect("an item").iter().filter(|(field, _)| *field != "version") {
        assert_eq!(&deleted[1][field], value, "{field}");
    }
    assert!(text(&deleted[1], "deletedAt") > text(&egg, "updatedAt"));

    // The restored item has its old fields; the restore counts as a change.
    let restored = mio.post_empty(&restore(&deleted[1]));
    assert!(restored.header("etag").is_some_and(|tag| tag.starts_with("\"v1-")));
    let restored = restored.expect_data(200);
    let fresh = ["version", "updatedAt"];
    for (field, value) in egg.as_object().expect("an item").iter().filter(|(field, _)| !fresh.contains(&field.as_str()))
    {
        assert_eq!(&restored[field], value, "{field}");
    }
    assert!(text(&restored, "updatedAt") > text(&egg, "updatedAt"));
    assert_eq!(restored.get("deletedAt"), None);
    assert_eq!(mio.get(&path).expect_data(200), restored);
    mio.post_empty(&restore(&deleted[1])).expect_problem(404, "not_found");
    assert_eq!(mio.get("/v1/fridge-deleted-items").list(), [deleted[0].clone()]);

    // Items of other users and impossible ids are not found.
    for them in ["u_col", "u_cold2", "U_COLD"] {
        let them = server.client_of_user(them, them);
        them.post_empty(&restore(&deleted[0])).expect_problem(404, "not_found");
        them.delete(&path).expect_problem(404, "not_found");
    }
    for wrong in ["yesterday/i_01", "2030-01-01T00:00:00Z/i_01", "2030-01-01T00:00:00Z/a%23b"] {
        mio.post_empty(&format!("/v1/fridge-deleted-items/{wrong}/restore")).expect_problem(404, "not_found");
    }
    // Only a delete creates a deleted item, and only the fridge item can be changed.
    assert!(matches!(mio.post("/v1/fridge-deleted-items", &deleted[0]).status, 404 | 405));
    assert!(matches!(mio.patch(deleted_path(&restore(&deleted[0])), &json!({ "name": "x" })).status, 404 | 405));
    assert_eq!(mio.delete(deleted_path(&restore(&deleted[0]))).status, 204);
    mio.post_empty(&restore(&deleted[0])).expect_problem(404, "not_found");
}

/// Proves the part of K10 that has an end.
#[test]
fn deleted_fridge_items_expire_after_thirty_days() {
    nothing_is_restored_after_thirty_days(&kondate_server());
}

pub(crate) fn nothing_is_restored_after_thirty_days(server: &TestServer) {
    let mio = server.client_of_user("u_late", "u_late");
    for name in ["a", "b"] {
        let item = mio.post("/v1/fridge-items", &json!({ "name": name })).expect_data(201);
        assert_eq!(mio.delete(&format!("/v1/fridge-items/{}", text(&item, "itemId"))).status, 204);
    }
    let deleted = mio.get("/v1/fridge-deleted-items").list();
    let day = Duration::from_secs(24 * 60 * 60);
    server.clock.advance(30 * day - Duration::from_secs(10));
    mio.post_empty(&restore(&deleted[0])).expect_data(200);
    server.clock.advance(Duration::from_secs(20));
    mio.post_empty(&restore(&deleted[1])).expect_problem(404, "not_found");
    assert_eq!(mio.get("/v1/fridge-deleted-items").list(), Vec::<Json>::new());
}

/// Proves the part of K10 that overwrites nothing.
#[test]
fn a_restore_does_not_overwrite_a_newer_item() {
    a_taken_id_is_not_overwritten_by_a_restore(&kondate_server());
}

pub(crate) fn a_taken_id_is_not_overwritten_by_a_restore(server: &TestServer) {
    let mio = server.client_of_user("u_twice", "u_twice");
    let path = "/v1/fridge-items/f_01";
    let make = |name: &str| mio.post("/v1/fridge-items", &json!({ "itemId": "f_01", "name": name })).expect_data(201);
    make("first");
    assert_eq!(mio.delete(path).status, 204);
    // Deleted twice within the same second: both can be restored, one at a time.
    make("second");
    assert_eq!(mio.delete(path).status, 204);
    let third = make("third");
    let deleted = mio.get("/v1/fridge-deleted-items").list();
    assert_eq!(deleted.iter().map(|item| text(item, "name")).collect::<Vec<_>>(), ["second", "first"]);
    for each in &deleted {
        assert_eq!(mio.post_empty(&restore(each)).expect_problem(409, "taken"), ["/itemId"]);
    }
    assert_eq!(mio.get(path).expect_data(200), third);
    assert_eq!(mio.get("/v1/fridge-deleted-items").list(), deleted);
    assert_eq!(mio.delete(path).status, 204);
    assert_eq!(mio.post_empty(&restore(&deleted[1])).expect_data(200)["name"], "first");
    assert_eq!(mio.get("/v1/fridge-deleted-items").list().len(), 2);
}

/// Proves the concurrency part of K10.
#[test]
fn concurrent_restores_restore_once() {
    concurrent_restores_happen_once_and_lose_nothing(&kondate_server());
}

pub(crate) fn concurrent_restores_happen_once_and_lose_nothing(server: &TestServer) {
    let mio = server.client_of_user("u_crowd", "u_crowd");
    let path = "/v1/fridge-items/f_01";
    mio.post("/v1/fridge-items", &json!({ "itemId": "f_01", "name": "卵", "amount": 3 })).expect_data(201);
    for _ in 0..5 {
        assert_eq!(statuses(run_concurrently(4, |_| mio.delete(path).status), 204), [404; 3]);
        let deleted = mio.get("/v1/fridge-deleted-items").list();
        assert_eq!(deleted.len(), 1);
        let restored = run_concurrently(8, |_| mio.post_empty(&restore(&deleted[0])).status);
        assert_eq!(statuses(restored, 200), [404; 7]);
        assert_eq!(mio.get("/v1/fridge-items").list().len(), 1);
        assert_eq!(mio.get("/v1/fridge-deleted-items").list(), Vec::<Json>::new());
    }

    // Concurrent deletes and restores: the item is always in exactly one of the two lists.
    run_concurrently(4, |n| {
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
fn a_change_during_a_delete_is_not_lost() {
    a_deleted_item_has_its_last_change(&kondate_server());
}

pub(crate) fn a_deleted_item_has_its_last_change(server: &TestServer) {
    let mio = server.client_of_user("u_stir", "u_stir");
    for round in 0..20 {
        let path = format!("/v1/fridge-items/f_{round}");
        mio.post("/v1/fridge-items", &json!({ "itemId": format!("f_{round}"), "name": "卵", "note": "0" }))
            .expect_data(201);
        let changes = run_concurrently(5, |n| {
            let change = |m: usize| mio.patch(&path, &json!({ "note": format!("{n}-{m}") }));
            match n {
                // Concurrent with the changes of other clients.
                0 => {
                    change(0);
                    assert_eq!(mio.delete(&path).status, 204);
                    Vec::new()
                }
                _ => (0..6).map(change).filter(|changed| changed.status == 200).collect(),
            }
        });
        let last = changes
            .iter()
            .flatten()
            .map(|changed| changed.expect_data(200))
            .max_by_key(|item| item["version"].as_u64());
        let deleted = mio.get("/v1/fridge-deleted-items").list();
        let deleted = deleted.iter().find(|item| item["itemId"] == format!("f_{round}")).expect("is deleted");
        // The delete changes the item too, but callers cannot set its time.
        if text(deleted, "note") != "0-0" {
            assert_eq!(deleted["note"], last.map_or(json!("0"), |last| last["note"].clone()));
        }
    }
}

/// The statuses, after one of them is asserted to be `one`.
#[track_caller]
fn statuses(mut statuses: Vec<u16>, one: u16) -> Vec<u16> {
    let at = statuses.iter().position(|status| *status == one);
    statuses.remove(at.unwrap_or_else(|| panic!("none is {one}: {statuses:?}")));
    statuses
}

fn restore(deleted: &Json) -> String {
    format!("/v1/fridge-deleted-items/{}/{}/restore", text(deleted, "deletedAt"), text(deleted, "itemId"))
}

/// The path of a deleted item, from the path that restores it.
fn deleted_path(restore: &str) -> &str {
    restore.trim_end_matches("/restore")
}
