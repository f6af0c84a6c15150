//! Event sourcing on the embedded engine: appends beside the engine itself and beside `cqrs-es`, how far the list is behind,
//! how fast it is built anew, and the API under load.

mod api;
mod appends;
mod callers;
mod cli;
mod client;
mod cqrs;
mod house;
mod lag;
mod many;
mod rebuild;
mod replay;
mod report;

use clap::Parser as _;

/// As in the released binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    match cli::Cli::parse().task {
        cli::Task::Run(args) => cli::run(&args),
        cli::Task::Rebuild { directory, rounds } => rebuild::child(&directory, rounds),
    }
}
