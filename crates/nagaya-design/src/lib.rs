//! Designs: how the data of a multi-tenant system lies in a partition-keyed store.
//!
//! A design is a TOML file with tables, entities, key templates, walls between tenants, and access patterns. This crate
//! reads one, checks it, and answers what everything else is derived from: which key an item has, which item a key
//! belongs to, which query an access pattern becomes, what a change of the design breaks.
//!
//! It is pure: no I/O, no async, no clock. It is not a store and not a validator of requests; those stand on it.
//!
//! # A tour
//!
//! ```
//! use nagaya_design::{Router, check};
//!
//! let source = r#"
//!     name    = "notes"
//!     version = "1.0"
//!
//!     [tenant]
//!     field = "teamId"
//!
//!     [table.main]
//!     key = ["PK", "SK"]
//!
//!     [entity.note]
//!     table = "main"
//!     key   = { PK = "TEAM#{teamId}", SK = "NOTE#{createdAt}#{noteId}" }
//!
//!     [entity.note.fields]
//!     teamId    = { type = "string", max = 64 }
//!     noteId    = { type = "ulid", default = "new" }
//!     text      = { type = "string", max = 4000 }
//!     createdAt = { type = "timestamp", default = "now" }
//!
//!     [access.notes_between]
//!     entity = "note"
//!     range  = "createdAt"
//! "#;
//!
//! // Everything that is wrong with a design is told at once; nothing is, here.
//! let checked = check(source, &[]);
//! assert!(checked.diagnostics.is_empty());
//! let design = checked.design.expect("a design without errors");
//!
//! // Fields give a key. A value cannot break out of its place: `#` and `%` are escaped.
//! let note = design.entity("note").expect("declared above");
//! let key = note.key.render(&[
//!     ("teamId", "red#blue"),
//!     ("noteId", "01KG9S5Q60T4N2Y8ZC3M7VXR1E"),
//!     ("createdAt", "2026-01-31T09:30:00Z"),
//! ])?;
//! assert_eq!(key.partition, "TEAM#red%23blue");
//! assert_eq!(key.sort, "NOTE#2026-01-31T09:30:00Z#01KG9S5Q60T4N2Y8ZC3M7VXR1E");
//!
//! // A key gives the entity and its fields back.
//! let router = Router::new(&design);
//! let routed = router.route("main", &key.partition, &key.sort).expect("a key of this design");
//! assert_eq!(routed.entity, "note");
//! assert_eq!(routed.fields[0], ("teamId", "red#blue".into()));
//!
//! // An access pattern becomes one query on one partition.
//! let access = design.access("notes_between").expect("declared above");
//! let query = design.query(access, &[("teamId", "red"), ("from", "2026-01-01T00:00:00Z"), ("to", "2026-02-01T00:00:00Z")])?;
//! assert_eq!(
//!     query.to_string(),
//!     "PK = TEAM#red AND SK BETWEEN NOTE#2026-01-01T00:00:00Z AND NOTE#2026-02-01T00:00:00Z",
//! );
//! # Ok::<(), nagaya_design::Unfit>(())
//! ```

mod audit;
mod check;
mod codes;
mod condition;
mod derived;
mod design;
mod diagnostic;
mod diff;
mod document;
mod ecma;
mod example;
mod explain;
mod field;
mod form;
mod grammar;
mod item;
mod json_schema;
mod language;
mod lower;
mod path;
mod query;
mod read;
mod reference;
mod role;
mod route;
mod template;
mod tree;
mod value_schema;
mod version;

use std::fmt;

pub use audit::{Audit, Part, VERBS};
pub use codes::{ALL as CODES, Code};
pub use condition::{Condition, Literal, Operand, Operator, Term};
pub use derived::DerivedAttributes;
pub use design::*;
pub use diagnostic::{Diagnostic, Label, Severity, Span, line_and_column};
pub use diff::{Difference, allows_breaking, diff};
pub use document::{html, json, markdown};
pub use explain::{Explanation, KeyPart};
pub use field::{Default, Field, OnDelete, Problem, Reference, Type};
pub use form::{Format, Precision};
pub use json_schema::json_schema;
pub use query::{Parameter, Query, Sort};
pub use reference::{Referer, Way};
pub use role::{Permission, Role, Verb};
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

impl Engine {
    /// All engines.
    pub const ALL: [Engine; 3] = [Engine::Embedded, Engine::Dynamodb, Engine::Cosmos];
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

/// Reads a design that has been checked before, such as one that is part of a program; `None` if it cannot even be read.
///
/// Checking takes a while, for automata decide whether keys can meet: a program that has its design inside does that in its
/// tests, and not whenever it starts.
pub fn read_checked(source: &str) -> Option<Design> {
    let mut diagnostics = Vec::new();
    let root = read::read(source, &mut diagnostics);
    let design = lower::lower(&root, source, &mut diagnostics);
    design.filter(|_| diagnostics.iter().all(|each| each.severity() != Severity::Error))
}

/// Reads and checks a design file; all of its problems at once.
pub fn check(source: &str, engines: &[Engine]) -> Checked {
    let mut diagnostics = Vec::new();
    let root = read::read(source, &mut diagnostics);
    let design = lower::lower(&root, source, &mut diagnostics);
    if let Some(design) = &design {
        check::check(design, source, engines, &mut diagnostics);
    }
    // After a syntax error the rest of the file is guesswork: what is said before it still holds.
    if let Some(broken) =
        diagnostics.iter().filter(|each| each.code == &codes::SYNTAX).map(|each| each.span().start).min()
    {
        diagnostics.retain(|each| {
            each.span().start <= broken
                && each.labels.iter().all(|label| label.span.end <= broken || each.code == &codes::SYNTAX)
        });
    }
    check::mark_explained(source, engines, &mut diagnostics);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span().start, diagnostic.code.id));
    diagnostics.dedup_by(|a, b| a.code == b.code && a.span() == b.span() && a.message == b.message);
    let failed = diagnostics.iter().any(|diagnostic| diagnostic.severity() == Severity::Error);
    Checked { design: design.filter(|_| !failed), diagnostics }
}
