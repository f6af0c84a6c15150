//! A handle keeps its tenant.

use nagaya_tenancy::{Principal, Tenant};

fn change(tenant: &Tenant, principal: &Principal) {
    tenant.principal().tenant = principal.tenant.clone();
}

fn main() {}
