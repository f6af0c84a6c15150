//! The engine on real servers. One program, because linking the SDK takes longer than most of its tests.
//!
//! `cargo xtask test` starts the servers; the feature `servers` lets plain `cargo test` do without.

mod attack;
mod capacity;
mod contract;
mod differential;
mod expiry;
mod faults;
mod place;
