//! Simulated disk faults by seed: power losses, full disks, failed or fake syncs, changed bytes.
//!
//! A separate process works on a simulated disk (`symbols`, `disk`) with faults (`faults`), and logs the results. Then
//! the directory is opened without faults and compared with that log (`model`, `verdict`). A seed always gives the same
//! workload and the same faults; a failure prints the command that repeats it.
//!
//! The stores of odd seeds are encrypted, and change their key.
//!
//! `NAGAYA_SIM_SEEDS` is the number of seeds of all tests together, and `NAGAYA_SIM_FIRST` the first seed of each test.
//! `NAGAYA_SIM_SEED` runs a single seed.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod client;
mod disk;
mod faults;
mod log;
mod model;
mod random;
mod run;
#[expect(unsafe_code, reason = "the simulated disk replaces functions of the C library")]
mod symbols;
mod verdict;
mod workload;

use run::{Family, expect_failures, seeds};

/// Proves the engine's part of N9.
#[test]
fn acknowledged_writes_survive_a_power_loss() {
    seeds(Family::PowerLoss);
}

#[test]
fn io_errors_lose_no_acknowledged_write() {
    seeds(Family::Errors);
}

#[test]
fn a_lying_disk_is_detected() {
    seeds(Family::LyingDisk);
}

#[test]
fn a_store_recovers_by_itself_when_its_faults_are_gone() {
    seeds(Family::Healing);
}

/// Checks the oracle itself.
#[test]
fn the_oracle_finds_writes_that_were_never_synced() {
    expect_failures(Family::Broken);
}

/// Not a test: the process that the tests start.
#[test]
fn the_simulated_process() {
    run::child();
}
