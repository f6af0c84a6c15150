//! Ids, logs, metrics and probes, over real connections.

#[path = "../limits/client.rs"]
#[expect(dead_code, reason = "other test programs use the rest")]
mod client;
#[path = "../limits/clock.rs"]
mod clock;
mod failures;
#[path = "../limits/faults.rs"]
mod faults;
#[path = "../limits/harness.rs"]
#[expect(dead_code, reason = "other test programs use the rest")]
mod harness;
mod health;
mod ids;
mod logs;
mod masking;
mod metrics;
