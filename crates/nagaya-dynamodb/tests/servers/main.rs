//! The engine on real servers. One program, because linking the SDK takes longer than most of its tests.
//!
//! `cargo xtask test` starts the servers. Without the feature `servers`, plain `cargo test` needs none.

mod attack;
mod capacity;
mod contract;
mod differential;
mod expiry;
mod faults;
mod operator_log;
mod test_server;
