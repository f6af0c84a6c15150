//! The designs of the systems, and the errors that the checker reports for a design.

use std::{fs, path::PathBuf};

use nagaya_design::{Design, Severity, check};

/// The text of a file under `systems/`.
pub(crate) fn source(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../systems").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The design in a file under `systems/`.
pub(crate) fn design(path: &str) -> Design {
    accepted(&source(path))
}

/// The design in a source without errors.
pub(crate) fn accepted(source: &str) -> Design {
    check(source, &[]).design.unwrap_or_else(|| panic!("the design is rejected: {:#?}", errors(source)))
}

/// The codes of the errors in a design, each with the line that it points at.
pub(crate) fn errors(source: &str) -> Vec<(&'static str, String)> {
    let checked = check(source, &[]);
    let errors = checked.diagnostics.iter().filter(|diagnostic| diagnostic.severity() == Severity::Error);
    let errors: Vec<_> = errors
        .map(|error| {
            let start = source[..error.span().start].rfind('\n').map_or(0, |newline| newline + 1);
            (error.code.id, source[start..].lines().next().unwrap_or_default().to_owned())
        })
        .collect();
    assert_eq!(checked.design.is_none(), !errors.is_empty(), "a design with errors is no design: {errors:?}");
    errors
}
