//! `cargo xtask mutate`: breaks the guards one by one, to see that the tests notice.

use crate::run::{cargo, ensure, step};

/// What is mutated.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    /// The modules that keep tenants apart, against the tests of the walls
    Walls(Args),
}

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose name matches this
    #[arg(long)]
    only: Option<String>,
    /// How many are tried at once
    #[arg(long, default_value_t = 2)]
    jobs: u32,
}

/// The modules that hold the guards.
const GUARDS: [&str; 5] = ["guard", "cursor", "unique", "draft", "list"];

/// Mutants that change nothing that anybody could see, each with the reason.
const EQUIVALENT: [(&str, &str); 0] = [];

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    let Task::Walls(args) = task;
    ensure("nextest", "cargo-nextest")?;
    ensure("mutants", "cargo-mutants")?;
    let jobs = args.jobs.to_string();
    // The exit code is not 0 when a mutant survives.
    let mut command = cargo(["mutants", "--package", "nagaya-tenancy", "--features", "attack", "--jobs", &jobs]);
    command.args(["--test-tool", "nextest", "--minimum-test-timeout", "120", "--output", "target/mutants"]);
    for guard in GUARDS {
        command.arg("--file").arg(format!("crates/nagaya-tenancy/src/{guard}.rs"));
    }
    for (name, _) in EQUIVALENT {
        command.args(["--exclude-re", name]);
    }
    if let Some(only) = &args.only {
        command.args(["--re", only]);
    }
    command.args(["--", "--test", "walls"]);
    step("mutants of the walls", command)
}
