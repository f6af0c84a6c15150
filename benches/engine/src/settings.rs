//! Settings of both the engine and bare fjall, so that both have the same memory.

use clap::Args;
use nagaya_embedded::Options;
use serde::{Deserialize, Serialize};

/// Sizes in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args, Serialize, Deserialize)]
pub(crate) struct Settings {
    /// The size of a keyspace's memtable before it is flushed to files
    #[arg(long, default_value_t = ENGINE.write_buffer)]
    pub(crate) write_buffer: u64,
    /// The size of the journals before rarely written keyspaces are flushed to free them
    #[arg(long, default_value_t = ENGINE.journals)]
    pub(crate) journals: u64,
}

/// The default settings of the engine.
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
