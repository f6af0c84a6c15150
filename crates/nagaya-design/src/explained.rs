//! Warnings that a comment in the design explains.

use crate::{
    Engine, codes,
    diagnostic::{Diagnostic, Severity},
};

/// Marks the warnings that a comment in the design explains: `# NG0304: a handful of tenants a day`. A comment without
/// such a warning is reported.
///
/// The comment is at the end of the line, directly above it, or above the header of its section.
pub(crate) fn mark_explained(source: &str, engines: &[Engine], diagnostics: &mut Vec<Diagnostic>) {
    let mut starts = vec![0];
    starts.extend(source.match_indices('\n').map(|(at, _)| at + 1));
    let lines: Vec<&str> = source.lines().collect();
    let mut used = Vec::new();
    for diagnostic in diagnostics.iter_mut().filter(|diagnostic| diagnostic.severity() == Severity::Warning) {
        let line = starts.partition_point(|start| *start <= diagnostic.span().start).saturating_sub(1);
        let header = (0..line).rev().find(|at| lines[*at].trim_start().starts_with('['));
        let comments = [Some(line), Some(line).and_then(|line| above(&lines, line, diagnostic.code.id))];
        let header = header.and_then(|header| above(&lines, header, diagnostic.code.id));
        let found = comments.into_iter().flatten().chain(header).find_map(|at| {
            let (code, reason) = explanation(lines.get(at)?)?;
            (code == diagnostic.code.id).then_some((at, reason))
        });
        if let Some((at, reason)) = found {
            used.push(at);
            diagnostic.explained = Some(reason.to_owned());
        }
    }
    let failed = diagnostics.iter().any(|diagnostic| diagnostic.severity() == Severity::Error);
    for (at, line) in lines.iter().enumerate() {
        let Some((code, _)) = explanation(line) else { continue };
        // Warnings of an engine occur only when it is checked, and errors may hide other warnings.
        let expected = !failed && (!code.starts_with("NG09") || engines.len() == Engine::ALL.len());
        if expected && !used.contains(&at) {
            let start = starts[at] + comment(line).map_or(0, |comment| line.len() - comment.len() - 1);
            codes::STALE_EXPLANATION
                .report(diagnostics, &(start..starts[at] + line.len()), format!("{code} does not occur here"))
                .help("remove the comment, or put it directly above the line that the warning points at");
        }
    }
}

/// The line with the explanation of a code among the comment lines directly above a line.
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

/// The text after the `#` of a line, if the `#` is not inside a string.
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
