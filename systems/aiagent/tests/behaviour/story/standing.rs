//! A tenant that is disabled.

use serde_json::json;

use crate::house::House;

pub(super) fn tell(house: &House) {
    let admin = house.admin("t1");
    let operator = house.operator("op-1");
    admin.get("/users").data(200);

    operator.patch("/all-tenants/t1", &json!({ "enabled": false })).data(200);
    // It is shut out at once, and still sees why.
    admin.get("/users").problem(403, "tenant_disabled");
    admin.post("/agents", &json!({ "name": "a" })).problem(403, "tenant_disabled");
    admin.get("/notices").problem(403, "tenant_disabled");
    admin.get("/permission-policies").problem(403, "tenant_disabled");
    admin.patch("/tenants", &json!({ "name": "Back" })).problem(403, "tenant_disabled");
    admin.delete("/tenants").problem(403, "tenant_disabled");
    assert_eq!(admin.get("/tenants").data(200)["enabled"], false);
    // Nobody else is, and its people are still people.
    house.admin("t2").get("/users").data(200);
    house.stranger("sub-ren").lists("/me/tenants", 1);

    operator.patch("/all-tenants/t1", &json!({ "enabled": true })).data(200);
    admin.get("/users").data(200);
}
