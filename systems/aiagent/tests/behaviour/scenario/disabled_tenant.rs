//! A tenant that is disabled.

use serde_json::json;

use nagaya_testing::TestServer;

use crate::harness::{Clients as _, WaitForLists as _};

pub(super) fn run(server: &TestServer) {
    let admin = server.admin("t1");
    let operator = server.client_of_operator("op-1");
    admin.get("/users").expect_data(200);

    operator.patch("/all-tenants/t1", &json!({ "enabled": false })).expect_data(200);
    // The tenant is refused at once, but can still read its status.
    admin.get("/users").expect_problem(403, "tenant_disabled");
    admin.post("/agents", &json!({ "name": "a" })).expect_problem(403, "tenant_disabled");
    admin.get("/notices").expect_problem(403, "tenant_disabled");
    admin.get("/permission-policies").expect_problem(403, "tenant_disabled");
    admin.patch("/tenants", &json!({ "name": "Back" })).expect_problem(403, "tenant_disabled");
    assert_eq!(admin.get("/tenants").expect_data(200)["enabled"], false);
    // Other tenants are not affected, and its users keep their other tenants.
    server.admin("t2").get("/users").expect_data(200);
    server.user_without_tenant("sub-ren").wait_for_list("/me/tenants", 1);

    operator.patch("/all-tenants/t1", &json!({ "enabled": true })).expect_data(200);
    admin.get("/users").expect_data(200);

    // Operators close a tenant for good, and state a reason. Nobody of the tenant does.
    let closing = "/all-tenants/t1";
    admin.with_header("nagaya-reason", "we leave the platform").delete(closing).expect_problem(403, "forbidden");
    operator.without_header("nagaya-reason").delete(closing).expect_problem(400, "no_reason");
    operator.delete("/all-tenants/t10").expect_problem(404, "not_found");
    operator.with_header("if-match", "\"v1\"").delete(closing).expect_problem(412, "version_conflict");
    operator.delete(closing).expect_data(204);
    admin.get("/users").expect_problem(403, "tenant_disabled");
    let closed = operator.get(closing).expect_data(200);
    assert_eq!((&closed["enabled"], closed["deletedAt"].is_string()), (&json!(false), true), "{closed}");
    operator.delete(closing).expect_data(204);
    assert_eq!(operator.get(closing).expect_data(200)["deletedAt"], closed["deletedAt"]);
    operator.patch(closing, &json!({ "enabled": true })).expect_problem(409, "tenant_deleted");
    // Its id is not given to another customer.
    let application = json!({ "tenantName": "New", "applicantName": "New", "applicantEmail": "new@example.com" });
    let made = server.user_without_tenant("sub-new").post("/tenant-applications", &application).expect_data(201);
    let path = format!("/tenant-applications/{}/approve", made["applicationId"].as_str().expect("an id"));
    operator.post(&path, &json!({ "tenantId": "t1" })).expect_problem(409, "taken");
}
