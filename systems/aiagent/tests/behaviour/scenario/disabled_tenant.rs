//! A tenant that is disabled.

use serde_json::json;

use nagaya_testing::TestServer;

use crate::harness::{Clients as _, WaitForLists as _};

pub(super) fn run(server: &TestServer) {
    let admin = server.admin("t1");
    let operator = server.operator("op-1");
    admin.get("/users").data(200);

    operator.patch("/all-tenants/t1", &json!({ "enabled": false })).data(200);
    // The tenant is refused at once, but can still read its status.
    admin.get("/users").problem(403, "tenant_disabled");
    admin.post("/agents", &json!({ "name": "a" })).problem(403, "tenant_disabled");
    admin.get("/notices").problem(403, "tenant_disabled");
    admin.get("/permission-policies").problem(403, "tenant_disabled");
    admin.patch("/tenants", &json!({ "name": "Back" })).problem(403, "tenant_disabled");
    admin.delete("/tenants").problem(403, "tenant_disabled");
    assert_eq!(admin.get("/tenants").data(200)["enabled"], false);
    // Other tenants are not affected, and its users keep their other tenants.
    server.admin("t2").get("/users").data(200);
    server.user_without_tenant("sub-ren").wait_for_list("/me/tenants", 1);

    operator.patch("/all-tenants/t1", &json!({ "enabled": true })).data(200);
    admin.get("/users").data(200);
}
