//! Why a call failed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{InvalidUpdate, Item};

/// Why a call failed. Nothing was written, unless the kind is [`ErrorKind::OutcomeUnknown`].
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// The error of an engine.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The kinds of failures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Conditions failed; each with the current item.
    #[error("the condition of action {} failed", actions(.0))]
    ConditionFailed(Vec<FailedCondition>),
    /// The call is invalid, whatever is stored.
    #[error("{0}")]
    Invalid(String),
    /// The call exceeds a limit of the store.
    #[error("{0}")]
    LimitExceeded(String),
    /// The table does not exist.
    #[error("there is no table `{0}`")]
    NoTable(String),
    /// The index does not exist, or is still being built.
    #[error("the table `{table}` has no index `{index}` yet")]
    NoIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
    },
    /// The position is older than the retained changes, or belongs to another store: changes were missed.
    #[error("the position is older than the retained changes, or belongs to another store; changes were missed")]
    Gap,
    /// The engine does not have this capability.
    #[error("this engine cannot {0}")]
    Unsupported(&'static str),
    /// Too many writes compete for the same items; a later attempt may succeed.
    #[error("other writes to the same items were faster; try again")]
    Busy,
    /// The disk of the store is nearly full; the write was refused.
    #[error("{0}")]
    OutOfSpace(String),
    /// The store cannot be reached, or refuses calls until it has recovered from a fault. Nothing was written.
    #[error("the store is not available: {0}")]
    Unavailable(BoxError),
    /// The response to a write was lost, and the write cannot be repeated safely: it happened once or not at all. Read
    /// before writing again.
    #[error("the write may have happened or not: {0}")]
    OutcomeUnknown(BoxError),
    /// The engine failed: disk, network or damaged data.
    #[error(transparent)]
    Engine(BoxError),
}

/// A condition that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCondition {
    /// The index of its action in the write set.
    pub action: usize,
    /// The current item; `None` if it does not exist.
    pub current: Option<Item>,
}

impl Error {
    /// What kind of failure it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// A stable name of the kind.
    pub fn code(&self) -> &'static str {
        match &*self.kind {
            ErrorKind::ConditionFailed(_) => "condition_failed",
            ErrorKind::Invalid(_) => "invalid",
            ErrorKind::LimitExceeded(_) => "limit",
            ErrorKind::NoTable(_) => "no_table",
            ErrorKind::NoIndex { .. } => "no_index",
            ErrorKind::Gap => "gap",
            ErrorKind::Unsupported(_) => "unsupported",
            ErrorKind::Busy => "busy",
            ErrorKind::OutOfSpace(_) => "out_of_space",
            ErrorKind::Unavailable(_) => "unavailable",
            ErrorKind::OutcomeUnknown(_) => "unanswered",
            ErrorKind::Engine(_) => "engine",
        }
    }

    /// Whether a condition failed.
    pub fn is_conflict(&self) -> bool {
        matches!(*self.kind, ErrorKind::ConditionFailed(_))
    }

    /// Whether changes were missed.
    pub fn is_gap(&self) -> bool {
        matches!(*self.kind, ErrorKind::Gap)
    }

    /// Whether too many writes competed for the same items.
    pub fn is_busy(&self) -> bool {
        matches!(*self.kind, ErrorKind::Busy)
    }

    /// Whether the store cannot be used for now.
    pub fn is_unavailable(&self) -> bool {
        matches!(*self.kind, ErrorKind::Unavailable(_))
    }

    /// Whether it is unknown if the write happened.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(*self.kind, ErrorKind::OutcomeUnknown(_))
    }

    /// Whether nothing was written and the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.is_busy() || self.is_unavailable()
    }

    /// The call is invalid.
    pub fn invalid(reason: impl Into<String>) -> Self {
        ErrorKind::Invalid(reason.into()).into()
    }

    /// The call exceeds a limit.
    pub fn limit_exceeded(reason: impl Into<String>) -> Self {
        ErrorKind::LimitExceeded(reason.into()).into()
    }

    /// The engine failed.
    pub fn engine(cause: impl Into<BoxError>) -> Self {
        ErrorKind::Engine(cause.into()).into()
    }

    /// The store cannot be used for now; nothing was written.
    pub fn unavailable(cause: impl Into<BoxError>) -> Self {
        ErrorKind::Unavailable(cause.into()).into()
    }

    /// It is unknown whether a write happened.
    pub fn outcome_unknown(cause: impl Into<BoxError>) -> Self {
        ErrorKind::OutcomeUnknown(cause.into()).into()
    }

    /// The conditions that failed, if the kind is [`ErrorKind::ConditionFailed`].
    pub fn failed_conditions(&self) -> Option<&[FailedCondition]> {
        match &*self.kind {
            ErrorKind::ConditionFailed(failed) => Some(failed),
            _ => None,
        }
    }
}

/// The numbers of the actions whose conditions failed.
fn actions(failed: &[FailedCondition]) -> String {
    failed.iter().map(|failed| failed.action.to_string()).collect::<Vec<_>>().join(", ")
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind) }
    }
}

impl From<InvalidUpdate> for Error {
    fn from(invalid: InvalidUpdate) -> Self {
        Error::invalid(invalid.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            // The message already contains the cause.
            ErrorKind::Engine(cause) | ErrorKind::OutcomeUnknown(cause) | ErrorKind::Unavailable(cause) => {
                cause.source()
            }
            _ => None,
        }
    }
}
