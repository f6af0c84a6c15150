//! The walls, tested through the handles that application code gets.

// Derived code refers to the facade crate by name.
extern crate nagaya_tenancy as nagaya;

mod attack;
mod audit;
mod common;
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
mod stores;
mod studio;
mod subscription;
mod time;
mod typed;
