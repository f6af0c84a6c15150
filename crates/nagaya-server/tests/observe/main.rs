//! What a server tells about itself and about its requests: ids, logs, metrics, probes; over real connections.

#[path = "../limits/desk.rs"]
mod desk;
mod failures;
mod health;
mod ids;
mod logs;
mod masking;
mod metrics;
