//! The contract of the store port, on the embedded engine.

use std::sync::atomic::{AtomicU32, Ordering};

use nagaya_contract::{self as contract, Engine, Outcome, RETENTION};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Clock, Error, StoreFuture};
use tempfile::TempDir;

/// Proves the embedded engine's part of N2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_mode_keeps_the_contract() {
    contract::run(&Memory).await.assert();
}

/// Proves the embedded engine's part of N2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_keeps_the_contract() {
    let root = TempDir::new().expect("a temporary directory can be made");
    contract::run(&Disk { root, opened: AtomicU32::new(0) }).await.assert();
}

/// Missing capabilities are reported, not ignored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_cannot_be_swept_skips_the_cases_that_need_it() {
    let report = contract::run(&Unswept).await;
    let skipped = report.cases.iter().filter(|(_, outcome)| *outcome == Outcome::Skipped("a sweep on request")).count();
    assert!(skipped > 5, "{report}");
    assert!(report.to_string().contains("(the engine lacks a sweep on request)"), "{report}");
}

struct Unswept;

impl Engine for Unswept {
    type Store = EmbeddedStore;

    fn open(&self, clock: Clock) -> StoreFuture<'_, EmbeddedStore> {
        Memory.open(clock)
    }
}

struct Memory;

impl Engine for Memory {
    type Store = EmbeddedStore;

    fn open(&self, clock: Clock) -> StoreFuture<'_, EmbeddedStore> {
        Box::pin(async { EmbeddedStore::in_memory(options(clock)) })
    }

    fn sweep<'a>(&'a self, store: &'a EmbeddedStore) -> Option<StoreFuture<'a, ()>> {
        Some(Box::pin(sweep(store)))
    }
}

struct Disk {
    root: TempDir,
    opened: AtomicU32,
}

impl Engine for Disk {
    type Store = EmbeddedStore;

    fn open(&self, clock: Clock) -> StoreFuture<'_, EmbeddedStore> {
        let directory = self.root.path().join(self.opened.fetch_add(1, Ordering::Relaxed).to_string());
        Box::pin(async { EmbeddedStore::open(directory, options(clock)) })
    }

    fn sweep<'a>(&'a self, store: &'a EmbeddedStore) -> Option<StoreFuture<'a, ()>> {
        Some(Box::pin(sweep(store)))
    }
}

fn options(clock: Clock) -> Options {
    Options { clock, retention: RETENTION, sweep_interval: None, ..Options::default() }
}

async fn sweep(store: &EmbeddedStore) -> Result<(), Error> {
    store.sweep().await
}
