//! The embedded engine: a store in one directory on disk, or in memory for tests.
//!
//! An item, its index entries, its expiry and the record of its change are one commit. A write is acknowledged once
//! its commit is synced to disk; writes that come at the same time share one sync, and a lone one waits for nobody.
//! Conditions are evaluated one after another by a single thread, so that conditional writes are linearizable; readers
//! go beside it on snapshots, and never see half a commit.
//!
//! It is not a server: one process has the directory open at a time.
//!
//! # A tour
//!
//! ```
//! use nagaya_embedded::{Embedded, Options};
//! use nagaya_store::{Condition, Item, Key, KeySchema, Query, Store as _, TableSpec, Write};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), nagaya_store::Error> {
//! let store = Embedded::memory(Options::default())?;
//! store.ensure(&[TableSpec::new("todos", KeySchema::strings("PK", "SK"))]).await?;
//!
//! let item = Item::new().with("PK", "FAMILY#f1").with("SK", "TODO#1").with("title", "Buy milk");
//! let create = Write::put("todos", item.clone()).when(Condition::absent("PK"));
//! store.write(create.clone().into()).await?;
//!
//! // The second create finds the first.
//! let error = store.write(create.into()).await.expect_err("it is there already");
//! assert_eq!(error.failed_conditions().expect("a condition failed")[0].found.as_ref(), Some(&item));
//!
//! assert_eq!(store.get("todos", &Key::new("FAMILY#f1", "TODO#1")).await?, Some(item));
//! assert_eq!(store.query(Query::table("todos", "FAMILY#f1")).await?.items.len(), 1);
//! # Ok(())
//! # }
//! ```

mod backing;
mod build;
mod commit;
mod engine;
mod ensure;
mod housekeeping;
mod layout;
mod lock;
mod maintain;
mod options;
mod plan;
mod read;
mod record;
mod space;
mod sweep;
mod upgrade;

pub use engine::Embedded;
pub use lock::is_in_use;
pub use maintain::{
    Backup, Checked, Content, Finding, JournalState, KeyFile, ObjectsAndKeys, Progress, Recovery, Repair, Restored,
    Since, Source, Stat, TableStat, accept_loss, check_backup, check_chain, inspect_damage, is_damaged, new_id, reason,
    restore_backup, restore_backups, verify_objects, write_backup,
};
pub use options::Options;
