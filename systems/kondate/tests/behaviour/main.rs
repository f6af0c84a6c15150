//! What the product does, over HTTP, on each engine.
//!
//! The feature `servers` adds the runs on DynamoDB Local; `cargo xtask test` starts it.

mod archive;
mod catalog;
mod counts;
#[cfg(feature = "servers")]
mod dynamodb;
mod fridge;
mod harness;
mod keys;
mod notifications;
mod payments;
mod plain;
mod plans;
mod push;
mod search;
mod shares;
mod shopping;
mod walls;
