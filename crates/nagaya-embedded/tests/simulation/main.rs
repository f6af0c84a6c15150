//! Faults below the engine, by seed: the power goes, disks are full, syncs fail or lie, bytes rot.
//!
//! A process of its own works on a simulated disk (`symbols`, `disk`) while faults strike (`faults`), and logs what it is
//! told. Then the directory is opened without faults and held against that log (`model`, `verdict`). A seed gives the
//! same workload and the same faults again; the line that a failure prints repeats it.
//!
//! `NAGAYA_SIM_SEEDS` is the number of seeds of all tests together and `NAGAYA_SIM_FIRST` the first of each test;
//! `NAGAYA_SIM_SEED` is one seed.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod client;
mod disk;
mod faults;
mod log;
mod model;
mod random;
mod run;
#[expect(unsafe_code, reason = "the simulated disk stands where the C library stands")]
mod symbols;
mod verdict;
mod workload;

use run::{Family, notices, seeds};

/// Proves the engine's part of N9.
#[test]
fn what_was_acknowledged_survives_the_loss_of_power() {
    seeds(Family::PowerLoss);
}

#[test]
fn errors_of_the_system_lose_nothing_that_was_acknowledged() {
    seeds(Family::Errors);
}

#[test]
fn a_disk_that_lies_is_found_out() {
    seeds(Family::Lies);
}

#[test]
fn a_store_takes_writes_again_by_itself_once_its_faults_have_gone() {
    seeds(Family::Healing);
}

/// A test of the tests.
#[test]
fn the_oracle_finds_writes_that_were_never_synced() {
    notices(Family::Broken);
}

/// Not a test of its own: what the others start.
#[test]
fn the_simulated_process() {
    run::child();
}
