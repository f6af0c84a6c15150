//! The behaviour of the product over HTTP, on each engine.
//!
//! The feature `servers` adds the runs on DynamoDB Local; `cargo xtask test` starts it.

mod archive;
mod attack;
mod catalog;
mod catalog_lists;
mod cooked;
mod copies;
mod derived_routes;
#[cfg(feature = "servers")]
mod dynamodb;
mod fridge;
mod from_plan;
mod harness;
mod notifications;
mod paid_content;
mod payments;
mod plans;
mod push;
mod replacing;
mod saved_counts;
mod saved_order;
mod search;
mod shares;
mod shopped;
mod shopping;
mod slots;
mod stored_keys;
mod walls;
