//! A backup that is not as it was written, or not the one that is needed.

use std::fmt;

use nagaya_store::{Error, ErrorKind};

/// What is wrong with backups.
#[derive(Debug)]
pub(in crate::maintain) enum Damage {
    File(String),
    Chain(String),
    /// A whole message.
    Message(String),
}

impl Damage {
    /// A file is not as it was written.
    pub(in crate::maintain) fn error(what: impl Into<String>) -> Error {
        Error::engine(Damage::File(what.into()))
    }

    /// The same with more words.
    pub(in crate::maintain) fn message(what: impl Into<String>) -> Error {
        Error::engine(Damage::Message(what.into()))
    }

    /// Files do not go on from each other.
    pub(in crate::maintain) fn chain(what: impl Into<String>) -> Error {
        Error::engine(Damage::Chain(what.into()))
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::File(what) => write!(f, "the backup is damaged: {what}"),
            Damage::Chain(what) => write!(f, "the backups do not follow from each other: {what}"),
            Damage::Message(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Damage {}

/// Whether an error says that a backup is damaged or does not follow, and not that something else failed.
pub fn is_damaged(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Engine(cause) if cause.is::<Damage>())
}
