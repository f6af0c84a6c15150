//! Designs and systems by name: reading them, and refusing to go on with one that is wrong.

use std::{
    collections::BTreeMap,
    fs,
    io::{ErrorKind, Read as _},
    path::Path,
};

use anyhow::{Context as _, bail};
use nagaya_design::{CheckResult, Design, Engine, Severity, check};
use nagaya_server::System;

use super::report;
use crate::systems::{self, Resources};

/// A design file and its text.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

/// Reads a design: from a file, from the standard input (`-`), or that of a built-in system. A file wins over a built-in
/// system of the same name.
pub(super) fn read(path: &Path) -> anyhow::Result<Source> {
    let name = path.display().to_string();
    if name == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("the standard input cannot be read as text")?;
        return Ok(Source { name: "stdin".to_owned(), text });
    }
    if path.is_dir() {
        bail!("{name} is a directory; name the design file in it, such as {}", path.join("design.toml").display());
    }
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => match systems::design_text(&name) {
            Some(text) => return Ok(Source { name, text: text.to_owned() }),
            None => return Err(error).with_context(|| format!("{name} cannot be read{}", suggestion(path))),
        },
        Err(error) => return Err(error).with_context(|| format!("{name} cannot be read")),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name, text }),
        Err(error) => bail!("{name} is not UTF-8: invalid byte at offset {}", error.utf8_error().valid_up_to()),
    }
}

/// Asks about the file that was probably meant.
fn suggestion(path: &Path) -> String {
    let file = path.with_added_extension("toml");
    if file.is_file() { format!("; did you mean {}?", file.display()) } else { String::new() }
}

/// Reads a design that has no errors; `None` after showing those that it has.
pub(super) fn design(path: &Path, engines: &[Engine]) -> anyhow::Result<Option<Design>> {
    let source = read(path)?;
    let CheckResult { design, diagnostics } = check(&source.text, engines);
    if design.is_none() {
        let errors: Vec<_> = diagnostics.iter().filter(|each| each.severity() == Severity::Error).collect();
        report::show(&source, &errors)?;
        if errors.is_empty() {
            eprintln!("{} is not a design", source.name);
        }
    }
    Ok(design)
}

/// A built-in system, or the one that a design file describes; `None` after showing what is wrong with the design.
pub(super) fn system(name: &str, engine: Engine, resources: &Resources) -> anyhow::Result<Option<System>> {
    if let Some(system) = systems::find(name, resources)? {
        return Ok(Some(system));
    }
    let path = Path::new(name);
    if path.extension().is_none() && !path.exists() {
        match suggestion(path) {
            none if none.is_empty() => {
                bail!("there is no system `{name}`; built in are {}, or name a design file", systems::known_names())
            }
            suggestion => bail!("there is no system `{name}`{suggestion}"),
        }
    }
    Ok(design(path, &[engine])?.map(System::plain))
}

/// Names of systems and design files, where a directory stands for all design files in it.
pub(super) fn names(given: &[String]) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for name in given {
        match Path::new(name).is_dir() && systems::design_text(name).is_none() {
            true => names.extend(files(Path::new(name))?),
            false => names.push(name.clone()),
        }
    }
    Ok(names)
}

/// Systems with the name or file that each was given by. A directory stands for all design files in it. `None` after showing
/// what is wrong with a design.
pub(super) fn systems(
    given: &[String],
    engine: Engine,
    resources: &Resources,
) -> anyhow::Result<Option<Vec<(String, System)>>> {
    let names = names(given)?;
    let mut found = Vec::with_capacity(names.len());
    let mut seen = BTreeMap::new();
    for name in names {
        let Some(system) = system(&name, engine, resources)? else { return Ok(None) };
        if let Some(other) = seen.insert(system.name.clone(), name.clone()) {
            bail!(
                "{other} and {name} both have the name `{}`, which one server cannot tell apart; change one of them",
                system.name
            );
        }
        found.push((name, system));
    }
    Ok(Some(found))
}

/// The design files in a directory, in the order of their names.
fn files(directory: &Path) -> anyhow::Result<Vec<String>> {
    let unreadable = || format!("{} cannot be read", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.is_file() && path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path.display().to_string());
        }
    }
    if files.is_empty() {
        bail!("{} has no design file (*.toml)", directory.display());
    }
    files.sort();
    Ok(files)
}
