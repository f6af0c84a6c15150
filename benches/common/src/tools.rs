//! Installing what is missing, where that can be done without asking.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};

/// Whether this process may do everything.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

/// Installs packages of Debian, where that is possible without asking.
pub fn apt(what: &str, packages: &[&str]) -> anyhow::Result<()> {
    let line = format!("apt-get install -y {}", packages.join(" "));
    ensure!(is_root(), "{what} is missing; install it: `{line}` as root");
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "--no-install-recommends"]).args(packages).env("DEBIAN_FRONTEND", "noninteractive");
    step(install).with_context(|| format!("{what} is missing; install it: `apt-get update && {line}`"))
}

/// Runs a command whose output is only told when it fails.
pub fn step(mut command: Command) -> anyhow::Result<()> {
    eprintln!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
