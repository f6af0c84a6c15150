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
    /// Start the servers that engines are tried on, and tell where they are
    Servers(servers::Args),
    /// Hold the API of every system against its OpenAPI document
    Schemathesis(schemathesis::Args),
    /// List every requirement with the tests that prove it, and those without one
    Mission(mission::Args),
    /// Feed the checker with generated files until it panics or time is up
    Fuzz(fuzz::Args),
    /// Break the guards one by one, to see that the tests notice
    #[command(subcommand)]
    Mutate(mutate::Task),
    /// Try the embedded engine against simulated faults and kills, for long
    Soak(soak::Args),
    /// Measure the hot paths of keys, or an engine
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
