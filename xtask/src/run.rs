//! Running commands in the repository.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, bail};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// `cargo` with these arguments, in the root of the repository.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // Tools that a task installed have precedence over those of the machine.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools().join("bin")).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(paths) {
        command.env("PATH", path);
    }
    command
}

/// The folder into which tasks install tools.
pub(crate) fn tools() -> PathBuf {
    root().join("target/tools")
}

/// Runs a command under a title; an error if the command fails.
pub(crate) fn step(title: &str, mut command: Command) -> anyhow::Result<()> {
    eprintln!("== {title}");
    let start = Instant::now();
    let status = command.status().with_context(|| format!("{title}: {:?} does not start", command.get_program()))?;
    if !status.success() {
        bail!("{title} failed ({status})");
    }
    eprintln!("== {title}: fine after {:.0?}", start.elapsed());
    Ok(())
}

/// Installs a cargo subcommand from the registry if it is missing.
pub(crate) fn ensure(subcommand: &str, package: &str) -> anyhow::Result<()> {
    let there = cargo([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let tools = tools();
    // Without optimization: building the tool takes longer than it works.
    let mut install = cargo(["install", "--locked", "--debug", package]);
    install.arg("--root").arg(&tools).arg("--target-dir").arg(tools.join("build"));
    step(&format!("install {package}"), install)
}
