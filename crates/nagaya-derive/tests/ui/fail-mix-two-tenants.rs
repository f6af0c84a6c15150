//! Changes of two tenants do not go into one set, and a handle does not change its tenant.

use nagaya_tenancy::{Principal, Tenant};

fn mix(one: &Tenant, other: &Tenant, principal: &Principal) {
    let _ = one.change_set().and(other.change_set());
    let _ = one.change_set().create(other, "user", serde_json::Map::new());
    let _ = one.tenant(principal);
}

fn main() {}
