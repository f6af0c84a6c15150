//! `cargo xtask mutate`: mutates the guards one by one, to verify that the tests notice.

use std::{fs, process::Command};

use anyhow::{Context as _, bail};

use crate::run::{cargo, ensure, root, step};

/// What is mutated.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Task {
    /// The modules that separate tenants and users, and those that check tokens and roles
    Walls(Args),
}

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only mutants whose name matches this
    #[arg(long)]
    only: Option<String>,
    /// A part of the mutants, such as `0/8`
    #[arg(long)]
    shard: Option<String>,
    /// Mutants that are tested concurrently
    #[arg(long, default_value_t = 1)]
    jobs: u32,
}

/// The guards of a package, and the tests that have to notice.
struct Guarded {
    package: &'static str,
    /// The modules that hold guards.
    modules: &'static [&'static str],
    /// Fast tests, which run on all mutants.
    quick: &'static [&'static str],
    /// Slow tests, which run on the mutants that the fast ones miss.
    thorough: &'static [&'static str],
}

const GUARDED: [Guarded; 2] = [
    Guarded {
        package: "nagaya-tenancy",
        modules: &[
            "compiled",
            "log_names",
            "read/cursor",
            "read/get",
            "read/guard",
            "read/list",
            "read/referrers",
            "scope",
            "session",
            "write/draft/checks",
            "write/draft/fields",
            "write/draft/mod",
            "write/idempotency",
            "write/plan",
            "write/unique",
        ],
        quick: &["--test", "walls", "--", "--skip", "attack::", "--skip", "concurrent"],
        thorough: &["--test", "walls"],
    },
    Guarded {
        package: "nagaya-server",
        modules: &[
            "identity/cache",
            "identity/claims",
            "identity/keys",
            "identity/mod",
            "identity/revocation/mod",
            "identity/token",
            "identity/verifier",
            "roles",
            "service",
            "stream_guard",
        ],
        quick: &["--lib", "--test", "identity"],
        thorough: &["--lib", "--test", "identity", "--test", "api", "--test", "limits", "--test", "observe"],
    },
];

/// Mutants without an observable effect, each with the reason.
const EQUIVALENT: [(&str, &str); 0] = [];

pub(crate) fn run(task: &Task) -> anyhow::Result<()> {
    let Task::Walls(args) = task;
    ensure("mutants", "cargo-mutants")?;
    fs::create_dir_all(root().join("target/mutants")).context("target/mutants cannot be created")?;
    for guarded in &GUARDED {
        let mut quick = mutants(args, guarded);
        quick.arg("--").args(guarded.quick);
        // Exit codes 2 and 3: some mutants survived or timed out, and are left to the thorough tests.
        let status = quick.status().context("cargo-mutants does not start")?;
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            bail!("cargo-mutants failed ({status})");
        }
        if status.success() {
            continue;
        }
        let mut thorough = mutants(args, guarded);
        thorough.args(["--iterate", "--"]).args(guarded.thorough);
        step(&format!("mutants of {} that the quick tests did not catch", guarded.package), thorough)?;
    }
    Ok(())
}

fn mutants(args: &Args, guarded: &Guarded) -> Command {
    let Guarded { package, modules, .. } = guarded;
    let jobs = args.jobs.to_string();
    let mut command = cargo(["mutants", "--package", package, "--jobs", &jobs, "--minimum-test-timeout", "120"]);
    command.arg("--output").arg(format!("target/mutants/{package}"));
    // Debug information is not needed, and slows down the build; a mutant changes one function.
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
    for module in *modules {
        command.arg("--file").arg(format!("crates/{package}/src/{module}.rs"));
    }
    for (name, _) in EQUIVALENT {
        command.args(["--exclude-re", name]);
    }
    if let Some(only) = &args.only {
        command.args(["--re", only]);
    }
    if let Some(shard) = &args.shard {
        command.args(["--shard", shard]);
    }
    command
}
