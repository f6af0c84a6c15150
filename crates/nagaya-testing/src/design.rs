//! Designs for tests.

use std::path::Path;

use nagaya_design::{Design, check};

/// The design in a source text.
///
/// # Panics
///
/// With the diagnostics, when the checker refuses it.
#[track_caller]
pub fn parse_design(source: &str) -> Design {
    let checked = check(source, &[]);
    let messages: Vec<_> = checked.diagnostics.iter().map(|each| each.message.clone()).collect();
    checked.design.unwrap_or_else(|| panic!("{messages:?}"))
}

/// A design of the repository's systems, such as `aiagent/single`.
#[track_caller]
pub fn system_design(name: &str) -> Design {
    let (system, file) = name.split_once('/').expect("system/design");
    let systems = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems"));
    let path = systems.join(format!("{system}/design/{file}.toml"));
    let source = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_design(&source)
}
