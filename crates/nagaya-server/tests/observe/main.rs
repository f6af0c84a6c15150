//! What a server tells about itself and about its requests: ids, logs, metrics, probes; over real connections.

#[path = "../limits/client.rs"]
#[expect(dead_code, reason = "other test programs use the rest")]
mod client;
#[path = "../limits/clock.rs"]
mod clock;
mod failures;
#[path = "../limits/faults.rs"]
mod faults;
mod health;
#[path = "../limits/house.rs"]
#[expect(dead_code, reason = "other test programs use the rest")]
mod house;
mod ids;
mod logs;
mod masking;
mod metrics;
