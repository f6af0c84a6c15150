//! The walls, tested through the handles that application code gets.

// Derived code refers to the facade crate by name.
extern crate nagaya_tenancy as nagaya;

mod addresses;
mod archive;
mod attack;
mod audit;
mod audit_keys;
mod callers;
mod common;
mod deletion_races;
mod deletion_steps;
mod drafts;
mod expected;
mod fault_stores;
mod guards;
mod idempotency;
mod indexes;
mod items;
mod lists;
mod log_chain;
mod log_forged_head;

mod log_retention;
mod log_writes;
mod nested_secrets;
mod order;
mod own_items;
mod own_lists;
mod recovery;
mod references;
mod secrets;
mod side_records;
mod since;
mod soft_delete;
mod studio;
mod subscription;
mod time;
mod typed;
mod typed_ids;
