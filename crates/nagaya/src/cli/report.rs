//! Diagnostics for people and for programs.

use std::io::{IsTerminal as _, Write as _};

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, MietteError, MietteSpanContents, Report,
    SourceCode, SourceSpan, SpanContents,
};
use nagaya_design::{Diagnostic, Severity, Span, line_and_column};
use serde_json::{Value, json};

use super::source::Source;

/// Writes diagnostics to stderr, each with the piece of the file that it is about.
pub(super) fn show(source: &Source, diagnostics: &[&Diagnostic]) -> anyhow::Result<()> {
    let mut out = std::io::stderr().lock();
    for diagnostic in diagnostics {
        out.write_all(rendered(source, diagnostic, colours()).as_bytes())?;
    }
    Ok(())
}

/// Whether stderr takes colours: a terminal that is not told otherwise.
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn rendered(source: &Source, diagnostic: &Diagnostic, colours: bool) -> String {
    let labels = diagnostic.labels.iter().enumerate().map(|(at, label)| {
        let text = (!label.text.is_empty()).then(|| label.text.clone());
        let span = label.span.clone();
        if at == 0 { LabeledSpan::new_primary_with_span(text, span) } else { LabeledSpan::new_with_span(text, span) }
    });
    let mut report = MietteDiagnostic::new(diagnostic.message.clone())
        .with_code(format!("{} {}", diagnostic.severity(), diagnostic.code.id))
        .with_severity(match diagnostic.severity() {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
        .with_labels(labels);
    if let Some(help) = &diagnostic.help {
        report = report.with_help(help);
    }
    let theme = if colours { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(110).with_links(false);
    let report = Report::new(report).with_source_code(Text { name: source.name.clone(), text: source.text.clone() });
    let mut text = String::new();
    // Rendering into a string does not fail; should it ever, the message itself must not be lost.
    if handler.render_report(&mut text, report.as_ref()).is_err() {
        text = format!("{} {}: {}", diagnostic.severity(), diagnostic.code.id, diagnostic.message);
    }
    text.push('\n');
    text
}

/// The text of a file, whose columns are counted in characters, as editors do, and not in bytes.
#[derive(Debug)]
struct Text {
    name: String,
    text: String,
}

impl SourceCode for Text {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let found = self.text.read_span(span, before, after)?;
        let start = found.span().offset();
        let line = &self.text[start - found.column().min(start)..start];
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            found.data(),
            *found.span(),
            found.line(),
            line.chars().count(),
            found.line_count(),
        )))
    }
}

/// A diagnostic as JSON.
pub(super) fn json(source: &Source, diagnostic: &Diagnostic) -> Value {
    let place = |span: &Span| {
        let (line, column) = line_and_column(&source.text, span.start);
        let (end_line, end_column) = line_and_column(&source.text, span.end);
        json!({ "line": line, "column": column, "endLine": end_line, "endColumn": end_column })
    };
    let labels: Vec<_> =
        diagnostic.labels.iter().map(|label| json!({ "at": place(&label.span), "text": label.text })).collect();
    json!({
        "code": diagnostic.code.id,
        "severity": diagnostic.severity().to_string(),
        "title": diagnostic.code.title,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "explained": diagnostic.explained,
        "at": place(&diagnostic.span()),
        "labels": labels,
        "page": format!("docs/reference/errors/{}.md", diagnostic.code.id),
    })
}
