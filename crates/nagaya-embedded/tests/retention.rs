//! Old changes are removed, however many there are, and their disk space is freed.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Clock, Item, KeySchema, StartPosition, Store as _, TableSpec, Write, WriteSet};

const TABLE: &str = "counters";

fn spec() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK")).with_ttl("expiresAt")
}

fn options(now: &Arc<AtomicI64>) -> Options {
    let now = Arc::clone(now);
    let clock = Clock::new(move || now.load(Ordering::SeqCst));
    Options { clock, retention: Duration::from_secs(60), sweep_interval: None, ..Options::default() }
}

async fn overwrite(store: &EmbeddedStore, items: usize, round: usize) {
    for start in (0..items).step_by(100) {
        let put = |n: usize| {
            let item = Item::new().with("PK", "P").with("SK", format!("{n:06}")).with("round", round as i64);
            Write::put(TABLE, item.with("text", format!("{round}-{n}-").repeat(20)))
        };
        store.write((start..start + 100).map(put).collect::<WriteSet>()).await.expect("a set");
    }
}

#[tokio::test]
async fn one_sweep_removes_all_old_changes() {
    let now = Arc::new(AtomicI64::new(1_800_000_000_000));
    let store = EmbeddedStore::in_memory(options(&now)).expect("memory");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    for round in 0..30 {
        overwrite(&store, 200, round).await;
    }
    now.fetch_add(61_000, Ordering::SeqCst);
    overwrite(&store, 100, 99).await;
    store.sweep().await.expect("a sweep");
    let kept = store.changes(TABLE, StartPosition::Oldest, usize::MAX).await.expect("changes").records;
    assert_eq!(kept.len(), 100, "the changes of the last round");
    let stat = store.stats().expect("it can be counted");
    assert_eq!(stat.tables[0].changes, 100);
    // Later sweeps continue from there.
    now.fetch_add(61_000, Ordering::SeqCst);
    store.sweep().await.expect("a sweep");
    assert_eq!(store.stats().expect("it can be counted").tables[0].changes, 0);
}

/// A clock that is wrong for a moment must neither keep changes for ever nor remove new ones.
#[tokio::test]
async fn timestamps_do_not_go_back() {
    let now = Arc::new(AtomicI64::new(1_800_000_000_000));
    let store = EmbeddedStore::in_memory(options(&now)).expect("memory");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    overwrite(&store, 100, 0).await;
    now.fetch_sub(3_600_000, Ordering::SeqCst);
    overwrite(&store, 100, 1).await;
    now.fetch_add(3_600_000 + 30_000, Ordering::SeqCst);
    store.sweep().await.expect("a sweep");
    assert_eq!(store.stats().expect("it can be counted").tables[0].changes, 200, "none is older than a minute");
}

fn bytes_below(directory: &Path, journals: bool) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            bytes += bytes_below(&path, journals);
        } else if journals || path.extension().is_none_or(|extension| extension != "jnl") {
            // The allocated size, not the length.
            bytes += entry.metadata().map_or(0, |metadata| metadata.blocks() * 512);
        }
    }
    bytes
}

/// Without the journals, which have a limit of their own.
#[tokio::test]
async fn a_small_table_that_is_overwritten_many_times_stays_small_on_disk() {
    let now = Arc::new(AtomicI64::new(1_800_000_000_000));
    let directory = tempfile::tempdir().expect("a directory");
    let small = Options { write_buffer_bytes: 1024 * 1024, ..options(&now) };
    let store = EmbeddedStore::open(directory.path(), small).expect("the directory opens");
    store.ensure_tables(&[spec()]).await.expect("the table is made");
    let found_after = async |round: usize| {
        overwrite(&store, 2_000, round).await;
        now.fetch_add(61_000, Ordering::SeqCst);
        store.sweep().await.expect("a sweep");
        bytes_below(&directory.path().join("data"), false)
    };
    for round in 0..60 {
        found_after(round).await;
    }
    // Only the changes of the last round are retained; they contain each item twice.
    let live = store.stats().expect("it can be counted").tables[0].item_bytes;
    let (bound, mut found) = (3 * live + 2 * live + 3 * 1024 * 1024, u64::MAX);
    // Compactions go on in the background, and on a busy machine they may be some rounds behind.
    for round in 60..120 {
        found = found_after(round).await;
        if found <= bound {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(found <= bound, "{found} bytes in sorted files, {live} live");
}
