//! Operators: routes for them only, and public reads.

use nagaya_design::Design;
use nagaya_server::{Claims, System, routes};
use nagaya_testing::{TestServer, parse_design};
use serde_json::json;

use crate::desk::{DESK, desk};

#[test]
fn operators_reach_system_items_with_a_reason() {
    let server = desk();
    let operator = server.client_of_operator("op");
    operator.post("/v1/regions", &json!({ "regionId": "eu", "name": "Europe" })).expect_data(201);
    assert_eq!(operator.get("/v1/regions").expect_data(200)[0]["name"], "Europe");
    let silent = server.anonymous_client().with_token(&server.token(None, "op", &["operator"]));
    silent.get("/v1/regions").expect_problem(400, "no_reason");
    for reason in ["  ", "too short", "  x         ", "a reason with a\ttab"] {
        silent.with_header("nagaya-reason", reason).get("/v1/regions").expect_problem(400, "no_reason");
    }
    silent.with_header("nagaya-reason", "ticket 471").get("/v1/regions").expect_data(200);
    // Operators belong to no tenant.
    operator.get("/v1/tickets").expect_problem(403, "forbidden");
    let t1 = server.user_with("t1", "u1", &["admin"]);
    t1.get("/v1/regions").expect_problem(403, "forbidden");
    t1.with_header("nagaya-reason", "ticket 471")
        .post("/v1/regions", &json!({ "regionId": "x", "name": "x" }))
        .expect_problem(403, "forbidden");
}

/// A token either is a tenant's or an operator's: an operator role must not open a tenant's items without reason and audit.
#[test]
fn an_operator_role_beside_a_tenant_permits_nothing() {
    let server = desk();
    let both = server.user_with("t1", "u1", &["operator"]).with_header("nagaya-reason", "ticket 471");
    both.get("/v1/tickets").expect_problem(403, "forbidden");
    both.post("/v1/tickets", &json!({ "subject": "a" })).expect_problem(403, "forbidden");
    let refused = both.get("/v1/regions");
    assert!(refused.body["detail"].to_string().contains("operators need one without"), "{}", refused.body);
    refused.expect_problem(403, "forbidden");
    // Nor in the claim of all roles.
    let elsewhere = Claims { operator_roles: Vec::new(), ..Claims::from_design(&parse_design(DESK)) };
    let token = server.token_with(&elsewhere, Some("t1"), "u1", &["operator"]);
    let both = server.anonymous_client().with_token(&token).with_header("nagaya-reason", "ticket 471");
    both.get("/v1/tickets").expect_problem(403, "forbidden");
    both.get("/v1/regions").expect_problem(403, "forbidden");
    // The other roles of the token still count.
    let admin = server.user_with("t1", "u1", &["admin", "operator"]).with_header("nagaya-reason", "ticket 471");
    admin.get("/v1/tickets").expect_data(200);
    admin.get("/v1/regions").expect_problem(403, "forbidden");
}

#[test]
fn the_document_names_operator_roles_only_where_they_count() {
    let document = desk().anonymous_client().get("/openapi.json").body;
    let described = |path: &str| document["paths"][path]["get"]["description"].as_str().unwrap_or_default().to_owned();
    assert!(
        described("/v1/tickets").contains("`ticket.read`: the roles `admin`, `viewer`."),
        "{}",
        described("/v1/tickets")
    );
    assert!(described("/v1/regions").contains("`region.read`: the role `operator`."), "{}", described("/v1/regions"));
}

/// An issuer may let customers choose the values of the claim of all roles.
#[test]
fn operator_roles_in_the_claim_of_all_roles_make_no_operator() {
    for named in ["", "operator = \"staff\"\n"] {
        let design = parse_design(&DESK.replace("system = \"system\"\n", &format!("system = \"system\"\n{named}")));
        let server = TestServer::in_memory(System::plain(design.clone()));
        // The local issuer writes operator roles into their claim.
        server.client_of_operator("op").get("/v1/regions").expect_data(200);
        // This one writes all roles into the other claim.
        let elsewhere = Claims { operator_roles: Vec::new(), ..Claims::from_design(&design) };
        for roles in [&["operator"][..], &["admin", "operator"]] {
            let token = server.token_with(&elsewhere, None, "op", roles);
            let client = server.anonymous_client().with_token(&token).with_header("nagaya-reason", "ticket 471");
            for path in ["/v1/regions", "/v1/operator-log"] {
                let refused = client.get(path);
                refused.expect_problem(403, "forbidden");
                let claim = format!("in the claim `{}`.", design.tenant.operator);
                assert!(refused.body["detail"].to_string().contains(&claim), "{}", refused.body);
            }
            client.post("/v1/regions", &json!({ "regionId": "x", "name": "x" })).expect_problem(403, "forbidden");
        }
    }
}

#[test]
fn public_items_are_readable_by_all_and_writable_by_their_owner() {
    let server = desk();
    let (operator, t1, t2) = (
        server.client_of_operator("op"),
        server.user_with("t1", "u1", &["admin"]),
        server.user_with("t2", "u1", &["admin"]),
    );
    operator.post("/v1/notices", &json!({ "noticeId": "n", "text": "Hello" })).expect_data(201);
    for client in [&operator, &t1, &t2] {
        assert_eq!(client.get("/v1/notices").expect_data(200)[0]["text"], "Hello");
        assert_eq!(client.get("/v1/notices/n").expect_data(200)["text"], "Hello");
    }
    server.anonymous_client().get("/v1/notices").expect_problem(401, "no_token");
    t1.patch("/v1/notices/n", &json!({ "text": "Bye" })).expect_problem(403, "forbidden");

    t1.post("/v1/offers", &json!({ "offerId": "o", "price": 7 })).expect_data(201);
    assert_eq!(t2.get("/v1/offers/o").expect_data(200)["price"], 7);
    t2.patch("/v1/offers/o", &json!({ "price": 1 })).expect_problem(404, "not_found");
    t2.delete("/v1/offers/o").expect_problem(404, "not_found");
    t1.patch("/v1/offers/o", &json!({ "price": 8 })).expect_data(200);
}

#[test]
fn operators_read_what_operators_did_in_pages() {
    let server = desk();
    let operator = server.client_of_operator("op").without_header("nagaya-reason");
    let operator = operator.with_header("nagaya-reason", "ticket 471: what happened");
    operator.post("/v1/regions", &json!({ "regionId": "eu", "name": "Europe" })).expect_data(201);
    for _ in 0..110 {
        operator.get("/v1/regions").expect_data(200);
    }
    let first = operator.get("/v1/operator-log");
    let entries = first.expect_data(200);
    let entries = entries.as_array().expect("a list");
    assert_eq!(entries.len(), 100);
    let entry = &entries[0];
    assert_eq!(
        [&entry["number"], &entry["action"], &entry["operator"], &entry["issuer"], &entry["target"], &entry["tenant"]],
        [&json!(1), &json!("region.create"), &json!("op"), &json!("local"), &json!("eu"), &json!(null)]
    );
    assert_eq!(entry["reason"], "ticket 471: what happened");
    assert_eq!(entry["changes"]["name"], json!({ "new": "Europe" }));
    let next = first.body["nextCursor"].as_str().expect("a second page");
    let second = operator.get(&format!("/v1/operator-log?cursor={next}")).expect_data(200);
    let actions: Vec<_> = second.as_array().expect("a list").iter().map(|entry| entry["action"].clone()).collect();
    // Each reading is an entry too.
    assert_eq!(actions.len(), 13);
    assert_eq!(actions[11..], ["audit.list", "audit.list"]);

    let at = entry["at"].as_str().expect("a time");
    assert_eq!(operator.get(&format!("/v1/operator-log?to={at}")).list(), [json!(null); 0]);
    assert_eq!(operator.get(&format!("/v1/operator-log?from={at}&to=9999-01-01T00:00:00Z")).list().len(), 100);
    for wrong in ["from=yesterday", "to=1", "limit=5", "from=2026-01-01T00:00:00Z&from=2026-01-01T00:00:00Z"] {
        operator.get(&format!("/v1/operator-log?{wrong}")).expect_problem(400, "bad_parameter");
    }
    operator.get("/v1/operator-log?cursor=abc").expect_problem(400, "bad_cursor");
}

#[test]
fn a_change_of_any_version_reads_nothing_before() {
    let server = desk();
    let operator = server.client_of_operator("op");
    operator.post("/v1/regions", &json!({ "regionId": "eu", "name": "Europe" })).expect_data(201);
    operator.with_header("if-match", " * ").patch("/v1/regions/eu", &json!({ "name": "EU" })).expect_data(200);
    let log = operator.get("/v1/operator-log").list();
    let actions: Vec<_> = log.iter().filter_map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions[..2], ["region.create", "region.update"]);
}

/// Everybody else gets the answer of the other operator routes.
#[test]
fn nobody_but_operators_reads_the_operator_log() {
    let server = desk();
    let path = "/v1/operator-log";
    let silent = server.anonymous_client().with_token(&server.token(None, "op", &["operator"]));
    silent.get(path).expect_problem(400, "no_reason");
    silent.with_header("nagaya-reason", "too short").get(path).expect_problem(400, "no_reason");
    server.anonymous_client().get(path).expect_problem(401, "no_token");
    for roles in [&["admin"][..], &["operator"], &["admin", "operator"], &[]] {
        let tenant = server.user_with("t1", "u1", roles).with_header("nagaya-reason", "ticket 471");
        let refused = tenant.get(path);
        refused.expect_problem(403, "forbidden");
        assert_eq!(refused.body["detail"], tenant.get("/v1/regions").body["detail"], "{roles:?}");
    }
    let nobody = server.user_without_tenant("u1").with_header("nagaya-reason", "ticket 471");
    nobody.get(path).expect_problem(403, "forbidden");
    let log = server.client_of_operator("op").get(path).list();
    assert_eq!(log.len(), 1, "refused calls read nothing: {log:?}");
}

#[test]
fn a_design_without_operators_has_no_operator_log() {
    let mut design = parse_design(DESK);
    let has_log = |design: &Design| routes(design).iter().any(|route| route.path == "/v1/operator-log");
    assert!(has_log(&design));
    design.roles.retain(|role| !role.operator);
    assert!(!has_log(&design));
}
