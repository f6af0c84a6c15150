//! A type has to fit its entity: every difference is an error at its place.

extern crate nagaya_tenancy as nagaya;

use nagaya::Entity;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Entity)]
#[serde(rename_all = "camelCase")]
#[entity(design = "../../../nagaya-tenancy/tests/walls/desk.toml", name = "ticket")]
struct Ticket {
    ticket_id: Option<String>,
    titel: String,
    priority: String,
    note: String,
    token: String,
}

#[derive(Serialize, Deserialize, Entity)]
#[entity(design = "../../../nagaya-tenancy/tests/walls/desk.toml", name = "tickets")]
struct Unknown {}

#[derive(Serialize, Deserialize, Entity)]
#[entity(design = "missing.toml", name = "ticket")]
struct Nowhere {}

#[derive(Serialize, Deserialize, Entity)]
struct Unbound {}

fn main() {}
