//! The API beside what else a team could have put there: the same calls, the same load, the same machine.
//!
//! Each server runs in a process of its own and is idle while another one is measured. All are driven in short rounds,
//! one server after another, so that a slow minute of the machine hits all of them alike.

mod cli;
mod client;
mod measure;
mod report;
mod servers;
mod start;
mod task;
mod tools;
mod wrk;

use bench_common::{machine, process};
use clap::Parser as _;

fn main() -> anyhow::Result<()> {
    match cli::Cli::parse().task {
        cli::Task::Run(args) => cli::run(&args),
        cli::Task::Axum { listen, answer } => servers::axum::serve(listen, &answer),
    }
}
