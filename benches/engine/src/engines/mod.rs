//! What is measured: the engine, and the libraries beside it.

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

/// A library or engine that has a directory open.
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// Opens a directory, or makes one.
    async fn open(directory: &Path, settings: Settings) -> anyhow::Result<Self>;

    /// Creates an item; when it answers, the item is on disk.
    fn create(&self, number: u64) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Creates many items at once: in one commit, or in commits that leave the directory as the engine's do.
    async fn load(&self, numbers: Range<u64>) -> anyhow::Result<()>;

    /// Reads an item; whether it is there.
    async fn read(&self, number: u64) -> anyhow::Result<bool>;

    /// Reads the items of the day of an item; how many there are.
    async fn query(&self, number: u64) -> anyhow::Result<usize>;
}

/// Bytes of cache that every engine gets: the default of ours.
fn cache_bytes() -> u64 {
    nagaya_embedded::Options::default().cache_bytes
}
