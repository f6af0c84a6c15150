//! What the product does, over HTTP, on both of its designs and on each engine.
//!
//! The feature `servers` adds the runs on DynamoDB Local; `cargo xtask test` starts it.

mod documents;
#[cfg(feature = "servers")]
mod dynamodb;
mod engines;
mod harness;
mod keys;
mod permissions;
mod review;
mod samples;
mod several;
mod story;
mod transcript;
mod walls;
