//! `cargo xtask bench`: the hot paths of keys, and the engine beside the libraries it could stand on.

use clap::Subcommand;

use crate::run::{cargo, root, step};

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Measure the hot paths of keys
    Keys,
    /// Measure the embedded engine beside bare fjall, redb and SQLite
    Engine(Engine),
}

/// Arguments of the engine's benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Engine {
    /// Items in the directory, a multiple of 20000; several sizes with commas
    #[arg(long, default_value = "200000")]
    items: String,
    /// Seconds of each measurement
    #[arg(long, default_value = "5")]
    seconds: String,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Write the report to docs/benchmarks.md too
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    match task {
        Task::Keys => step("keys", cargo(["bench", "--package", "nagaya-design"])),
        Task::Engine(args) => engine(args),
    }
}

fn engine(args: &Engine) -> anyhow::Result<()> {
    // A workspace of its own, so that nothing else builds SQLite and redb.
    let mut command = cargo(["run", "--release", "--locked", "--quiet"]);
    command.args(["--manifest-path", "benches/engine/Cargo.toml", "--target-dir", "target/bench", "--", "run"]);
    command.args(["--items", &args.items, "--seconds", &args.seconds]).arg("--scratch").arg(root().join("target"));
    if args.json {
        command.arg("--json");
    }
    if args.write {
        command.arg("--page").arg(root().join("docs/benchmarks.md"));
    }
    step("engine", command)
}
