//! Errors of the store, as its operator reads them.

use std::fmt;

use nagaya_embedded::is_backup_damaged;

/// What went wrong.
#[derive(Debug)]
pub(super) struct StoreFailure {
    what: String,
    /// Whether a backup is damaged.
    pub(super) damaged: bool,
}

impl From<nagaya_store::Error> for StoreFailure {
    fn from(error: nagaya_store::Error) -> Self {
        StoreFailure { what: error.to_string(), damaged: is_backup_damaged(&error) }
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for StoreFailure {}
