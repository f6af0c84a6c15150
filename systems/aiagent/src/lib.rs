//! The AI agent platform: what its designs do not express.
//!
//! The designs give tenants, users, agents, runs, mails, tasks and the rest their routes. This crate adds the rest:
//! users without a tenant submit applications and operators review them, a tenant's permission policy narrows what its
//! roles may do, a disabled tenant has no access, and some fields cannot be set by callers.

mod applications;
mod body;
mod document;
mod extension;
mod policy;
mod status;
mod tenants;

use std::sync::Arc;

use nagaya_design::Design;
use nagaya_server::System;
use nagaya_store::Clock;
use nagaya_tenancy::Ids;

use self::extension::{AiagentExtension, Product};

/// The text of the design with all data in one table.
pub const SINGLE: &str = include_str!("../design/single.toml");
/// The text of the design with a table for each kind of data.
pub const MULTI: &str = include_str!("../design/multi.toml");

/// The system on one of its designs: all data in one table, or a table for each kind.
pub fn system(name: &'static str, design: Design) -> System {
    system_with(name, design, Clock::system(), Ids::random())
}

/// The same with a given clock and ids, for tests.
pub fn system_with(name: &'static str, design: Design, clock: Clock, ids: Ids) -> System {
    let product = Product::new(design.clone(), clock, ids);
    System::new(name, design, AiagentExtension(Arc::new(product)))
}
