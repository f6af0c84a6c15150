//! The checks: everything that can be known to be wrong with a design before it runs.

mod aggregates;
mod collisions;
mod conditions;
mod engines;
mod keys;
mod limits;
mod promises;
mod routes;
mod schema;
mod walls;

pub(crate) use limits::worst_case;

use crate::{
    Engine,
    design::Design,
    diagnostic::{Diagnostic, Severity},
    language::Languages,
};

/// Runs every check; those for one engine only when it is asked for.
pub(crate) fn check(design: &Design, source: &str, engines: &[Engine], problems: &mut Vec<Diagnostic>) {
    let mut languages = Languages::default();
    walls::check(design, source, problems);
    keys::check(design, problems);
    conditions::check(design, source, problems);
    collisions::check(design, &mut languages, problems);
    promises::check(design, problems);
    schema::check(design, problems);
    limits::check(design, problems);
    routes::check(design, problems);
    aggregates::check(design, problems);
    for engine in engines {
        engines::check(design, *engine, problems);
    }
}

/// Marks the warnings that a comment of the design explains: `# NG0304: a handful of tenants a day`.
///
/// The comment stands at the end of the line, or directly above it, or above the header of its section.
pub(crate) fn mark_explained(source: &str, problems: &mut [Diagnostic]) {
    let mut starts = vec![0];
    starts.extend(source.match_indices('\n').map(|(at, _)| at + 1));
    let lines: Vec<&str> = source.lines().collect();
    for problem in problems.iter_mut().filter(|problem| problem.severity() == Severity::Warning) {
        let line = starts.partition_point(|start| *start <= problem.span().start).saturating_sub(1);
        let header = (0..line).rev().find(|at| lines.get(*at).is_some_and(|line| line.trim_start().starts_with('[')));
        let own = lines.get(line).and_then(|line| reason(line, problem.code.id));
        problem.explained = own
            .or_else(|| above(&lines, line, problem.code.id))
            .or_else(|| header.and_then(|header| above(&lines, header, problem.code.id)))
            .map(str::to_owned);
    }
}

fn above<'s>(lines: &[&'s str], line: usize, code: &str) -> Option<&'s str> {
    let comments = lines.get(..line)?.iter().rev().take_while(|line| line.trim_start().starts_with('#'));
    comments.into_iter().find_map(|line| reason(line, code))
}

/// What a line's comment says about a code.
fn reason<'s>(line: &'s str, code: &str) -> Option<&'s str> {
    let (_, after) = line.split_once(&format!("# {code}:"))?;
    Some(after.trim()).filter(|reason| !reason.is_empty())
}
