//! The release binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};

/// Where the release binary is.
#[derive(Debug, clap::Args)]
pub struct ReleaseArgs {
    /// The release binary
    #[arg(long, default_value = "target/bench/release/nagaya")]
    nagaya: PathBuf,
}

impl ReleaseArgs {
    /// The path of the binary, which `cargo xtask bench` has built for a benchmark.
    pub fn binary(&self, bench: &str) -> anyhow::Result<PathBuf> {
        fs::canonicalize(&self.nagaya)
            .with_context(|| format!("{} is not there; `cargo xtask bench {bench}` builds it", self.nagaya.display()))
    }
}

/// A token of a tenant's user.
pub fn token(binary: &Path, system: &Path, tenant: &str, data: &Path) -> anyhow::Result<String> {
    let mut token = Command::new(binary);
    token.arg("token").arg("--system").arg(system).args(["--tenant", tenant, "--data"]).arg(data);
    let output = token.output().context("`nagaya token` does not start")?;
    ensure!(output.status.success(), "there is no token: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
