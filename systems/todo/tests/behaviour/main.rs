//! What the product does, over HTTP, on each engine.
//!
//! The feature `servers` adds the runs on DynamoDB Local; `cargo xtask test` starts it.

mod agreement;
mod conflicts;
#[cfg(feature = "servers")]
mod dynamodb;
mod harness;
mod history;
mod items;
mod listening;
mod lists;
mod notes;
mod once;
mod routes;
mod syncing;
mod walls;
