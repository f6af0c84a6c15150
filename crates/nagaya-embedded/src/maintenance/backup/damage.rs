//! The error of a backup that is damaged or does not continue the one before.

use nagaya_store::{Error, ErrorKind};

/// What is wrong with a backup.
#[derive(Debug, thiserror::Error)]
pub(in crate::maintenance) enum BackupDamage {
    #[error("the backup is damaged: {0}")]
    File(String),
    #[error("the backups do not follow from each other: {0}")]
    Chain(String),
    /// A complete message.
    #[error("{0}")]
    Message(String),
}

impl BackupDamage {
    /// A file is damaged.
    pub(in crate::maintenance) fn error(what: impl Into<String>) -> Error {
        Error::engine(BackupDamage::File(what.into()))
    }

    /// The error with a complete message.
    pub(in crate::maintenance) fn message(what: impl Into<String>) -> Error {
        Error::engine(BackupDamage::Message(what.into()))
    }

    /// A backup does not continue the one before.
    pub(in crate::maintenance) fn chain(what: impl Into<String>) -> Error {
        Error::engine(BackupDamage::Chain(what.into()))
    }
}

/// Whether an error says that a backup is damaged or does not continue the one before.
pub fn is_backup_damaged(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Engine(cause) if cause.is::<BackupDamage>())
}
