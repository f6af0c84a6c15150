//! Key designs: how a multi-tenant system stores its data in a partition-keyed store.
//!
//! A design is a TOML file with tables, entities, key templates, walls between tenants, and access patterns. This crate
//! reads a design, checks it, and derives from it: the key of an item, the entity of a key, the query of an access
//! pattern, and what a change of the design breaks.
//!
//! It is pure: no I/O, no async, no clock. It does not store items and does not serve requests.
//!
//! # A tour
//!
//! ```
//! use nagaya_design::{KeyRouter, check};
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
//! // All errors of a design are reported at once; this one has none.
//! let checked = check(source, &[]);
//! assert!(checked.diagnostics.is_empty());
//! let design = checked.design.expect("a design without errors");
//!
//! // Fields give a key. `#` and `%` in values are escaped.
//! let note = design.entity("note").expect("declared above");
//! let key = note.key.render(&[
//!     ("teamId", "red#blue"),
//!     ("noteId", "01KG9S5Q60T4N2Y8ZC3M7VXR1E"),
//!     ("createdAt", "2026-01-31T09:30:00Z"),
//! ])?;
//! assert_eq!(key.partition, "TEAM#red%23blue");
//! assert_eq!(key.sort, "NOTE#2026-01-31T09:30:00Z#01KG9S5Q60T4N2Y8ZC3M7VXR1E");
//!
//! // A key gives back the entity and its fields.
//! let router = KeyRouter::new(&design);
//! let routed = router.route("main", &key.partition, &key.sort).expect("a key of this design");
//! assert_eq!(routed.entity, "note");
//! assert_eq!(routed.fields[0], ("teamId", "red#blue".into()));
//!
//! // An access pattern becomes one query on one partition.
//! let access = design.access_pattern("notes_between").expect("declared above");
//! let query = design.query(access, &[("teamId", "red"), ("from", "2026-01-01T00:00:00Z"), ("to", "2026-02-01T00:00:00Z")])?;
//! assert_eq!(
//!     query.to_string(),
//!     "PK = TEAM#red AND SK BETWEEN NOTE#2026-01-01T00:00:00Z AND NOTE#2026-02-01T00:00:00Z",
//! );
//! # Ok::<(), nagaya_design::KeyFieldError>(())
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
mod explained;
mod field;
mod grammar;
mod item;
mod json_schema;
mod key_router;
mod language;
mod named;
mod path;
mod query;
mod read;
mod reference;
mod resolve;
mod role;
mod template;
mod tenant_id;
mod text_syntax;
mod tree;
mod value_schema;
mod version;

use named::named;

pub use audit::{AUDIT_VERBS, Audit, AuditArchive, AuditPart};
pub use codes::{ALL as CODES, Code};
pub use condition::{ComparisonOp, Condition, ConditionField, ConditionValue, Term};
pub use derived::DerivedAttributes;
pub use design::*;
pub use diagnostic::{Diagnostic, Label, Severity, Span, line_and_column};
pub use diff::{Difference, allows_breaking, diff};
pub use document::{html, json, markdown};
pub use explain::{Explanation, KeyPart};
pub use field::{DefaultValue, Field, FieldError, FieldType, OnDelete, Reference};
pub use json_schema::json_schema;
pub use key_router::{KeyRouter, RoutedKey};
pub use path::server_path;
pub use query::{AccessParameter, Query, SortCondition};
pub use reference::{ReferrerLookup, ReferringField};
pub use role::{Permission, Reach, Role, Verb};
pub use template::{FieldValues, KeyFieldError, Scalar, Template};
pub use text_syntax::{StringFormat, TimestampPrecision};
pub use version::{Version, VersionParseError};

named! {
    /// A store that a design can be checked for.
    pub enum Engine {
        /// One directory on disk.
        Embedded = "embedded",
        /// DynamoDB and compatible stores.
        Dynamodb = "dynamodb",
        /// Azure Cosmos DB.
        Cosmos = "cosmos",
    }
}

/// The result of checking a design file.
#[derive(Debug)]
pub struct CheckResult {
    /// The design; `None` when there is an error.
    pub design: Option<Design>,
    /// All errors and warnings, in the order of the file; after a TOML syntax error only those before it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a design that was checked before, such as one that is compiled into a program; `None` if it cannot be read.
///
/// A full check is slow because it builds automata for all keys. A program with an embedded design checks it in its tests,
/// not at every start.
pub fn load_checked(source: &str) -> Option<Design> {
    let mut diagnostics = Vec::new();
    let root = read::read(source, &mut diagnostics);
    let design = resolve::lower(&root, source, &mut diagnostics);
    design.filter(|_| diagnostics.iter().all(|each| each.severity() != Severity::Error))
}

/// Reads and checks a design file, and reports all problems at once, up to a TOML syntax error.
pub fn check(source: &str, engines: &[Engine]) -> CheckResult {
    let mut diagnostics = Vec::new();
    let root = read::read(source, &mut diagnostics);
    let design = resolve::lower(&root, source, &mut diagnostics);
    if let Some(design) = &design {
        check::check(design, source, engines, &mut diagnostics);
    }
    // The rest of the file is unreliable after a syntax error: keep only the diagnostics before it.
    if let Some(broken) =
        diagnostics.iter().filter(|each| each.code == &codes::SYNTAX).map(|each| each.span().start).min()
    {
        diagnostics.retain(|each| {
            each.span().start <= broken
                && each.labels.iter().all(|label| label.span.end <= broken || each.code == &codes::SYNTAX)
        });
    }
    explained::mark_explained(source, engines, &mut diagnostics);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span().start, diagnostic.code.id));
    diagnostics.dedup_by(|a, b| a.code == b.code && a.span() == b.span() && a.message == b.message);
    let failed = diagnostics.iter().any(|diagnostic| diagnostic.severity() == Severity::Error);
    CheckResult { design: design.filter(|_| !failed), diagnostics }
}
