//! Roles, and the policy that restricts them in a tenant.

use serde_json::json;

use nagaya_testing::TestServer;

use crate::harness::{Clients as _, WaitForLists as _};

pub(super) fn run(server: &TestServer) {
    let admin = server.admin("t1");
    let member = server.user_with("t1", "u1", &["member"]);
    let viewer = server.user_with("t1", "u8", &["viewer"]);
    let task = |title: &str| json!({ "userId": "u1", "title": title });

    // The permissions of the design.
    server.user_with("t1", "u7", &[]).get("/tasks").expect_problem(403, "forbidden");
    server.user_with("t1", "u7", &["stranger"]).get("/tasks").expect_problem(403, "forbidden");
    viewer.get("/tasks").expect_data(200);
    viewer.post("/tasks", &task("a")).expect_problem(403, "forbidden");
    member.post("/users", &json!({})).expect_problem(403, "forbidden");
    member.get("/audits").expect_problem(403, "forbidden");

    // A stricter policy is enforced by the next request, and records who changed it.
    member.get("/tasks").expect_data(200);
    let narrow = json!({ "roles": { "member": ["task.read", "agent.*"] } });
    let policy = admin.patch("/permission-policies", &narrow).expect_data(200);
    assert_eq!(policy["updatedBy"], "admin-1");
    member.get("/tasks").expect_data(200);
    member.get("/tasks/k1").expect_data(200);
    member.wait_for_list("/tasks-by-status?status=open", 2);
    member.post("/tasks", &task("a")).expect_problem(403, "forbidden");
    member.patch("/tasks/k1", &json!({ "title": "a" })).expect_problem(403, "forbidden");
    member.delete("/tasks/k1").expect_problem(403, "forbidden");
    member.get("/notices").expect_problem(403, "forbidden");
    member.post("/agents", &json!({ "agentId": "a3", "name": "a3" })).expect_data(201);
    // Other roles and other tenants are unchanged. Permissions of several roles add up.
    viewer.get("/notices").expect_data(200);
    server.user_with("t2", "u1", &["member"]).get("/notices").expect_data(200);
    let both = server.user_with("t1", "u1", &["member", "viewer"]);
    both.get("/notices").expect_data(200);
    // A policy cannot grant more than the design.
    admin.patch("/permission-policies", &json!({ "roles": { "viewer": ["*"] } })).expect_data(200);
    viewer.post("/tasks", &task("a")).expect_problem(403, "forbidden");
    viewer.get("/notices").expect_data(200);
    // Operator routes stay with the operators.
    admin.get("/all-users").expect_problem(403, "forbidden");

    // A policy cannot take away access to the policy itself.
    admin.patch("/permission-policies", &json!({ "roles": { "admin": [] } })).expect_data(200);
    admin.get("/tasks").expect_problem(403, "forbidden");
    admin.get("/permission-policies").expect_data(200);
    admin.patch("/permission-policies", &json!({ "roles": { "admin": ["*"] } })).expect_data(200);
    admin.get("/tasks").expect_data(200);

    // Policies with invalid permissions are refused.
    let wrong = json!({ "roles": {
        "member": ["task.list", "tusk.read", "task.read", 7],
        "viewer": "task.read",
        "operator": ["*"],
        "chief": ["*"],
    } });
    let pointers =
        ["/roles/chief", "/roles/member/0", "/roles/member/1", "/roles/member/3", "/roles/operator", "/roles/viewer"];
    assert_eq!(admin.patch("/permission-policies", &wrong).expect_problem(422, "invalid"), pointers);
    assert_eq!(admin.post("/permission-policies", &wrong).expect_problem(422, "invalid"), pointers);
    assert_eq!(
        admin.patch("/permission-policies", &json!({ "roles": "all" })).expect_problem(422, "invalid"),
        ["/roles"]
    );
    member.patch("/permission-policies", &json!({ "roles": {} })).expect_problem(403, "forbidden");

    // After the policy is deleted, the design alone decides.
    admin.patch("/permission-policies", &json!({ "roles": { "member": null, "viewer": null } })).expect_data(200);
    member.get("/notices").expect_data(200);
    admin.delete("/permission-policies").expect_data(204);
    member.post("/tasks", &task("a")).expect_data(201);
    admin.get("/permission-policies").expect_problem(404, "not_found");
    admin.post("/permission-policies", &json!({ "roles": { "member": ["*.read"] } })).expect_data(201);
    member.post("/tasks", &task("a")).expect_problem(403, "forbidden");
    // A role that the policy does not list keeps its own permissions.
    both.post("/tasks", &task("a")).expect_problem(403, "forbidden");
    admin.patch("/permission-policies", &json!({ "roles": { "member": null } })).expect_data(200);
}
