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
    admin.delete("/tenants").expect_problem(403, "tenant_disabled");
    assert_eq!(admin.get("/tenants").expect_data(200)["enabled"], false);
    // Other tenants are not affected, and its users keep their other tenants.
    server.admin("t2").get("/users").expect_data(200);
    server.user_without_tenant("sub-ren").wait_for_list("/me/tenants", 1);

    operator.patch("/all-tenants/t1", &json!({ "enabled": true })).expect_data(200);
    admin.get("/users").expect_data(200);
}
