//! Design files: reading them, and refusing to go on with one that is wrong.

use std::{fs, io::Read as _, path::Path};

use anyhow::{Context as _, bail};
use nagaya_design::{Checked, Design, Engine, Severity, check};
use nagaya_server::System;
use nagaya_todo::Notes;

use super::report;
use crate::systems;

/// A design file and its text.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

/// Reads a design file; `-` is the standard input.
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
    let bytes = fs::read(path).with_context(|| format!("{name} cannot be read"))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name, text }),
        Err(error) => bail!("{name} is not UTF-8: the byte at {} is not", error.utf8_error().valid_up_to()),
    }
}

/// Reads a design that has no errors; `None` after showing those that it has.
pub(super) fn design(path: &Path, engines: &[Engine]) -> anyhow::Result<Option<Design>> {
    let source = read(path)?;
    let Checked { design, diagnostics } = check(&source.text, engines);
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
pub(super) fn system(name: &str, engine: Engine, notes: &Notes) -> anyhow::Result<Option<System>> {
    if let Some(system) = systems::find(name, notes)? {
        return Ok(Some(system));
    }
    let path = Path::new(name);
    if path.extension().is_none() && !path.exists() {
        let known: Vec<_> = systems::names().collect();
        bail!("there is no system `{name}`; there is {}, or name the file of a design", known.join(", "));
    }
    Ok(design(path, &[engine])?.map(System::plain))
}
