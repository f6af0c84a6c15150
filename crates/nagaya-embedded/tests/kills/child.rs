//! The process that is killed: it writes all the time, and repeats one other activity.

use std::{path::Path, sync::Arc, thread};

use nagaya_embedded::{EncryptionKey, restore_backup};
use nagaya_store::Store as _;

use crate::load;

/// The activity during which the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Nothing but the writes.
    Write,
    /// Building an index of a large table.
    Index,
    /// Flushing memtables to sorted files.
    Flush,
    Compaction,
    Backup,
    /// Encrypting everything with another key.
    KeyChange,
    Restore,
}

impl Activity {
    pub(crate) const ALL: [Activity; 7] = [
        Activity::Write,
        Activity::Index,
        Activity::Flush,
        Activity::Compaction,
        Activity::Backup,
        Activity::KeyChange,
        Activity::Restore,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Activity::ALL.into_iter().find(|activity| format!("{activity:?}") == name)
    }
}

/// The keys of an encrypted store.
pub(crate) fn keys() -> [EncryptionKey; 2] {
    [[1; 32], [2; 32]].map(|bytes| EncryptionKey::parse(&bytes).expect("32 bytes"))
}

/// Runs until it is killed.
pub(crate) async fn run(activity: Activity, round: u32, base: &Path) {
    if activity == Activity::Restore {
        // The test harness has begun this line.
        println!("\nbegun");
        restore_backup(&base.join("whole.nagaya"), &base.join("restored"), &mut |_| {}).expect("it can be restored");
        println!("restored");
        return;
    }
    let store = Arc::new(crate::open(&base.join("store")));
    // The indexes of earlier rounds exist, or their builds were interrupted.
    store.ensure_tables(&load::specs(round)).await.expect("the tables are made");
    let busy = Arc::clone(&store);
    let target = base.join("backup.nagaya");
    let handle = tokio::runtime::Handle::current();
    // The test harness has begun this line.
    println!();
    if activity != Activity::Flush {
        println!("begun");
    }
    thread::spawn(move || {
        loop {
            match activity {
                Activity::Index => {
                    handle.block_on(busy.ensure_tables(&load::specs(round + 1))).expect("the index is made");
                    println!("indexed {}", round + 1);
                    return;
                }
                Activity::Write | Activity::Flush | Activity::Restore => return,
                Activity::Compaction => busy.compact().expect("it can be compacted"),
                Activity::KeyChange => {
                    let current = busy.encryption().expect("a state").map(|state| state.key_id);
                    let next = keys().into_iter().find(|key| Some(key.id()) != current).expect("there are two");
                    // A change that a kill has interrupted may still be going on.
                    handle.block_on(busy.change_key(next)).expect("the key is changed");
                    while busy.encryption().expect("a state").is_some_and(|state| state.progress.is_some()) {
                        thread::yield_now();
                    }
                    println!("changed");
                }
                Activity::Backup => {
                    busy.backup(&target, &mut |_| {}).expect("a backup");
                    println!("backed up");
                }
            }
        }
    });
    load::write_for_ever(store, activity == Activity::Flush).await;
}
