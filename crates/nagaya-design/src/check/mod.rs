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
mod paging;
mod routes;
mod schema;
mod shared_partitions;
mod system_fields;
mod walls;

pub(crate) use limits::{MAX_ITEM, worst_case};

use crate::{Engine, codes, design::Design, diagnostic::Diagnostic, language::Languages};

/// Runs every check, and those of the given engines.
pub(crate) fn check(design: &Design, source: &str, engines: &[Engine], diagnostics: &mut Vec<Diagnostic>) {
    check_with(&mut Languages::default(), design, source, engines, diagnostics);
}

fn check_with(
    languages: &mut Languages,
    design: &Design,
    source: &str,
    engines: &[Engine],
    diagnostics: &mut Vec<Diagnostic>,
) {
    walls::check(design, source, languages, diagnostics);
    keys::check(design, diagnostics);
    conditions::check(design, source, diagnostics);
    paging::check(design, diagnostics);
    shared_partitions::check(design, diagnostics);
    collisions::check(design, languages, diagnostics);
    constraints::check(design, diagnostics);
    system_fields::check(design, diagnostics);
    schema::check(design, diagnostics);
    limits::check(design, languages, diagnostics);
    routes::check(design, diagnostics);
    aggregates::check(design, diagnostics);
    audit::check(design, diagnostics);
    archive::check(design, diagnostics);
    callers::check(design, diagnostics);
    for engine in engines {
        engines::check(design, *engine, languages, diagnostics);
    }
    if languages.is_exhausted() {
        too_complex(design, languages, diagnostics);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnostic::Severity, read, resolve};

    const PATTERNS: &str = include_str!("../../tests/bad/NG0305-patterns-whose-automata-multiply.toml");

    /// What checking a design costs, and the errors.
    fn cost_and_errors(source: &str) -> (usize, Vec<&'static str>) {
        let (mut languages, mut diagnostics) = (Languages::default(), Vec::new());
        let root = read::read(source, &mut diagnostics);
        let design = resolve::lower(&root, source, &mut diagnostics).expect("a design");
        check_with(&mut languages, &design, source, &[], &mut diagnostics);
        let errors = diagnostics.iter().filter(|each| each.severity() == Severity::Error);
        (languages.cost(), errors.map(|each| each.code.id).collect())
    }

    /// The two patterns, which look so many characters back, at other letters: a comparison visits all pairs of their states.
    fn patterns_that_look_back(characters: usize) -> String {
        assert!(PATTERNS.contains("{10}"), "the patterns have changed");
        PATTERNS.replace("{10}", &format!("{{{characters}}}"))
    }

    #[test]
    fn a_design_within_the_budget_of_comparisons_is_accepted() {
        let (cost, errors) = cost_and_errors(&patterns_that_look_back(7));
        assert_eq!(errors, [""; 0]);
        assert!((4_usize.pow(8)..100_000).contains(&cost), "{cost}: every pair of states counts");
    }

    /// The limits are written here once more, so that whoever raises them sees what they allow.
    #[test]
    fn the_comparisons_of_a_design_end_at_the_budget() {
        for characters in [8, 9, 10] {
            let (cost, errors) = cost_and_errors(&patterns_that_look_back(characters));
            assert_eq!(errors, ["NG0305"], "{characters}");
            assert!(cost <= 100_001, "{characters}: {cost}");
        }
    }
}
