//! The AI agent platform: what its designs do not say by themselves.
//!
//! The designs give tenants, users, agents, runs, mails, tasks and the rest their routes. Here is what is particular:
//! applications are submitted by people without a tenant and reviewed by operators, a tenant's permission policy narrows
//! what its roles may do, a disabled tenant is shut out, and some fields are nobody's to set.

mod applications;
mod body;
mod document;
mod policy;
mod product;
mod standing;
mod tenants;

use std::sync::Arc;

use nagaya_design::Design;
use nagaya_server::System;
use nagaya_store::Clock;
use nagaya_tenancy::Ids;

use self::product::{Product, Seam};

/// The text of the design with all data in one table.
pub const SINGLE: &str = include_str!("../design/single.toml");
/// The text of the design with a table for each kind of data.
pub const MULTI: &str = include_str!("../design/multi.toml");

/// The system on one of its designs: all data in one table, or a table for each kind.
pub fn system(name: &'static str, design: Design) -> System {
    system_with(name, design, Clock::system(), Ids::random())
}

/// The same with a clock and ids of the caller's own, for tests.
pub fn system_with(name: &'static str, design: Design, clock: Clock, ids: Ids) -> System {
    let product = Product::new(design.clone(), clock, ids);
    System::new(name, design, Seam(Arc::new(product)))
}
