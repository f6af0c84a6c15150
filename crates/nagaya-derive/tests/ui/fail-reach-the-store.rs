//! A handle does not give out the store, nor the way to it.

use nagaya_tenancy::{Nagaya, Tenant};

fn reach(nagaya: &Nagaya, tenant: &Tenant) {
    let _ = nagaya.state.store;
    let _ = nagaya.store();
    let _ = tenant.0.state;
    let _ = tenant.store();
}

fn main() {}
