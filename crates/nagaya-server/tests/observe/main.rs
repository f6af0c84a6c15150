//! Ids, logs, metrics and probes, over real connections.

#[path = "../limits/desk.rs"]
mod desk;
mod failures;
mod health;
mod logs;
mod masking;
mod metrics;
mod request_ids;
