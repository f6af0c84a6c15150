//! The checks: everything that can be known to be wrong with a design before it runs.

mod aggregates;
mod audit;
mod collisions;
mod conditions;
mod engines;
mod given;
mod keys;
mod limits;
mod promises;
mod routes;
mod schema;
mod walls;

pub(crate) use limits::{MAX_ITEM, worst_case};

use crate::{
    Engine, codes,
    design::Design,
    diagnostic::{Diagnostic, Severity},
    language::Languages,
};

/// Runs every check; those for one engine only when it is asked for.
pub(crate) fn check(design: &Design, source: &str, engines: &[Engine], problems: &mut Vec<Diagnostic>) {
    let mut languages = Languages::default();
    walls::check(design, source, &mut languages, problems);
    keys::check(design, problems);
    conditions::check(design, source, problems);
    collisions::check(design, &mut languages, problems);
    promises::check(design, problems);
    given::check(design, problems);
    schema::check(design, problems);
    limits::check(design, &mut languages, problems);
    routes::check(design, problems);
    aggregates::check(design, problems);
    audit::check(design, problems);
    for engine in engines {
        engines::check(design, *engine, &mut languages, problems);
    }
}

/// Marks the warnings that a comment of the design explains: `# NG0304: a handful of tenants a day`. A comment that
/// explains nothing is a warning of its own.
///
/// The comment stands at the end of the line, or directly above it, or above the header of its section.
pub(crate) fn mark_explained(source: &str, engines: &[Engine], problems: &mut Vec<Diagnostic>) {
    let mut starts = vec![0];
    starts.extend(source.match_indices('\n').map(|(at, _)| at + 1));
    let lines: Vec<&str> = source.lines().collect();
    let mut used = Vec::new();
    for problem in problems.iter_mut().filter(|problem| problem.severity() == Severity::Warning) {
        let line = starts.partition_point(|start| *start <= problem.span().start).saturating_sub(1);
        let header = (0..line).rev().find(|at| lines[*at].trim_start().starts_with('['));
        let comments = [Some(line), Some(line).and_then(|line| above(&lines, line, problem.code.id))];
        let header = header.and_then(|header| above(&lines, header, problem.code.id));
        let found = comments.into_iter().flatten().chain(header).find_map(|at| {
            let (code, reason) = explanation(lines.get(at)?)?;
            (code == problem.code.id).then_some((at, reason))
        });
        if let Some((at, reason)) = found {
            used.push(at);
            problem.explained = Some(reason.to_owned());
        }
    }
    let failed = problems.iter().any(|problem| problem.severity() == Severity::Error);
    for (at, line) in lines.iter().enumerate() {
        let Some((code, _)) = explanation(line) else { continue };
        // Warnings of one engine come only with that engine, and others may come once the errors are gone.
        let expected = !failed && (!code.starts_with("NG09") || engines.len() == Engine::ALL.len());
        if expected && !used.contains(&at) {
            let start = starts[at] + comment(line).map_or(0, |comment| line.len() - comment.len() - 1);
            problems.push(
                Diagnostic::new(
                    &codes::STALE_EXPLANATION,
                    start..starts[at] + line.len(),
                    format!("there is no {code} here to explain"),
                )
                .help("leave the comment out, or put it directly above the line that the warning points at"),
            );
        }
    }
}

/// The line above, among those that are comments, that explains a code.
fn above(lines: &[&str], line: usize, code: &str) -> Option<usize> {
    let comments = (0..line).rev().take_while(|at| lines[*at].trim_start().starts_with('#'));
    comments.into_iter().find(|at| explanation(lines[*at]).is_some_and(|(found, _)| found == code))
}

/// The code and the reason of a line's comment.
fn explanation(line: &str) -> Option<(&str, &str)> {
    let (code, reason) = comment(line)?.trim_start().split_once(':')?;
    let is_code = code.len() == 6 && code.starts_with("NG") && code[2..].bytes().all(|digit| digit.is_ascii_digit());
    (is_code && !reason.trim().is_empty()).then(|| (code, reason.trim()))
}

/// What follows the `#` of a line, outside of texts.
fn comment(line: &str) -> Option<&str> {
    let mut quote = None;
    let mut escaped = false;
    for (at, each) in line.char_indices() {
        match quote {
            None if each == '#' => return Some(&line[at + 1..]),
            None if matches!(each, '"' | '\'') => quote = Some(each),
            Some('"') if escaped => escaped = false,
            Some('"') if each == '\\' => escaped = true,
            Some(open) if each == open => quote = None,
            _ => {}
        }
    }
    None
}
