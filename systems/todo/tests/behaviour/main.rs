//! The behaviour of the product over HTTP, on each engine.
//!
//! The feature `servers` adds the runs on DynamoDB Local; `cargo xtask test` starts it.

mod attack;
mod conflicts;
#[cfg(feature = "servers")]
mod dynamodb;
mod event_stream;
mod harness;
mod history;
mod idempotency;
mod lists;
mod note_objects;
mod notes;
mod read_your_writes;
mod routes;
mod state_properties;
mod stored_items;
mod walls;
