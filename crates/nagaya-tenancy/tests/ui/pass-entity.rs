//! A type that fits its entity.

extern crate nagaya_tenancy as nagaya;

use nagaya::{Entity, Tenant};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Entity)]
#[serde(rename_all = "camelCase")]
#[entity(design = "desk.toml", name = "ticket")]
struct Ticket {
    ticket_id: Option<String>,
    title: String,
    priority: i64,
    note: Option<String>,
    token: Option<String>,
    version: Option<i64>,
}

async fn use_it(tenant: &Tenant) -> Result<Ticket, nagaya::Error> {
    tenant.items_of::<Ticket>()?.get(&["01"]).await
}

fn main() {
    assert_eq!(<Ticket as Entity>::NAME, "ticket");
    let _ = use_it;
}
