//! The embedded engine: a store in one directory on disk, or in memory for tests.
//!
//! An item, its index entries, its expiry and the record of its change are one commit. A write is acknowledged when its
//! commit has been synced to disk. Concurrent writes share one sync; a single write does not wait for others. One
//! thread evaluates all conditions, so conditional writes are linearizable. Readers use snapshots in parallel to it,
//! and never see half of a commit.
//!
//! It is not a server: one process has the directory open at a time.
//!
//! # A tour
//!
//! ```
//! use nagaya_embedded::{EmbeddedStore, Options};
//! use nagaya_store::{Condition, Item, Key, KeySchema, Query, Store as _, TableSpec, Write};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), nagaya_store::Error> {
//! let store = EmbeddedStore::in_memory(Options::default())?;
//! store.ensure_tables(&[TableSpec::new("todos", KeySchema::strings("PK", "SK"))]).await?;
//!
//! let item = Item::new().with("PK", "FAMILY#f1").with("SK", "TODO#1").with("title", "Buy milk");
//! let create = Write::put("todos", item.clone()).when(Condition::absent("PK"));
//! store.write(create.clone().into()).await?;
//!
//! // The second create fails, and returns the existing item.
//! let error = store.write(create.into()).await.expect_err("the item exists");
//! assert_eq!(error.failed_conditions().expect("a condition failed")[0].current.as_ref(), Some(&item));
//!
//! assert_eq!(store.get("todos", &Key::new("FAMILY#f1", "TODO#1")).await?, Some(item));
//! assert_eq!(store.query(Query::table("todos", "FAMILY#f1")).await?.items.len(), 1);
//! # Ok(())
//! # }
//! ```

mod background;
mod bytes;
mod commit;
mod encryption;
mod engine;
mod ensure;
mod files;
mod free_space;
mod index_build;
mod layout;
mod lock;
mod maintenance;
mod options;
mod prepare;
mod read;
mod record;
mod storage;
mod sweep;
mod upgrade;

pub use encryption::{EncryptionKey, EncryptionProgress, EncryptionState, FILE_OVERHEAD, Keyring, is_key_refused};
pub use engine::EmbeddedStore;
pub use files::keep_new_files_private;
pub use free_space::available_bytes;
pub use lock::is_in_use;
pub use maintenance::{
    BackupContent, BackupPosition, BackupSource, BackupSummary, Finding, JournalState, KeyFile, Progress, Recovery,
    RepairSummary, RestoreExtras, RestoreSummary, StoreStats, TableStats, VerifiedBackup, discard_damaged_commits,
    inspect_damage, is_backup_damaged, new_backup_id, restore_backup, restore_backups, verify_backup, verify_chain,
    verify_encrypted_backup, verify_objects, write_backup,
};
pub use options::Options;
pub use upgrade::is_older_format;
