//! Keys are made from the design: callers cannot pass one.

use nagaya_store::{Key, Query};
use nagaya_tenancy::Tenant;

async fn forge(tenant: &Tenant) {
    let _ = tenant.get("user", Key::new("TENANT#t2", "USER#u1")).await;
    let _ = tenant.list(&Query::table("aiagent-app", "TENANT#t2")).await;
}

fn main() {}
