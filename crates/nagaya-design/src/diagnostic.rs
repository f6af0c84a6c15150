//! What the checker has to say about a design: where, what, and what to write instead.

use std::{fmt, ops::Range};

use crate::codes::Code;

/// A byte range in the source of a design.
pub type Span = Range<usize>;

/// How much a diagnostic weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The design runs, but something in it deserves a second look.
    Warning,
    /// The design cannot be run safely and is rejected.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// A piece of the source, with what there is to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The piece.
    pub span: Span,
    /// What there is to say; empty when the message says it all.
    pub text: String,
}

/// One problem of a design.
#[derive(Debug, Clone)]
pub struct Diagnostic {
    /// The stable code; its page in `docs/reference/errors/` has cause and remedy.
    pub code: &'static Code,
    /// One sentence that names what is wrong.
    pub message: String,
    /// The pieces of the source it is about, the main one first.
    pub labels: Vec<Label>,
    /// What to write instead.
    pub help: Option<String>,
    /// The reason that a comment in the design gives for living with this warning.
    pub explained: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(code: &'static Code, span: Span, message: impl Into<String>) -> Self {
        let label = Label { span, text: String::new() };
        Diagnostic { code, message: message.into(), labels: vec![label], help: None, explained: None }
    }

    /// Puts a text under the main piece.
    pub(crate) fn here(mut self, text: impl Into<String>) -> Self {
        self.labels[0].text = text.into();
        self
    }

    pub(crate) fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// How much it weighs.
    pub fn severity(&self) -> Severity {
        self.code.severity
    }

    /// Where it is: the main piece.
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

/// ` (did you mean `x`?)`-style advice: the candidate closest to `name`, when one is close enough.
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

/// The help text for a name that does not exist: the closest one, else all there are.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<_> = candidates.into_iter().collect();
    match closest(name, candidates.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if candidates.is_empty() => "there is none to choose from yet".to_owned(),
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
