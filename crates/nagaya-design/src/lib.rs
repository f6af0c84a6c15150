//! Designs: how a multi-tenant system's data lies in a partition-keyed store.
#![doc = ""]

mod check;
mod codes;
mod condition;
mod design;
mod diagnostic;
mod diff;
mod document;
mod example;
mod explain;
mod field;
mod form;
mod grammar;
mod json_schema;
mod language;
mod lower;
mod query;
mod read;
mod route;
mod template;
mod tree;
mod version;

use std::fmt;

pub use codes::{ALL as CODES, Code};
pub use condition::{Condition, Literal, Operand, Operator, Term};
pub use design::*;
pub use diagnostic::{Diagnostic, Label, Severity, Span, line_and_column};
pub use diff::{Difference, allows_breaking, diff};
pub use document::{html, json, markdown};
pub use explain::{Explanation, KeyPart};
pub use field::{Default, Field, OnDelete, Problem, Reference, Type};
pub use form::{Format, Precision};
pub use json_schema::json_schema;
pub use query::{Parameter, Query, Sort};
pub use route::{Routed, Router};
pub use template::{Fields, Scalar, Template, Unfit};
pub use version::{NotAVersion, Version};

/// A store that a design can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// One directory on disk.
    Embedded,
    /// DynamoDB and what is compatible with it.
    Dynamodb,
    /// Azure Cosmos DB.
    Cosmos,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Embedded => "embedded",
            Engine::Dynamodb => "dynamodb",
            Engine::Cosmos => "cosmos",
        })
    }
}

/// What came of checking a design file.
#[derive(Debug)]
pub struct Checked {
    /// The design; `None` when there is an error.
    pub design: Option<Design>,
    /// Everything there is to say, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads and checks a design file; all of its problems at once.
pub fn check(source: &str, engines: &[Engine]) -> Checked {
    let mut diagnostics = Vec::new();
    let root = read::read(source, &mut diagnostics);
    let design = lower::lower(&root, source, &mut diagnostics);
    if let Some(design) = &design {
        check::check(design, source, engines, &mut diagnostics);
    }
    check::mark_explained(source, &mut diagnostics);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span().start, diagnostic.code.id));
    diagnostics.dedup_by(|a, b| a.code == b.code && a.span() == b.span() && a.message == b.message);
    let failed = diagnostics.iter().any(|diagnostic| diagnostic.severity() == Severity::Error);
    Checked { design: design.filter(|_| !failed), diagnostics }
}
