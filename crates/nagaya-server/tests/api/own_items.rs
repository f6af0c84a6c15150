//! Fields that the token gives, own items, and bodies that are refused for what they name.

use serde_json::{Value as Json, json};

use crate::desk::desk;

#[test]
fn the_author_comes_from_the_token_and_never_from_the_body() {
    let server = desk();
    let (hana, ren) = (server.user_with("t1", "hana", &["admin"]), server.user_with("t1", "ren", &["admin"]));
    for forged in [json!({ "createdBy": "ren" }), json!({ "updatedBy": "hana" }), json!({ "createdBy": null })] {
        let field = forged.as_object().expect("an object").keys().next().expect("a field").clone();
        assert_eq!(hana.post("/v1/memos", &forged).expect_problem(422, "invalid"), [format!("/{field}")]);
    }
    let made = hana.post("/v1/memos", &json!({ "memoId": "m1" })).expect_data(201);
    assert_eq!((&made["createdBy"], &made["updatedBy"]), (&json!("hana"), &json!("hana")));
    let changed = ren.patch("/v1/memos/m1", &json!({ "text": "b" })).expect_data(200);
    assert_eq!((&changed["createdBy"], &changed["updatedBy"]), (&json!("hana"), &json!("ren")));
    for forged in [json!({ "createdBy": "ren" }), json!({ "updatedBy": "hana" })] {
        ren.patch("/v1/memos/m1", &forged).expect_problem(422, "invalid");
    }
}

#[test]
fn a_role_for_own_items_changes_and_sees_no_others() {
    let server = desk();
    let [hana, ren] = ["hana", "ren"].map(|user| server.user_with("t1", user, &["writer"]));
    let admin = server.user_with("t1", "boss", &["admin"]);
    hana.post("/v1/memos", &json!({ "memoId": "m1" })).expect_data(201);
    // Memos are read by all, and changed by their authors.
    let tag = ren.get("/v1/memos/m1").header("etag").expect("a tag").to_owned();
    assert_eq!(ren.get("/v1/memos").list().len(), 1);
    let missing = ren.patch("/v1/memos/none", &json!({ "text": "b" }));
    for client in [&ren, &ren.with_header("if-match", &tag), &ren.with_header("if-match", "\"v9\"")] {
        let refused = client.patch("/v1/memos/m1", &json!({ "text": "b" }));
        refused.expect_problem(404, "not_found");
        assert_eq!(refused.body["detail"], missing.body["detail"]);
        client.delete("/v1/memos/m1").expect_problem(404, "not_found");
    }
    hana.patch("/v1/memos/m1", &json!({ "text": "b" })).expect_data(200);
    admin.patch("/v1/memos/m1", &json!({ "text": "c" })).expect_data(200);
    hana.delete("/v1/memos/m1").expect_data(204);

    // A diary does not exist for others.
    hana.post("/v1/diaries", &json!({})).expect_data(201);
    ren.get("/v1/diaries/hana").expect_problem(404, "not_found");
    ren.patch("/v1/diaries/hana", &json!({ "text": "b" })).expect_problem(404, "not_found");
    ren.delete("/v1/diaries/hana").expect_problem(404, "not_found");
    assert_eq!(ren.get("/v1/diaries").list(), [] as [Json; 0]);
    assert_eq!(hana.get("/v1/diaries").list().len(), 1);
    assert_eq!(admin.get("/v1/diaries").list().len(), 1);
    assert_eq!(hana.get("/v1/diaries/hana").expect_data(200)["userId"], "hana");
}

#[test]
fn a_member_that_is_given_twice_is_refused() {
    let server = desk();
    let t1 = server.user_with("t1", "hana", &["admin"]).with_header("content-type", "application/json");
    for body in [r#"{"memoId":"m1","text":"a","text":"b"}"#, r#"{"memoId":"m1","text":"a","\u0074ext":"a"}"#] {
        let refused = t1.request_bytes("POST", "/v1/memos", Some(body.as_bytes()));
        refused.expect_problem(400, "bad_body");
        let detail = refused.body["detail"].as_str().unwrap_or_default();
        assert!(detail.starts_with("In the body, `text` is given twice"), "{detail}");
    }
    let refused = t1.request_bytes("POST", "/v1/memos", Some(br#"{"memoId":"#));
    refused.expect_problem(400, "bad_body");
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.starts_with("The body is not JSON: ")));
    t1.get("/v1/memos/m1").expect_problem(404, "not_found");
}

#[test]
fn a_patch_that_names_the_tenant_is_refused() {
    let server = desk();
    let t1 = server.user_with("t1", "hana", &["admin"]);
    t1.post("/v1/memos", &json!({ "memoId": "m1" })).expect_data(201);
    for tenant in ["t1", "t2"] {
        let patch = json!({ "tenantId": tenant, "text": "b" });
        assert_eq!(t1.patch("/v1/memos/m1", &patch).expect_problem(422, "invalid"), ["/tenantId"]);
    }
    assert_eq!(t1.get("/v1/memos/m1").expect_data(200)["text"], "");
}

#[test]
fn ids_are_no_dots_and_links_have_a_scheme_of_the_web() {
    let server = desk();
    let t1 = server.user_with("t1", "hana", &["admin"]);
    for id in [".", ".."] {
        assert_eq!(t1.post("/v1/memos", &json!({ "memoId": id })).expect_problem(422, "invalid"), ["/memoId"]);
    }
    for link in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://example.com"] {
        assert_eq!(t1.post("/v1/memos", &json!({ "link": link })).expect_problem(422, "invalid"), ["/link"], "{link}");
    }
    for link in ["https://example.com/a", "HTTP://example.com"] {
        t1.post("/v1/memos", &json!({ "link": link })).expect_data(201);
    }
}
