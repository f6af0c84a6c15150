//! A user sees the tenants that they are in, without a trace in the operator log.

use serde_json::{Value as Json, json};

use crate::{
    harness::{Clients as _, in_memory, invite},
    samples::user,
};

#[test]
fn reading_oneself_leaves_no_entry_in_the_operator_log() {
    for design in ["single", "multi"] {
        let server = in_memory(design);
        for tenant in ["t1", "t2"] {
            server.admin(tenant).post("/users", &user("u1")).expect_data(201);
            invite(&server, tenant, "u1");
        }
        server.admin("t2").post("/users", &user("u2")).expect_data(201);
        invite(&server, "t2", "u2");
        let tenants = |user: &str, query: &str| {
            let own = server.user_without_tenant(user).get(&format!("/me/tenants{query}")).list();
            own.iter().map(|user| (user["tenantId"].clone(), user["userId"].clone())).collect::<Vec<_>>()
        };
        assert_eq!(tenants("u1", ""), [(json!("t1"), json!("u1")), (json!("t2"), json!("u1"))], "{design}");
        // Nobody names another user.
        assert_eq!(tenants("u2", "?userId=u1"), [(json!("t2"), json!("u2"))], "{design}");
        assert_eq!(tenants("u3", ""), []);
        let log: Vec<Json> = server.client_of_operator("op-1").get("/operator-log").list();
        let actions: Vec<_> = log.iter().map(|entry| entry["action"].clone()).collect();
        assert_eq!(actions, ["audit.list"], "{design}");
    }
}
