//! Compares the engine with libraries that it could be built on: the same bytes, the same durability, the same machine.
//!
//! Each engine runs in a separate child process, so that caches and memory do not mix. The parent drives all children
//! in short rounds, one engine after another, so that a slow minute of the machine affects all of them alike.

mod child;
mod cli;
mod engines;
mod measure;
mod queue;
mod report;
mod settings;
mod workload;

use clap::Parser as _;

fn main() -> anyhow::Result<()> {
    match cli::Cli::parse().task {
        cli::Task::Run(args) => cli::run(&args),
        cli::Task::Child { engine, directory, settings } => child::run(engine, &directory, settings),
    }
}
