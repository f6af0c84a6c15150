//! What the engine and the bare library below it are both set to, so that neither has more memory than the other.

use clap::Args;
use nagaya_embedded::Options;
use serde::{Deserialize, Serialize};

/// Sizes in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// What each key space holds in memory before it goes to files
    #[arg(long, default_value_t = ENGINE.write_buffer)]
    pub(crate) write_buffer: u64,
    /// Journals before rarely written key spaces are flushed for their sake
    #[arg(long, default_value_t = ENGINE.journals)]
    pub(crate) journals: u64,
}

/// What the engine does by default.
pub(crate) const ENGINE: Settings = Settings { write_buffer: 24, journals: 192 };

impl Settings {
    pub(crate) fn write_buffer_bytes(self) -> u64 {
        self.write_buffer * 1024 * 1024
    }

    pub(crate) fn journal_bytes(self) -> u64 {
        self.journals * 1024 * 1024
    }

    /// The engine with these settings.
    pub(crate) fn options(self) -> Options {
        Options {
            write_buffer_bytes: self.write_buffer_bytes(),
            journal_bytes: self.journal_bytes(),
            ..Options::default()
        }
    }
}
