//! A copy of the repository with the mutants in it, and its build.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

use super::{
    guarded::Guarded,
    instrument::{Mutant, instrument, mutants_in},
};
use crate::run::{cargo, root};

/// Builds that may fail because of mutants; after that many the cause is another.
const BUILDS: usize = 40;

/// A copy of the repository, built with its mutants.
pub(crate) struct Tree {
    pub(crate) mutants: Vec<Mutant>,
    /// The executables with tests, and the folders that they run in.
    pub(crate) executables: Vec<Executable>,
    /// How many mutants do not compile.
    pub(crate) unviable: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    pub(crate) folder: PathBuf,
    /// The folders of the packages whose mutants its tests have to notice.
    pub(crate) guards: Vec<&'static str>,
}

/// Where the copy is.
pub(crate) fn folder() -> PathBuf {
    root().join("target/mutants/tree")
}

/// Copies the repository, puts the mutants into the files with guards, and builds the tests. What does not compile is found by
/// building, and left out.
pub(crate) fn build(guarded: &[Guarded]) -> anyhow::Result<Tree> {
    copy(guarded)?;
    // What did not compile in the last run is not tried again.
    let list = root().join("target/mutants/unviable");
    let known = fs::read_to_string(&list).unwrap_or_default();
    let known: BTreeSet<_> = known.lines().collect();
    let all = mutants(guarded)?;
    let is_known = |mutant: &&Mutant| known.contains(&*mutant.name);
    let mut unviable: BTreeSet<usize> = all.iter().filter(is_known).map(|mutant| mutant.id).collect();
    for at in 1..=BUILDS {
        let mutants = put(guarded, &all, &unviable)?;
        eprintln!("== build {at}: {} mutants, {} do not compile", mutants.len(), unviable.len());
        match compile(guarded)? {
            Ok(executables) => {
                let unviable_names =
                    all.iter().filter(|mutant| unviable.contains(&mutant.id)).map(|mutant| &*mutant.name);
                fs::write(list, unviable_names.collect::<Vec<_>>().join("\n"))?;
                return Ok(Tree { mutants, executables, unviable: unviable.len() });
            }
            Err(errors) => unviable.extend(errors),
        }
    }
    bail!("after {BUILDS} builds there are still errors")
}

/// Copies what git knows, but for the files that get mutants. Unchanged files keep their time, so that they are not built again.
fn copy(guarded: &[Guarded]) -> anyhow::Result<()> {
    let instrumented: BTreeSet<_> =
        guarded.iter().flat_map(|package| files(package).chain([library(package)])).collect();
    let mut list = Command::new("git");
    let listed = list.args(["ls-files", "-z"]).current_dir(root()).output().context("git does not start")?;
    ensure!(listed.status.success(), "git lists no files");
    for name in
        String::from_utf8(listed.stdout)?.split('\0').filter(|name| !name.is_empty() && !instrumented.contains(*name))
    {
        let Ok(content) = fs::read(root().join(name)) else { continue };
        write_if_changed(&folder().join(name), &content)?;
    }
    // What tests may need beside the sources.
    let (servers, link) = (root().join("target/servers"), folder().join("target/servers"));
    if servers.exists() && !link.exists() {
        fs::create_dir_all(folder().join("target"))?;
        std::os::unix::fs::symlink(servers, link)?;
    }
    Ok(())
}

fn write_if_changed(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has no folder")?)?;
    fs::write(path, content).with_context(|| format!("{} cannot be written", path.display()))
}

/// All mutants, also those that do not compile.
fn mutants(guarded: &[Guarded]) -> anyhow::Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for file in guarded.iter().flat_map(files) {
        let made = instrument(&file, &read(&file)?, next_id(&mutants), &BTreeSet::new())?.mutants;
        ensure!(!made.is_empty(), "{file} has nothing to change; take it off the list");
        mutants.extend(made);
    }
    Ok(mutants)
}

/// Writes the files with their mutants, and the switch into their crates.
fn put(guarded: &[Guarded], all: &[Mutant], unviable: &BTreeSet<usize>) -> anyhow::Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for package in guarded {
        let library = library(package);
        let switched = format!("#![allow(warnings, clippy::all)]\n{}\n{}", read(&library)?, include_str!("switch.rs"));
        write_if_changed(&folder().join(&library), switched.as_bytes())?;
        for file in files(package) {
            let Some(first) = all.iter().find(|mutant| mutant.file() == file) else { continue };
            let made = instrument(&file, &read(&file)?, first.id, unviable)?;
            write_if_changed(&folder().join(&file), made.text.as_bytes())?;
            mutants.extend(made.mutants);
        }
    }
    Ok(mutants)
}

fn files(package: &Guarded) -> impl Iterator<Item = String> {
    package.modules.iter().map(|module| format!("{}/src/{module}.rs", package.folder))
}

fn library(package: &Guarded) -> String {
    let name = if package.folder == "crates/nagaya-cli" { "main" } else { "lib" };
    format!("{}/src/{name}.rs", package.folder)
}

fn read(file: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(file)).with_context(|| format!("{file} cannot be read"))
}

fn next_id(mutants: &[Mutant]) -> usize {
    mutants.last().map_or(0, |last| last.id + 1)
}

/// Builds the tests; or the mutants that do not compile.
fn compile(guarded: &[Guarded]) -> anyhow::Result<Result<Vec<Executable>, BTreeSet<usize>>> {
    let mut build = cargo(["test", "--no-run", "--workspace", "--all-features", "--message-format", "json", "--quiet"]);
    let tests: BTreeSet<_> = guarded.iter().flat_map(|each| each.tests).collect();
    build.args(tests.iter().filter(|(_, test)| *test != "lib").flat_map(|(_, test)| ["--test", *test]));
    build.args(["--lib", "--bins"]);
    // Optimizing functions with hundreds of switches takes gigabytes.
    for Guarded { folder, .. } in guarded {
        let package = folder.rsplit('/').next().unwrap_or(folder);
        let package = if folder.starts_with("systems/") { format!("nagaya-{package}") } else { package.to_owned() };
        build.args(["--config", &format!("profile.dev.package.{package}.opt-level=0")]);
    }
    build.current_dir(folder()).env("CARGO_TARGET_DIR", root().join("target/mutants/target"));
    build.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1").stderr(Stdio::inherit());
    let output = build.output().context("cargo does not start")?;
    let messages = String::from_utf8(output.stdout)?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let (mut executables, mut errors, mut lines) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for message in messages {
        if let Some(path) = message["executable"].as_str().filter(|_| message["profile"]["test"] == true) {
            let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
            let package = manifest.parent().unwrap_or(manifest);
            let name = package.strip_prefix(folder()).unwrap_or(package).display().to_string();
            let target = message["target"]["name"].as_str().unwrap_or_default();
            let is_library = message["target"]["kind"][0] != "test";
            let is_wanted = |(wanted, test): &(&str, &str)| {
                *wanted == name && if is_library { *test == "lib" } else { *test == target }
            };
            let guards = guarded.iter().filter(|package| package.tests.iter().any(is_wanted));
            let guards: Vec<_> = guards.map(|package| package.folder).collect();
            if !guards.is_empty() {
                executables.push(Executable { path: path.into(), folder: package.to_owned(), guards });
            }
        }
        let message = &message["message"];
        if message["level"] != "error" || message["spans"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let found = mutants_of(message, &mut lines);
        ensure!(
            !found.is_empty(),
            "the build fails apart from the mutants:\n{}",
            message["rendered"].as_str().unwrap_or_default()
        );
        errors.extend(found);
    }
    if output.status.success() {
        return Ok(Ok(executables));
    }
    ensure!(!errors.is_empty(), "the build fails ({})", output.status);
    Ok(Err(errors))
}

/// The mutants where a message of the compiler points to; in the nearest lines before, if there are none in these.
fn mutants_of(message: &Json, files: &mut BTreeMap<PathBuf, Vec<String>>) -> BTreeSet<usize> {
    for primary in [true, false] {
        let spans = message["spans"].as_array().into_iter().flatten();
        for span in spans.filter(|span| span["is_primary"] == primary) {
            let path = folder().join(span["file_name"].as_str().unwrap_or_default());
            let lines = files.entry(path).or_insert_with_key(|path| {
                fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
            });
            let line = |name: &str| span[name].as_u64().and_then(|line| usize::try_from(line).ok()).unwrap_or(1);
            let (start, end) = (line("line_start") - 1, line("line_end").min(lines.len()));
            let here: BTreeSet<_> =
                lines.get(start..end).unwrap_or_default().iter().flat_map(|line| mutants_in(line)).collect();
            if !here.is_empty() {
                return here;
            }
            let before = lines.get(..start).unwrap_or_default().iter().rev().take(12);
            if let Some(near) = before.flat_map(|line| mutants_in(line)).next() {
                return BTreeSet::from([near]);
            }
        }
    }
    BTreeSet::new()
}
