//! The tenant's own board, and the notices for all tenants.

use serde_json::json;

use super::each;
use nagaya_testing::TestServer;

use crate::harness::Clients as _;

pub(super) fn run(server: &TestServer) {
    let admin = server.admin("t1");
    let member = server.user_with("t1", "u1", &["member"]);
    let operator = server.client_of_operator("op-1");

    // One board per tenant, in Markdown, with the user who changed it last.
    member.get("/announcement-boards").expect_problem(404, "not_found");
    let forged = json!({ "markdown": "# News", "updatedBy": "somebody-else" });
    assert_eq!(admin.post("/announcement-boards", &forged).expect_problem(422, "invalid"), ["/updatedBy"]);
    let board = json!({ "markdown": "# News\n\n- *tea* is out\n" });
    let board = admin.post("/announcement-boards", &board).expect_data(201);
    assert_eq!(board["updatedBy"], "admin-1");
    admin.post("/announcement-boards", &json!({ "markdown": "" })).expect_problem(409, "taken");
    let other = server.user_with("t1", "admin-2", &["admin"]);
    let changed = other.patch("/announcement-boards", &json!({ "markdown": "# News\n" })).expect_data(200);
    assert_eq!((&changed["markdown"], &changed["updatedBy"]), (&json!("# News\n"), &json!("admin-2")));
    let long = json!({ "markdown": "x".repeat(50_001) });
    assert_eq!(admin.patch("/announcement-boards", &long).expect_problem(422, "invalid"), ["/markdown"]);
    assert_eq!(member.get("/announcement-boards").expect_data(200), changed);
    member.patch("/announcement-boards", &json!({ "markdown": "" })).expect_problem(403, "forbidden");

    // Operators write notices; users with a role in any tenant read them.
    for (id, level) in [("n1", "info"), ("n2", "critical")] {
        let notice = json!({ "noticeId": id, "title": "Maintenance", "body": "On Sunday.", "level": level });
        operator.post("/notices", &notice).expect_data(201);
        admin.post("/notices", &notice).expect_problem(403, "forbidden");
    }
    operator
        .without_header("nagaya-reason")
        .post("/notices", &json!({ "title": "a", "body": "b" }))
        .expect_problem(400, "no_reason");
    operator.patch("/notices/n1", &json!({ "body": "On Monday." })).expect_data(200);
    admin.patch("/notices/n1", &json!({ "body": "Never." })).expect_problem(403, "forbidden");
    admin.delete("/notices/n1").expect_problem(403, "forbidden");
    for reader in [&member, &server.user_with("t2", "u9", &["viewer"])] {
        assert_eq!(each(&reader.get("/notices").list(), "noticeId"), ["n2", "n1"], "newest first");
        assert_eq!(reader.get("/notices/n1").expect_data(200)["body"], "On Monday.");
    }
    operator.delete("/notices/n2").expect_data(204);
    assert_eq!(each(&operator.get("/notices").list(), "noticeId"), ["n1"]);
}
