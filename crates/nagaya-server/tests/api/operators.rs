//! Operators: routes for them only, and public reads.

use serde_json::json;

use crate::desk::desk;

#[test]
fn operators_reach_system_items_with_a_reason() {
    let server = desk();
    let operator = server.client_of_operator("op");
    operator.post("/v1/regions", &json!({ "regionId": "eu", "name": "Europe" })).expect_data(201);
    assert_eq!(operator.get("/v1/regions").expect_data(200)[0]["name"], "Europe");
    let silent = server.anonymous_client().with_token(&server.token(None, "op", &["operator"]));
    silent.get("/v1/regions").expect_problem(400, "no_reason");
    silent.with_header("nagaya-reason", "  ").get("/v1/regions").expect_problem(400, "no_reason");
    // Operators belong to no tenant.
    operator.get("/v1/tickets").expect_problem(403, "forbidden");
    let t1 = server.user_with("t1", "u1", &["admin"]);
    t1.get("/v1/regions").expect_problem(403, "forbidden");
    t1.with_header("nagaya-reason", "x")
        .post("/v1/regions", &json!({ "regionId": "x", "name": "x" }))
        .expect_problem(403, "forbidden");
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
