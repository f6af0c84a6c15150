//! Compares the API with alternatives: the same calls, the same load, the same machine.
//!
//! Each server runs in a separate process and is idle while another one is measured. All are measured in short rounds,
//! one server after another, so that a slow minute of the machine affects all of them alike.

mod cli;
mod client;
mod measure;
mod overload;
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
        cli::Task::Overload(args) => overload::run(&args),
        cli::Task::Axum { listen, answer } => servers::axum::serve(listen, &answer),
    }
}
