//! The engine, and the libraries that it is compared with.

mod fjall;
mod nagaya;
mod redb;
mod sqlite;

use std::{fmt, ops::Range, path::Path};

use serde::{Deserialize, Serialize};

use crate::settings::Settings;

pub(crate) use self::{fjall::Fjall, nagaya::Nagaya, redb::Redb, sqlite::Sqlite};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Name {
    Nagaya,
    Fjall,
    Redb,
    Sqlite,
}

impl Name {
    pub(crate) const ALL: [Name; 4] = [Name::Nagaya, Name::Fjall, Name::Redb, Name::Sqlite];
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Name::Nagaya => "nagaya",
            Name::Fjall => "fjall",
            Name::Redb => "redb",
            Name::Sqlite => "SQLite",
        })
    }
}

/// An engine or library with an open directory.
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// Opens or creates a directory.
    async fn open(directory: &Path, settings: Settings) -> anyhow::Result<Self>;

    /// Creates an item, which is on disk when this returns.
    fn create(&self, number: u64) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Creates many items: in one commit, or in commits like the engine's.
    async fn load(&self, numbers: Range<u64>) -> anyhow::Result<()>;

    /// Reads an item; whether it exists.
    async fn read(&self, number: u64) -> anyhow::Result<bool>;

    /// Reads the items of an item's day; their number.
    async fn query(&self, number: u64) -> anyhow::Result<usize>;
}

/// Bytes of cache of every engine: the default of the embedded engine.
fn cache_bytes() -> u64 {
    nagaya_embedded::Options::default().cache_bytes
}
