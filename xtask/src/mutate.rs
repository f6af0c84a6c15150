//! `cargo xtask mutate`: mutates the guards one by one, to verify that the tests notice.

use std::process::Command;

use anyhow::{Context as _, bail};

use crate::run::{cargo, ensure, step};

/// What is mutated.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    /// The modules that separate tenants, with the tests of the walls
    Walls(Args),
}

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose name matches this
    #[arg(long)]
    only: Option<String>,
    /// Mutants that are tested concurrently
    #[arg(long, default_value_t = 1)]
    jobs: u32,
}

/// The modules that hold the guards.
const GUARDS: [&str; 8] = [
    "scope",
    "read/guard",
    "read/cursor",
    "read/list",
    "write/unique",
    "write/plan",
    "write/draft/fields",
    "write/draft/checks",
];

/// Mutants without an observable effect, each with the reason.
const EQUIVALENT: [(&str, &str); 0] = [];

/// Fast tests; the attack suite runs only on the mutants that they miss.
const QUICK: [&str; 10] = [
    "audit::",
    "drafts::",
    "guards::",
    "indexes::",
    "items::",
    "lists::",
    "secrets::",
    "soft_delete::",
    "time::an_expiry",
    "typed::",
];

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    let Task::Walls(args) = task;
    ensure("nextest", "cargo-nextest")?;
    ensure("mutants", "cargo-mutants")?;
    let mut quick = mutants(args);
    quick.args(["--", "--test", "walls"]).args(QUICK);
    // Exit codes 2 and 3: some mutants survived or timed out, and are left to the attack suite.
    let status = quick.status().context("cargo-mutants does not start")?;
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        bail!("cargo-mutants failed ({status})");
    }
    let mut thorough = mutants(args);
    thorough.args(["--iterate", "--", "--test", "walls", "attack::"]);
    step("mutants of the walls that the quick tests did not catch", thorough)
}

fn mutants(args: &Args) -> Command {
    let jobs = args.jobs.to_string();
    let mut command = cargo(["mutants", "--package", "nagaya-tenancy", "--jobs", &jobs]);
    command.args(["--test-tool", "nextest", "--minimum-test-timeout", "120", "--output", "target/mutants"]);
    // Debug information is not needed, and slows down the build.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    for guard in GUARDS {
        command.arg("--file").arg(format!("crates/nagaya-tenancy/src/{guard}.rs"));
    }
    for (name, _) in EQUIVALENT {
        command.args(["--exclude-re", name]);
    }
    if let Some(only) = &args.only {
        command.args(["--re", only]);
    }
    command
}
