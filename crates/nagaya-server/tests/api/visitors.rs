//! Visitors: reads without a token, where the design admits them.

use nagaya_server::{System, document};
use nagaya_testing::{TestServer, parse_design};
use serde_json::json;

use crate::desk::DESK;

/// The design of the desk, with access for visitors.
fn open_desk() -> String {
    DESK.replace("prefix = \"/v1\"", "prefix = \"/v1\"\nvisitors = true")
}

fn open() -> TestServer {
    TestServer::in_memory(System::plain(parse_design(&open_desk())))
}

#[test]
fn visitors_read_only_public_items() {
    let server = open();
    let (operator, t1, visitor) =
        (server.client_of_operator("op"), server.user_with("t1", "u1", &["admin"]), server.anonymous_client());
    operator.post("/v1/notices", &json!({ "noticeId": "n", "text": "Hello" })).expect_data(201);
    t1.post("/v1/offers", &json!({ "offerId": "o", "price": 7 })).expect_data(201);
    t1.post("/v1/tickets", &json!({ "ticketId": "t", "subject": "Mine" })).expect_data(201);
    assert_eq!(visitor.get("/v1/notices").expect_data(200)[0]["text"], "Hello");
    assert_eq!(visitor.get("/v1/notices/n").expect_data(200)["text"], "Hello");
    assert_eq!(visitor.get("/v1/offers/o").expect_data(200)["price"], 7);
    assert_eq!(visitor.get("/v1/offers?limit=1").expect_data(200)[0]["offerId"], "o");
    visitor.get("/v1/offers/none").expect_problem(404, "not_found");
    // The response does not depend on whether the item exists.
    for path in ["/v1/tickets", "/v1/tickets/t", "/v1/tickets/none", "/v1/settings", "/v1/regions", "/v1/trails"] {
        visitor.get(path).expect_problem(401, "no_token");
    }
    visitor.post("/v1/offers", &json!({ "offerId": "x", "price": 1 })).expect_problem(401, "no_token");
    visitor.patch("/v1/offers/o", &json!({ "price": 1 })).expect_problem(401, "no_token");
    visitor.delete("/v1/offers/o").expect_problem(401, "no_token");
    // A reason does not make a visitor an operator.
    visitor.with_header("nagaya-reason", "x").get("/v1/regions").expect_problem(401, "no_token");
}

#[test]
fn an_invalid_token_is_refused_even_where_none_is_needed() {
    let server = open();
    server.anonymous_client().with_token("nonsense").get("/v1/notices").expect_problem(401, "bad_token");
    let token = server.token(Some("t1"), "u1", &["admin"]);
    let send =
        |authorization: &str| server.anonymous_client().with_header("authorization", authorization).get("/v1/notices");
    for refused in ["Basic x", "", &token, &format!("Basic {token}"), &format!("Token {token}")] {
        send(refused).expect_problem(401, "bad_token");
    }
    send(&format!("bearer {token}")).expect_data(200);
}

#[test]
fn a_caller_without_roles_has_the_access_of_a_visitor() {
    let server = open();
    server.client_of_operator("op").post("/v1/notices", &json!({ "noticeId": "n", "text": "Hello" })).expect_data(201);
    for (tenant, roles) in [(Some("t1"), vec!["viewer"]), (Some("t1"), vec![]), (None, vec![])] {
        let client = server.anonymous_client().with_token(&server.token(tenant, "u", &roles));
        assert_eq!(client.get("/v1/notices/n").expect_data(200)["text"], "Hello", "{tenant:?} {roles:?}");
    }
}

#[test]
fn cursors_of_visitors_and_tenants_are_not_interchangeable() {
    let server = open();
    let (t1, visitor) = (server.user_with("t1", "u1", &["admin"]), server.anonymous_client());
    for id in ["a", "b"] {
        t1.post("/v1/offers", &json!({ "offerId": id, "price": 7 })).expect_data(201);
    }
    let next = |page: nagaya_testing::Response| page.body["nextCursor"].as_str().expect("there is more").to_owned();
    let (theirs, own) = (next(t1.get("/v1/offers?limit=1")), next(visitor.get("/v1/offers?limit=1")));
    assert_eq!(visitor.get(&format!("/v1/offers?limit=1&cursor={own}")).expect_data(200)[0]["offerId"], "b");
    visitor.get(&format!("/v1/offers?limit=1&cursor={theirs}")).expect_problem(400, "bad_cursor");
    t1.get(&format!("/v1/offers?limit=1&cursor={own}")).expect_problem(400, "bad_cursor");
    // Nor those of one user in two tenants.
    let t2 = server.user_with("t2", "u1", &["admin"]);
    t2.get(&format!("/v1/offers?limit=1&cursor={theirs}")).expect_problem(400, "bad_cursor");
}

#[test]
fn the_openapi_document_marks_routes_without_a_token() {
    let document = document(&System::plain(parse_design(&open_desk())), "", 0);
    assert_eq!(document["paths"]["/v1/notices"]["get"]["security"], json!([{}, { "token": [] }]));
    assert_eq!(document["paths"]["/v1/notices"]["post"].get("security"), None);
    assert_eq!(document["paths"]["/v1/tickets"]["get"].get("security"), None);
}
