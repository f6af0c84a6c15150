//! The walls, tried through the handles that application code gets.

// Derived code names the facade.
extern crate nagaya_tenancy as nagaya;

#[cfg(feature = "attack")]
mod attack;
mod audit;
mod common;
mod crash;
mod drafts;
mod guards;
mod indexes;
mod items;
mod lists;
mod notes;
mod once;
mod recovery;
mod references;
mod secrets;
mod since;
mod soft_delete;
mod spy;
mod studio;
mod subscription;
mod time;
mod typed;
