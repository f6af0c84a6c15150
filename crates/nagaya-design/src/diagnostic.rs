//! Diagnostics: what is wrong in a design, where, and what to write instead.

use std::ops::Range;

use crate::{codes::Code, named::named};

/// A byte range in the source of a design.
pub type Span = Range<usize>;

named! {
    /// Whether a diagnostic is an error or a warning.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// The design can run, but the author should look at this.
        Warning = "warning",
        /// The design cannot be run safely and is rejected.
        Error = "error",
    }
}

/// A span of the source with a text for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The span.
    pub span: Span,
    /// The text; empty when the message says everything.
    pub text: String,
}

/// One problem in a design.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// The stable code; its page in `docs/reference/errors/` has cause and remedy.
    pub code: &'static Code,
    /// One sentence that names what is wrong.
    pub message: String,
    /// The spans that it is about, the main one first.
    pub labels: Vec<Label>,
    /// What to write instead.
    pub help: Option<String>,
    /// The reason for accepting this warning, from a comment in the design.
    pub explained: Option<String>,
}

impl Code {
    /// Adds a diagnostic with this code at a span.
    pub(crate) fn report<'d>(
        &'static self,
        diagnostics: &'d mut Vec<Diagnostic>,
        span: &Span,
        message: impl Into<String>,
    ) -> &'d mut Diagnostic {
        let label = Label { span: span.clone(), text: String::new() };
        let message = message.into();
        diagnostics.push_mut(Diagnostic { code: self, message, labels: vec![label], help: None, explained: None })
    }
}

impl Diagnostic {
    /// Puts a text under the main span.
    pub(crate) fn here(&mut self, text: impl Into<String>) -> &mut Self {
        self.labels[0].text = text.into();
        self
    }

    pub(crate) fn also(&mut self, span: &Span, text: impl Into<String>) -> &mut Self {
        self.labels.push(Label { span: span.clone(), text: text.into() });
        self
    }

    /// Says what to write instead.
    pub(crate) fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }

    /// Whether it is an error or a warning.
    pub fn severity(&self) -> Severity {
        self.code.severity
    }

    /// The main span.
    pub fn span(&self) -> Span {
        self.labels[0].span.clone()
    }
}

/// Line and column (both from 1, columns in characters) of a byte offset.
pub fn line_and_column(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The candidate that is most similar to `name`, if it is similar enough.
pub(crate) fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| {
            let plain = strsim::damerau_levenshtein(name, candidate);
            let folded = strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
            (plain.min(folded + usize::from(plain > 0)), candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The help text for a name that does not exist: the most similar one, or else all.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<_> = candidates.into_iter().collect();
    match closest(name, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if candidates.is_empty() => "none is declared yet".to_owned(),
        None => format!("there is {}", list(&candidates)),
    }
}

/// A noun with its article.
pub(crate) fn a(noun: &str) -> String {
    // A ulid and a uuid start with a consonant when spoken.
    let vowel = noun.starts_with(['a', 'e', 'i', 'o']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

/// `` `a`, `b` and `c` ``.
pub(crate) fn list<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [only] => format!("`{}`", only.as_ref()),
        [init @ .., last] => {
            let init: Vec<_> = init.iter().map(|name| format!("`{}`", name.as_ref())).collect();
            format!("{} and `{}`", init.join(", "), last.as_ref())
        }
    }
}
