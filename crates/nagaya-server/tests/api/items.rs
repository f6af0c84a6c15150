//! Items: created, read, changed and deleted.

use serde_json::json;

use crate::desk::desk;

/// Proves the routes part of N4.
#[test]
fn an_item_is_created_read_changed_and_deleted() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);

    let made = t1.post("/v1/tickets", &json!({ "subject": "It rains in", "secret": "s3cret" }));
    let data = made.expect_data(201);
    let location = made.header("location").expect("a location").to_owned();
    assert_eq!(location, format!("/v1/tickets/{}", data["ticketId"].as_str().expect("an id")));
    assert!(made.header("etag").is_some_and(|tag| tag.starts_with("\"v1-")));
    assert_eq!(
        (&data["subject"], &data["status"], &data["tenantId"]),
        (&json!("It rains in"), &json!("open"), &json!("t1"))
    );
    assert!(data.get("secret").is_none() && data.get("PK").is_none(), "{data}");

    let read = t1.get(&location);
    assert_eq!(read.expect_data(200), data);
    assert!(read.header("etag").is_some_and(|tag| tag.starts_with("\"v1-")));
    let tag = read.header("etag").expect("a tag");
    assert_eq!(t1.with_header("if-none-match", tag).get(&location).status, 304);
    assert_eq!(t1.with_header("if-none-match", &format!("\"v0\", W/{tag}")).get(&location).status, 304);
    // A version alone may be that of a deleted item with the same id.
    assert_eq!(t1.with_header("if-none-match", "\"v1\"").get(&location).status, 200);
    assert_eq!(t1.with_header("if-none-match", "\"v2\"").get(&location).status, 200);

    let changed = t1.patch(&location, &json!({ "status": "closed", "tags": ["wet"] }));
    assert_eq!(changed.expect_data(200)["status"], "closed");
    assert!(changed.header("etag").is_some_and(|tag| tag.starts_with("\"v2-")));
    let merge = t1.with_header("content-type", "application/merge-patch+json");
    assert_eq!(merge.patch(&location, &json!({ "tags": [] })).expect_data(200)["tags"], json!([]));
    // Only a patch is merged, and only JSON is.
    merge.post("/v1/tickets", &json!({ "subject": "x" })).expect_problem(415, "not_json");
    let text = t1.with_header("content-type", "text/plain");
    text.patch(&location, &json!({ "tags": ["x"] })).expect_problem(415, "not_json");

    assert_eq!(t1.delete(&location).status, 204);
    t1.get(&location).expect_problem(404, "not_found");
    t1.delete(&location).expect_problem(404, "not_found");
}

/// Proves the conflict part of A11.
#[test]
fn a_change_with_a_stale_etag_is_refused() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let location =
        t1.post("/v1/tickets", &json!({ "subject": "a" })).header("location").expect("a location").to_owned();
    t1.with_header("if-match", "\"v1\"").patch(&location, &json!({ "subject": "b" })).expect_data(200);

    let late = t1.with_header("if-match", "\"v1\"");
    late.patch(&location, &json!({ "subject": "c" })).expect_problem(412, "version_conflict");
    late.delete(&location).expect_problem(412, "version_conflict");
    assert_eq!(t1.get(&location).expect_data(200)["subject"], "b");
    // Weak tags never match, and several tags match if one does.
    t1.with_header("if-match", "W/\"v2\"")
        .patch(&location, &json!({ "subject": "c" }))
        .expect_problem(412, "version_conflict");
    assert_eq!(
        t1.with_header("if-match", "\"v1\", \"v2\"").patch(&location, &json!({ "subject": "c" })).expect_data(200)["subject"],
        "c"
    );
    assert_eq!(t1.with_header("if-match", "*").delete(&location).status, 204);
}

#[test]
fn a_malformed_if_match_is_no_conflict() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let location =
        t1.post("/v1/tickets", &json!({ "subject": "a" })).header("location").expect("a location").to_owned();
    for header in ["v1", "\"v1", "\"v1\" \"v2\"", "\"v1\",", "1"] {
        let caller = t1.with_header("if-match", header);
        caller.patch(&location, &json!({ "subject": "b" })).expect_problem(400, "bad_if_match");
        caller.delete(&location).expect_problem(400, "bad_if_match");
    }
    assert_eq!(t1.get(&location).expect_data(200)["subject"], "a");
}

#[test]
fn a_recreated_item_has_another_etag() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let made = |subject: &str| t1.post("/v1/tickets", &json!({ "ticketId": "t", "subject": subject }));
    let location = "/v1/tickets/t";
    let tag = made("first").header("etag").expect("a tag").to_owned();
    t1.delete(location);
    made("second").expect_data(201);
    // Both have version 1, but different content.
    assert_eq!(t1.with_header("if-none-match", &tag).get(location).expect_data(200)["subject"], "second");
    t1.with_header("if-match", &tag)
        .patch(location, &json!({ "subject": "x" }))
        .expect_problem(412, "version_conflict");
}

#[test]
fn the_tag_of_an_item_without_a_version_is_a_hash_of_its_content() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let made = t1.post("/v1/seats", &json!({ "row": "a b/ü", "number": 7 }));
    made.expect_data(201);
    let location = made.header("location").expect("a location").to_owned();
    assert_eq!(location, "/v1/seats/a%20b%2F%C3%BC/7");
    let tag = made.header("etag").expect("a tag").to_owned();
    assert_eq!(t1.get(&location).header("etag"), Some(tag.as_str()));
    t1.with_header("if-match", &tag).patch(&location, &json!({ "guest": "Hanako" })).expect_data(200);
    t1.with_header("if-match", &tag)
        .patch(&location, &json!({ "guest": "Taro" }))
        .expect_problem(412, "version_conflict");
    t1.with_header("if-match", &tag).delete(&location).expect_problem(412, "version_conflict");
    t1.with_header("if-match", "\"v1\"").delete(&location).expect_problem(412, "version_conflict");
    let tag = t1.get(&location).header("etag").expect("a tag").to_owned();
    // Whoever changes an item gets it, also if nothing changes.
    let same = t1.with_header("if-none-match", &tag).patch(&location, &json!({ "guest": "Hanako" }));
    assert_eq!((same.status, same.header("etag")), (200, Some(tag.as_str())));
    assert_eq!(t1.with_header("if-match", &tag).delete(&location).status, 204);
}

#[test]
fn a_singleton_of_a_tenant_has_no_id_in_its_path() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    t1.get("/v1/settings").expect_problem(404, "not_found");
    assert_eq!(t1.post("/v1/settings", &json!({ "theme": "dark" })).header("location"), Some("/v1/settings"));
    t1.post("/v1/settings", &json!({})).expect_problem(409, "taken");
    assert_eq!(t1.get("/v1/settings").expect_data(200)["theme"], "dark");
    server.user_with("t2", "u1", &["admin"]).get("/v1/settings").expect_problem(404, "not_found");
    t1.patch("/v1/settings", &json!({ "theme": "light" })).expect_data(200);
    assert_eq!(t1.delete("/v1/settings").status, 204);
}

#[test]
fn audit_entries_are_read_only() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    t1.post("/v1/teams", &json!({ "teamId": "a", "name": "A" })).expect_data(201);
    let trail = t1.get("/v1/trails");
    let trail = trail.expect_data(200);
    let entry = &trail[0];
    assert_eq!(
        (&entry["action"], &entry["actor"], &entry["target"]),
        (&json!("team.create"), &json!("u1"), &json!("a"))
    );
    let forged = json!({ "action": "team.delete", "actor": "u2" });
    t1.post("/v1/trails", &forged).expect_problem(405, "no_such_method");
    let location =
        format!("/v1/trails/{}/{}", entry["at"].as_str().expect("at"), entry["trailId"].as_str().expect("id"));
    assert_eq!(t1.get(&location).expect_data(200), *entry);
    t1.delete(&location).expect_problem(405, "no_such_method");
    t1.patch(&location, &forged).expect_problem(405, "no_such_method");
}
