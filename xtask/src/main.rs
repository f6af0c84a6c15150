//! Tasks for contributors: `cargo xtask test`, `docs`, `servers`, `schemathesis`, `mission`, `fuzz`, `mutate`, `soak`
//! and `bench`.

mod bench;
mod docs;
mod fuzz;
mod mission;
mod mutate;
mod run;
mod schemathesis;
mod servers;
mod soak;
mod test;

use clap::{Parser, Subcommand};

/// Tasks for contributors
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install missing tools, then check format, documentation, lints and licences, and run all tests
    Test,
    /// Check links, code map and walks of the documentation
    Docs,
    /// Start the servers that engines are tested on, and print their addresses
    Servers(servers::Args),
    /// Test the API of every system against its OpenAPI document
    Schemathesis(schemathesis::Args),
    /// List every requirement with the tests that prove it, and those without one
    Mission(mission::Args),
    /// Run the checker on generated files until it panics or the time is up
    Fuzz(fuzz::Args),
    /// Mutate the guards one by one, to verify that the tests notice
    #[command(subcommand)]
    Mutate(mutate::Task),
    /// Run the long fault simulation and kill tests of the embedded engine
    Soak(soak::Args),
    /// Run a benchmark
    #[command(subcommand)]
    Bench(bench::Task),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Test => test::run(),
        Task::Docs => docs::run(),
        Task::Servers(args) => servers::run(&args),
        Task::Schemathesis(args) => schemathesis::run(&args),
        Task::Mission(args) => mission::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Mutate(task) => mutate::run(&task),
        Task::Soak(args) => soak::run(&args),
        Task::Bench(task) => bench::run(&task),
    }
}
