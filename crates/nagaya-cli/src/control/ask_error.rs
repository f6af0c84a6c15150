//! Why the process that has a directory open gave no answer.

use std::fmt;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct AskError {
    reason: String,
    /// Whether the request may have been carried out all the same.
    pub(super) may_be_done: bool,
}

impl AskError {
    /// The request did not arrive as a whole, or was refused.
    pub(super) fn not_done(reason: impl fmt::Display) -> Self {
        AskError { reason: format!("{reason:#}"), may_be_done: false }
    }

    /// The request arrived, and its answer did not.
    pub(super) fn unknown(reason: impl fmt::Display) -> Self {
        AskError { reason: format!("{reason:#}"), may_be_done: true }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for AskError {}
