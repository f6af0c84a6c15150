//! Flags for the embedded store.

use std::time::Duration;

use clap::builder::FalseyValueParser;
use nagaya_embedded::Options;

use crate::{duration::parse_duration, encryption::EncryptionArgs};

/// Retention and disk space of the embedded store.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct EmbeddedStoreArgs {
    /// How long changes are retained, such as `36h` or `7d`: `store restore --at` can go back this far
    ///
    /// Give the same value to every command that opens the directory, or set the variable: a command with a shorter retention
    /// deletes older changes.
    #[arg(long, help_heading = "Embedded store", value_name = "TIME", default_value = "7d", env = "NAGAYA_RETENTION", value_parser = parse_duration)]
    retention: Duration,
    /// Free bytes that the disk must have. With less, writes are answered 507. With less than twice as much, a warning is
    /// logged. 0 turns the check off
    #[arg(long, help_heading = "Embedded store", value_name = "BYTES", default_value_t = Options::default().min_free_bytes, env = "NAGAYA_MIN_FREE_SPACE")]
    min_free_space: u64,
    /// Create new keys in place of the ones that the data directory has lost: tokens and cursors issued earlier are refused then
    #[arg(long, help_heading = "Embedded store", env = "NAGAYA_NEW_KEYS", value_parser = FalseyValueParser::new())]
    pub(super) new_keys: bool,
    #[command(flatten)]
    encryption: EncryptionArgs,
}

impl EmbeddedStoreArgs {
    /// Where the key of the store comes from.
    pub(crate) fn encryption(&self) -> &EncryptionArgs {
        &self.encryption
    }

    /// Whether keys that are lost are replaced.
    pub(crate) fn makes_new_keys(&self) -> bool {
        self.new_keys
    }

    /// Free bytes below which writes are refused.
    pub(crate) fn min_free_space(&self) -> u64 {
        self.min_free_space
    }

    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let encryption_key = self.encryption.key()?;
        let (retention, min_free_bytes) = (self.retention, self.min_free_space);
        Ok(Options { retention, min_free_bytes, encryption_key, ..Options::default() })
    }
}
