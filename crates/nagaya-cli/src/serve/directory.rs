//! Flags for the embedded store.

use std::time::Duration;

use nagaya_embedded::Options;

use crate::duration::parse_duration;

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
}

impl EmbeddedStoreArgs {
    pub(crate) fn options(&self) -> Options {
        Options { retention: self.retention, min_free_bytes: self.min_free_space, ..Options::default() }
    }
}
