//! Event sourcing on the embedded engine: appends compared with the bare engine and with `cqrs-es`, the lag of the projection,
//! the speed of a rebuild, and the API under load.

mod api;
mod appends;
mod cli;
mod client;
mod cqrs;
mod lag;
mod many;
mod rebuild;
mod replay;
mod report;
mod times;
mod todo_app;
mod unknown;

use clap::Parser as _;

/// As in the release binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    match cli::Cli::parse().task {
        cli::Task::Run(args) => cli::run(&args),
        cli::Task::Rebuild { directory, rounds } => rebuild::child(&directory, rounds),
    }
}
