//! Installation of missing tools, where that is possible without asking.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};

/// Whether this process runs as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

/// Installs Debian packages, where that is possible without asking.
pub fn apt(what: &str, packages: &[&str]) -> anyhow::Result<()> {
    let line = format!("apt-get install -y {}", packages.join(" "));
    ensure!(is_root(), "{what} is missing; install it: `{line}` as root");
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "--no-install-recommends"]).args(packages).env("DEBIAN_FRONTEND", "noninteractive");
    step(install).with_context(|| format!("{what} is missing; install it: `apt-get update && {line}`"))
}

/// Runs a command; its output is shown only if it fails.
pub fn step(mut command: Command) -> anyhow::Result<()> {
    eprintln!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
