//! Why a call failed.

use std::fmt;

use crate::{BadUpdate, Item};

/// Why a call failed. Nothing of it has happened, unless it is [`ErrorKind::Unanswered`].
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// The kinds of failures.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Conditions did not hold; each with the item as it is.
    ConditionFailed(Vec<Failed>),
    /// The call cannot be made, whatever the state of the store.
    Invalid(String),
    /// The call is larger than stores take.
    Limit(String),
    /// There is no such table.
    NoTable(String),
    /// There is no such index, or not yet.
    NoIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// The position is older than what is kept, or of another store: changes have been missed.
    Gap,
    /// The engine cannot do this; its capabilities say so.
    Unsupported(&'static str),
    /// Another write was faster too often; trying again later may help.
    Busy,
    /// The disk of the store is nearly full: the write was refused before anything happened.
    OutOfSpace(String),
    /// The store cannot be reached, or refuses the call until a fault has passed. Nothing has happened.
    Unavailable(Box<dyn std::error::Error + Send + Sync>),
    /// The answer to a write was lost on the way, and the write cannot be repeated: it may have happened or not, but not
    /// twice. Read before writing again.
    Unanswered(Box<dyn std::error::Error + Send + Sync>),
    /// The engine failed: disk, network or damaged data.
    Engine(Box<dyn std::error::Error + Send + Sync>),
}

/// A condition that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The position of its action in the write set.
    pub action: usize,
    /// The item as it is; `None`: there is none.
    pub found: Option<Item>,
}

impl Error {
    /// What kind it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// A stable name of the kind.
    pub fn code(&self) -> &'static str {
        match &*self.kind {
            ErrorKind::ConditionFailed(_) => "condition_failed",
            ErrorKind::Invalid(_) => "invalid",
            ErrorKind::Limit(_) => "limit",
            ErrorKind::NoTable(_) => "no_table",
            ErrorKind::NoIndex { .. } => "no_index",
            ErrorKind::Gap => "gap",
            ErrorKind::Unsupported(_) => "unsupported",
            ErrorKind::Busy => "busy",
            ErrorKind::OutOfSpace(_) => "out_of_space",
            ErrorKind::Unavailable(_) => "unavailable",
            ErrorKind::Unanswered(_) => "unanswered",
            ErrorKind::Engine(_) => "engine",
        }
    }

    /// The call cannot be made.
    pub fn invalid(reason: impl Into<String>) -> Self {
        ErrorKind::Invalid(reason.into()).into()
    }

    /// The call is too large.
    pub fn limit(reason: impl Into<String>) -> Self {
        ErrorKind::Limit(reason.into()).into()
    }

    /// The engine failed.
    pub fn engine(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Engine(cause.into()).into()
    }

    /// The store cannot be reached or used for now; nothing has happened.
    pub fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Unavailable(cause.into()).into()
    }

    /// Nobody knows whether a write has happened.
    pub fn unanswered(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Unanswered(cause.into()).into()
    }

    /// The conditions that did not hold, if that is what it is.
    pub fn failed_conditions(&self) -> Option<&[Failed]> {
        match &*self.kind {
            ErrorKind::ConditionFailed(failed) => Some(failed),
            _ => None,
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind) }
    }
}

impl From<BadUpdate> for Error {
    fn from(bad: BadUpdate) -> Self {
        Error::invalid(bad.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            ErrorKind::ConditionFailed(failed) => {
                let actions: Vec<_> = failed.iter().map(|failed| failed.action.to_string()).collect();
                write!(f, "the condition of action {} does not hold", actions.join(", "))
            }
            ErrorKind::Invalid(reason) | ErrorKind::Limit(reason) | ErrorKind::OutOfSpace(reason) => {
                f.write_str(reason)
            }
            ErrorKind::NoTable(table) => write!(f, "there is no table `{table}`"),
            ErrorKind::NoIndex { table, index } => write!(f, "the table `{table}` has no index `{index}` yet"),
            ErrorKind::Gap => f.write_str(
                "the position is older than the changes that are kept, or of another store: some have been missed",
            ),
            ErrorKind::Unsupported(what) => write!(f, "this engine cannot {what}"),
            ErrorKind::Busy => f.write_str("other writes were faster; try again"),
            ErrorKind::Unavailable(cause) => write!(f, "the store is not available: {cause}"),
            ErrorKind::Unanswered(cause) => write!(f, "the write may have happened or not: {cause}"),
            ErrorKind::Engine(cause) => write!(f, "the store failed: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            // The cause itself is part of the message.
            ErrorKind::Engine(cause) | ErrorKind::Unanswered(cause) | ErrorKind::Unavailable(cause) => cause.source(),
            _ => None,
        }
    }
}
