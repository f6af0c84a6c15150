//! Diagnostics for people and for programs.

use std::io::{IsTerminal as _, Write as _};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use nagaya_design::{Diagnostic, Severity, Span, line_and_column};
use serde_json::{Value, json};

use super::source::Source;

/// Writes diagnostics to stderr, each with its lines of the file.
pub(super) fn show(source: &Source, diagnostics: &[&Diagnostic]) -> anyhow::Result<()> {
    let mut out = std::io::stderr().lock();
    for diagnostic in diagnostics {
        out.write_all(render(source, diagnostic, colours()).as_bytes())?;
    }
    Ok(())
}

/// Whether stderr is a terminal with colours.
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn render(source: &Source, diagnostic: &Diagnostic, colours: bool) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let annotations = diagnostic.labels.iter().enumerate().map(|(at, label)| {
        let kind = if at == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        let text = (!label.text.is_empty()).then_some(label.text.as_str());
        kind.span(label.span.clone()).label(text)
    });
    let snippet = Snippet::source(source.text.as_str()).path(source.name.as_str()).annotations(annotations);
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.id);
    let help = diagnostic.help.as_deref().map(|help| Level::HELP.message(help));
    let report = [title.element(snippet).elements(help)];
    let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(160).render(&report) + "\n\n"
}

/// A diagnostic as JSON.
pub(super) fn json(source: &Source, diagnostic: &Diagnostic) -> Value {
    let location = |span: &Span| {
        let (line, column) = line_and_column(&source.text, span.start);
        let (end_line, end_column) = line_and_column(&source.text, span.end);
        json!({ "line": line, "column": column, "endLine": end_line, "endColumn": end_column })
    };
    let labels: Vec<_> = diagnostic
        .labels
        .iter()
        .map(|label| json!({ "location": location(&label.span), "text": label.text }))
        .collect();
    json!({
        "code": diagnostic.code.id,
        "severity": diagnostic.severity().to_string(),
        "title": diagnostic.code.title,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "explanation": diagnostic.explained,
        "location": location(&diagnostic.span()),
        "labels": labels,
        "page": format!("docs/reference/errors/{}.md", diagnostic.code.id),
    })
}
