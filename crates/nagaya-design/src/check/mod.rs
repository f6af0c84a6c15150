//! The checks of a design, one module for each kind.

mod aggregates;
mod audit;
mod collisions;
mod conditions;
mod constraints;
mod engines;
mod keys;
mod limits;
mod routes;
mod schema;
mod system_fields;
mod walls;

pub(crate) use limits::{MAX_ITEM, worst_case};

use crate::{Engine, design::Design, diagnostic::Diagnostic, language::Languages};

/// Runs every check, and those of the given engines.
pub(crate) fn check(design: &Design, source: &str, engines: &[Engine], diagnostics: &mut Vec<Diagnostic>) {
    let mut languages = Languages::default();
    walls::check(design, source, &mut languages, diagnostics);
    keys::check(design, diagnostics);
    conditions::check(design, source, diagnostics);
    collisions::check(design, &mut languages, diagnostics);
    constraints::check(design, diagnostics);
    system_fields::check(design, diagnostics);
    schema::check(design, diagnostics);
    limits::check(design, &mut languages, diagnostics);
    routes::check(design, diagnostics);
    aggregates::check(design, diagnostics);
    audit::check(design, diagnostics);
    for engine in engines {
        engines::check(design, *engine, &mut languages, diagnostics);
    }
}
