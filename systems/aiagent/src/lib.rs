//! The AI agent platform: the extension of its designs.
//!
//! The designs give tenants, users, agents, runs, mails, tasks and the rest their routes. The extension adds: applications of
//! users without a tenant, reviewed by operators; invitations that people accept; a permission policy per tenant that narrows
//! what its roles may do; disabled tenants; and fields that only the system sets.

mod applications;
mod extension;
mod invitations;
mod mails;
mod policy;
mod tenant_status;
mod tenants;

use std::sync::Arc;

use nagaya_design::Design;
use nagaya_server::System;
use nagaya_store::Clock;
use nagaya_tenancy::IdGenerator;

use self::extension::{AiagentExtension, AppState};

/// The text of the design with all data in one table.
pub const SINGLE_DESIGN: &str = include_str!("../design/single.toml");
/// The text of the design with a table for each kind of data.
pub const MULTI_DESIGN: &str = include_str!("../design/multi.toml");

/// The system on one of its designs: all data in one table, or a table for each kind.
pub fn system(name: &'static str, design: Design) -> System {
    system_with(name, design, Clock::system(), IdGenerator::random())
}

/// The same with a clock and ids of the caller's own, for tests.
pub fn system_with(name: &'static str, design: Design, clock: Clock, ids: IdGenerator) -> System {
    let state = AppState::new(design.clone(), clock, ids);
    System::new(name, design, AiagentExtension(Arc::new(state)))
}
