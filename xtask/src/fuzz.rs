//! `cargo xtask fuzz`: generated files against the checker.

use crate::run::{cargo, ensure, root, step};

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long to look for a panic
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure("fuzz", "cargo-fuzz")?;
    let seconds = format!("-max_total_time={}", args.seconds);
    let mut command = cargo(["fuzz", "run", "--sanitizer", "none", "check", "--", &seconds, "-max_len=8192"]);
    // Coverage instrumentation needs a compiler flag that only nightly accepts otherwise.
    command.current_dir(root().join("fuzz")).env("RUSTC_BOOTSTRAP", "1");
    step("fuzz", command)
}
