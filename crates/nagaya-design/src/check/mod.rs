//! The checks of a design, one module for each kind.

mod aggregates;
mod archive;
mod audit;
mod callers;
mod collisions;
mod conditions;
mod constraints;
mod engines;
mod keys;
mod limits;
mod routes;
mod schema;
mod shared_partitions;
mod system_fields;
mod walls;

pub(crate) use limits::{MAX_ITEM, worst_case};

use crate::{Engine, codes, design::Design, diagnostic::Diagnostic, language::Languages};

/// Runs every check, and those of the given engines.
pub(crate) fn check(design: &Design, source: &str, engines: &[Engine], diagnostics: &mut Vec<Diagnostic>) {
    let mut languages = Languages::default();
    walls::check(design, source, &mut languages, diagnostics);
    keys::check(design, diagnostics);
    conditions::check(design, source, diagnostics);
    shared_partitions::check(design, diagnostics);
    collisions::check(design, &mut languages, diagnostics);
    constraints::check(design, diagnostics);
    system_fields::check(design, diagnostics);
    schema::check(design, diagnostics);
    limits::check(design, &mut languages, diagnostics);
    routes::check(design, diagnostics);
    aggregates::check(design, diagnostics);
    audit::check(design, diagnostics);
    archive::check(design, diagnostics);
    callers::check(design, diagnostics);
    for engine in engines {
        engines::check(design, *engine, &mut languages, diagnostics);
    }
    if languages.is_exhausted() {
        too_complex(design, &languages, diagnostics);
    }
}

/// Reports the templates whose comparison has exceeded the budget. What the comparisons after it say is not reliable.
fn too_complex(design: &Design, languages: &Languages, diagnostics: &mut Vec<Diagnostic>) {
    let first = design.entities.first().map_or(0..0, |entity| entity.key.sort.span.clone());
    let (left, right) = languages.last_compared.clone().unwrap_or((first.clone(), first));
    diagnostics.retain(|each| each.code != &codes::KEY_TOO_LONG);
    let report =
        codes::TOO_COMPLEX.report(diagnostics, &left, "the checker cannot compare the keys of this design in time");
    if left != right {
        report.also(&right, "compared with this");
    }
    report.help("use simpler patterns in the fields of these keys, or start the templates with different constants");
}
