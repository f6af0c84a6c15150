//! Tenants and their users.

use serde_json::json;

use super::{each, pass_second};
use nagaya_testing::TestServer;

use crate::{
    harness::{Clients as _, WaitForLists as _, invite},
    samples::user,
};

pub(super) fn run(server: &TestServer) {
    let admin = server.admin("t1");
    let operator = server.client_of_operator("op-1");

    pass_second(server);
    let made = admin.post("/users", &user("u1"));
    assert_eq!(made.header("location"), Some("/v1/users/u1"));
    assert_eq!(made.clone().expect_data(201)["role"], "member");
    let tag = made.header("etag").expect("a tag").to_owned();
    admin.post("/users", &user("u1")).expect_problem(409, "taken");
    let twin = json!({ "userId": "u2", "email": "u1@example.com", "name": "B" });
    assert_eq!(admin.post("/users", &twin).expect_problem(409, "taken"), ["/email"]);
    let elsewhere = json!({ "userId": "u3", "email": "c@example.com", "name": "C", "tenantId": "t2" });
    assert_eq!(admin.post("/users", &elsewhere).expect_problem(422, "invalid"), ["/tenantId"]);
    let promoted = admin.with_header("if-match", &tag).patch("/users/u1", &json!({ "role": "viewer" }));
    assert_eq!(promoted.expect_data(200)["role"], "viewer");
    admin
        .with_header("if-match", &tag)
        .patch("/users/u1", &json!({ "role": "admin" }))
        .expect_problem(412, "version_conflict");
    assert_eq!(admin.patch("/users/u1", &json!({ "role": "root" })).expect_problem(422, "invalid"), ["/role"]);
    admin.post("/users", &user("u2")).expect_data(201);
    admin.delete("/users/u2").expect_data(204);
    admin.get("/users/u2").expect_problem(404, "not_found");
    assert_eq!(each(&admin.get("/users").list(), "userId"), ["sub-ren", "u1"]);

    // A second tenant with a user who is also in the first one, from when they accept.
    pass_second(server);
    assert_eq!(server.admin("t2").post("/users", &user("u1")).expect_data(201)["status"], "invited");
    assert_eq!(invite(server, "t1", "u1")["status"], "active");
    assert_eq!(each(&server.user_without_tenant("u1").wait_for_list("/me/tenants", 1), "tenantId"), ["t1"]);
    invite(server, "t2", "u1");
    assert_eq!(each(&operator.wait_for_list("/tenants-of-user?userId=u1", 2), "tenantId"), ["t1", "t2"]);
    assert_eq!(each(&server.user_without_tenant("u1").wait_for_list("/me/tenants", 2), "tenantId"), ["t1", "t2"]);
    let all = operator.wait_for_list("/all-users", 5);
    assert_eq!(each(&all, "userId"), ["u1", "u1", "sub-mio", "u8", "sub-ren"], "newest first");
    for path in ["/all-users", "/tenants-of-user?userId=u1", "/all-tenants", "/all-tenants/t1", "/all-agents"] {
        admin.get(path).expect_problem(403, "forbidden");
        server.user_without_tenant("u1").get(path).expect_problem(403, "forbidden");
        operator.without_header("nagaya-reason").get(path).expect_problem(400, "no_reason");
    }

    // A tenant reads and renames itself; operators list all tenants and set their status.
    let tenants = operator.wait_for_list("/all-tenants", 2);
    assert_eq!(each(&tenants, "name"), ["Acme", "Acme Ltd"], "newest first");
    assert_eq!(operator.get("/all-tenants/t1").expect_data(200)["plan"], "standard");
    operator.get("/all-tenants/t10").expect_problem(404, "not_found");
    operator.get("/all-tenants/system").expect_problem(404, "not_found");
    assert_eq!(admin.patch("/tenants", &json!({ "name": "Acme Inc." })).expect_data(200)["name"], "Acme Inc.");
    assert_eq!(admin.patch("/tenants", &json!({ "plan": "enterprise" })).expect_problem(422, "invalid"), ["/plan"]);
    assert_eq!(admin.patch("/tenants", &json!({ "enabled": true })).expect_problem(422, "invalid"), ["/enabled"]);
    admin.delete("/tenants").expect_problem(405, "no_such_method");
    let raised = operator.patch("/all-tenants/t1", &json!({ "plan": "enterprise" }));
    let tag = raised.header("etag").expect("a tag").to_owned();
    assert_eq!(raised.expect_data(200)["plan"], "enterprise");
    let known = operator.with_header("if-match", &tag);
    known.patch("/all-tenants/t1", &json!({ "plan": "free" })).expect_data(200);
    known.patch("/all-tenants/t1", &json!({ "plan": "standard" })).expect_problem(412, "version_conflict");
    assert_eq!(
        operator.patch("/all-tenants/t1", &json!({ "tenantId": "t3" })).expect_problem(422, "invalid"),
        ["/tenantId"]
    );
    operator.patch("/all-tenants/t10", &json!({ "plan": "free" })).expect_problem(404, "not_found");
    // A tenant without an item can create it, and gets the default values.
    let own = json!({ "name": "Beta", "plan": "enterprise" });
    assert_eq!(server.admin("t2").post("/tenants", &own).expect_problem(422, "invalid"), ["/plan"]);
    assert_eq!(server.admin("t2").post("/tenants", &json!({ "name": "Beta" })).expect_data(201)["plan"], "free");

    // Preferences: one item for each user, who comes from the token.
    let (member, other) = (server.user_with("t1", "u1", &["member"]), server.user_with("t1", "u2", &["member"]));
    let preferences = json!({ "preferences": { "categories": ["mail"], "theme": "light" } });
    let forged = json!({ "userId": "u2", "preferences": {} });
    assert_eq!(member.post("/user-preferences", &forged).expect_problem(422, "invalid"), ["/userId"]);
    assert_eq!(member.post("/user-preferences", &preferences).expect_data(201)["userId"], "u1");
    let dark = json!({ "preferences": { "theme": "dark" } });
    let changed = member.patch("/user-preferences/u1", &dark).expect_data(200);
    assert_eq!(changed["preferences"], json!({ "categories": ["mail"], "theme": "dark" }));
    for reader in [&member, &admin] {
        assert_eq!(reader.get("/user-preferences/u1").expect_data(200), changed);
        assert_eq!(reader.get("/preferences-of-user?userId=u1").expect_data(200), changed);
    }
    // Another member does not find them.
    other.get("/user-preferences/u1").expect_problem(404, "not_found");
    other.get("/preferences-of-user?userId=u1").expect_problem(404, "not_found");
    other.patch("/user-preferences/u1", &dark).expect_problem(404, "not_found");
    other.delete("/user-preferences/u1").expect_problem(404, "not_found");
    let nobody = server.user_with("t1", "nobody", &["member"]);
    assert_eq!(nobody.post("/user-preferences", &preferences).expect_problem(409, "no_reference"), ["/userId"]);
}
