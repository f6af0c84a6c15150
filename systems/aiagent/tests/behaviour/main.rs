//! The behaviour of the product over HTTP, on both of its designs and on each engine.
//!
//! The feature `servers` adds the runs on DynamoDB Local; `cargo xtask test` starts it.

mod application_review;
mod archive;
mod attack;
mod concurrent_servers;
#[cfg(feature = "servers")]
mod dynamodb;
mod engines;
mod harness;
mod invitations;
mod openapi;
mod own_tenants;
mod permissions;
mod samples;
mod scenario;
mod stored_keys;
mod traces;
mod transcript;
mod walls;
