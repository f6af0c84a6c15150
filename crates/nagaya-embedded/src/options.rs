//! Settings of the engine.

use std::time::Duration;

use nagaya_store::Clock;

use crate::encryption::EncryptionKey;

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// The clock for expiry and retention.
    pub clock: Clock,
    /// How long changes are retained.
    pub retention: Duration,
    /// The size of the read cache.
    pub cache_bytes: u64,
    /// How many bytes each keyspace buffers in memory before it writes them to a sorted file.
    pub write_buffer_bytes: u64,
    /// The size of the journals at which rarely written keyspaces are flushed, so that old journals can be removed.
    pub journal_bytes: u64,
    /// Writes are refused while the disk has fewer free bytes than this; below twice as many a warning is logged. 0
    /// turns both off.
    pub min_free_bytes: u64,
    /// How often the background thread removes expired items and old changes and checks the disk; `None` turns it off.
    pub sweep_interval: Option<Duration>,
    /// The key of an encrypted directory. A new directory is encrypted with it. A directory that is not encrypted is refused
    /// with a key, and one that is encrypted without its key.
    pub encryption_key: Option<EncryptionKey>,
    /// Whether a directory of an older format is upgraded when it is opened: earlier versions cannot open it then. Otherwise
    /// it is refused ([`is_older_format`](crate::is_older_format)).
    pub upgrade: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: Clock::system_without_jumps(),
            retention: Duration::from_secs(7 * 24 * 3600),
            cache_bytes: 64 * 1024 * 1024,
            write_buffer_bytes: 24 * 1024 * 1024,
            journal_bytes: 192 * 1024 * 1024,
            min_free_bytes: 256 * 1024 * 1024,
            sweep_interval: Some(Duration::from_secs(1)),
            encryption_key: None,
            upgrade: true,
        }
    }
}
