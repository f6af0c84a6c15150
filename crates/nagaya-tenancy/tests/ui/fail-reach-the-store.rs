//! A handle does not give out the store, nor the way to it.

use nagaya_tenancy::{Nagaya, Tenant};

fn reach(nagaya: &Nagaya, tenant: &Tenant) {
    let _ = nagaya.house.store;
    let _ = nagaya.store();
    let _ = tenant.0.house;
    let _ = tenant.store();
}

fn main() {}
