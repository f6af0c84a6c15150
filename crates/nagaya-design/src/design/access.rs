//! Access patterns.

use crate::{condition::Condition, diagnostic::Span, named::named, tree::SpannedText};

/// Items of the largest page of an access pattern.
pub const MAX_PAGE: usize = 1_000;

named! {
    /// What an access pattern returns.
    pub enum ResultKind {
        /// A page of items.
        Many = "many",
        /// The first item.
        One = "one",
        /// The number of items.
        Count = "count",
    }
}

/// The bound of the sort key after its fixed fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortBound {
    /// No bound.
    Open,
    /// The whole sort key is given.
    Full,
    /// `from` (inclusive) and `to` (exclusive) bound this field.
    Range(String),
    /// The caller gives the beginning of this field.
    Prefix(String),
}

/// An access pattern: a way to list an entity.
#[derive(Debug, Clone)]
pub struct AccessPattern {
    /// The name, by which callers list.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Position of its entity in the design.
    pub entity: usize,
    /// Position of the mapping in its entity; `None`: the table's key.
    pub mapping: Option<usize>,
    /// The fields that the caller gives.
    pub by: Vec<String>,
    /// The number of leading fields of the sort key that are fixed.
    pub fixed: usize,
    /// The bound of the rest of the sort key.
    pub bound: SortBound,
    /// Whether the order is descending.
    pub descending: bool,
    /// Condition on what is returned.
    pub filter: Option<Condition>,
    /// The fields that are returned; empty: all.
    pub projection: Vec<String>,
    /// Page size.
    pub limit: u32,
    /// What it returns.
    pub returns: ResultKind,
    /// Its HTTP path, without the design's prefix; `None`: only the system's own code uses it.
    pub path: Option<String>,
    pub(crate) span: Span,
    pub(crate) path_span: Option<Span>,
    pub(crate) filter_text: Option<SpannedText>,
}
