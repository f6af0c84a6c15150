//! The contract suite: what every engine of the store port ([`nagaya_store::Store`]) has to do.
//!
//! Use it when you write an engine. Implement [`Engine`], which says how to open an empty store, and run the suite in a test
//! of the engine. Each case has a store of its own. A case that needs a capability that the engine does not have is skipped,
//! and the report says so.
//!
//! The cases are examples that can be read, one file for each area, with names that are sentences. They also record the
//! histories of concurrent clients and check that these are linearizable. The suite does not compare random operations with a
//! model.
//!
//! # Example
//!
//! ```
//! use nagaya_contract::{Engine, RETENTION};
//! use nagaya_embedded::{EmbeddedStore, Options};
//! use nagaya_store::{StoreFuture, Clock};
//!
//! struct Memory;
//!
//! impl Engine for Memory {
//!     type Store = EmbeddedStore;
//!
//!     fn open(&self, clock: Clock) -> StoreFuture<'_, EmbeddedStore> {
//!         let options = Options { clock, retention: RETENTION, sweep_interval: None, ..Options::default() };
//!         Box::pin(async { EmbeddedStore::in_memory(options) })
//!     }
//!
//!     fn sweep<'a>(&'a self, store: &'a EmbeddedStore) -> Option<StoreFuture<'a, ()>> {
//!         Some(Box::pin(store.sweep()))
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     // Panics with the cases that failed.
//!     nagaya_contract::run(&Memory).await.assert();
//! }
//! ```

mod changes;
mod concurrency;
mod conditions;
mod expiry;
mod fixture;
mod history;
mod indexes;
mod items;
mod limits;
mod paging;
mod queries;
mod report;
mod scans;
mod tables;
mod updates;
mod values;
mod write_sets;

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};

use self::fixture::{Failure, Fixture, OpenStore};
pub use self::report::{Outcome, Report};
use nagaya_store::{Capabilities, Clock, Error, ManualClock, Store, StoreFuture};

/// How long the stores have to keep changes.
pub const RETENTION: Duration = Duration::from_secs(3600);

/// An engine to test.
pub trait Engine: Sync {
    /// The engine's store.
    type Store: Store + 'static;

    /// Opens a store without tables, which uses this clock and keeps changes for [`RETENTION`].
    ///
    /// It must not sweep by itself: cases check that expired items are hidden before a sweep.
    fn open(&self, clock: Clock) -> StoreFuture<'_, Self::Store>;

    /// Removes all expired items and all changes older than [`RETENTION`]; `None` when the engine cannot be asked to.
    fn sweep<'a>(&'a self, store: &'a Self::Store) -> Option<StoreFuture<'a, ()>> {
        let _ = store;
        None
    }
}

/// A moment in 2100: servers that sweep by a clock of their own have nothing to sweep.
const START: i64 = 4_102_444_800_000;

/// A case of the contract.
struct Case {
    /// The name of its function.
    function: &'static str,
    /// The capabilities that it needs.
    requirements: &'static [Requirement],
    run: for<'t> fn(&'t Fixture<'_>) -> CaseFuture<'t>,
}

/// The result of a case.
type CaseFuture<'t> = BoxFuture<'t, Result<(), Failure>>;

/// A capability that a case needs.
#[derive(Debug, Clone, Copy)]
enum Requirement {
    Transactions,
    CrossPartition,
    OldImages,
    Changes,
    ExactNumbers,
    TypedKeys,
    ScanSegments,
    SnapshotReads,
    ConsistentIndexes,
    Sweep,
}

impl Requirement {
    fn name(self) -> &'static str {
        match self {
            Requirement::Transactions => "transactions",
            Requirement::CrossPartition => "write sets across partitions",
            Requirement::OldImages => "old images in changes",
            Requirement::Changes => "changes",
            Requirement::ExactNumbers => "exact numbers",
            Requirement::TypedKeys => "keys of numbers and bytes",
            Requirement::ScanSegments => "scan segments",
            Requirement::SnapshotReads => "reads of one moment",
            Requirement::ConsistentIndexes => "indexes that show every write at once",
            Requirement::Sweep => "a sweep on request",
        }
    }

    fn is_met_by(self, engine: Capabilities, sweeps: bool) -> bool {
        match self {
            Requirement::Transactions => engine.transactions,
            Requirement::CrossPartition => engine.transactions && engine.cross_partition,
            Requirement::OldImages => engine.changes && engine.old_images,
            Requirement::Changes => engine.changes,
            Requirement::ExactNumbers => engine.exact_numbers,
            Requirement::TypedKeys => engine.typed_keys,
            Requirement::ScanSegments => engine.scan_segments,
            Requirement::SnapshotReads => engine.snapshot_reads,
            Requirement::ConsistentIndexes => engine.consistent_indexes,
            Requirement::Sweep => sweeps,
        }
    }
}

/// Lists the cases of an area: functions, each with the capabilities that it needs. `check(examples)` is a case of which
/// the function gives the examples, and `check` tries them.
macro_rules! cases {
    ($($function:ident $(($examples:ident))? $([$($need:ident),+])?,)+) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            $crate::Case {
                function: $crate::cases!(@name $function $($examples)?),
                requirements: &[$($($crate::Requirement::$need),+)?],
                run: |fixture| Box::pin($function(fixture $(, $examples())?)),
            },
        )+];
    };
    (@name $function:ident) => { stringify!($function) };
    (@name $check:ident $examples:ident) => { stringify!($examples) };
}
use cases;

/// The whole contract, by area.
static AREAS: &[(&str, &[Case])] = &[
    ("items", items::CASES),
    ("conditions", conditions::CASES),
    ("updates", updates::CASES),
    ("write sets", write_sets::CASES),
    ("queries", queries::CASES),
    ("paging", paging::CASES),
    ("indexes", indexes::CASES),
    ("scans", scans::CASES),
    ("limits", limits::CASES),
    ("expiry", expiry::CASES),
    ("changes", changes::CASES),
    ("tables", tables::CASES),
    ("concurrency", concurrency::CASES),
    ("histories", history::CASES),
];

/// Runs the whole contract on an engine.
pub async fn run<E: Engine>(engine: &E) -> Report {
    let mut report = Report::new("contract", "the engine lacks", None);
    for (area, cases) in AREAS {
        for case in *cases {
            // A panic fails the case; the other cases still run.
            let outcome = match AssertUnwindSafe(attempt(engine, case)).catch_unwind().await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(failure)) => Outcome::Failed(failure.to_string()),
                Err(_) => Outcome::Failed("it panicked".to_owned()),
            };
            report.add(area, case.function, outcome);
        }
    }
    report
}

async fn attempt<E: Engine>(engine: &E, case: &Case) -> Result<Outcome, Failure> {
    let clock = ManualClock::at(START);
    let opened = OpenedEngine { engine, store: engine.open(clock.clock()).await? };
    let (capabilities, sweeps) = (opened.store.capabilities(), opened.sweep().is_some());
    if let Some(missing) = case.requirements.iter().find(|requirement| !requirement.is_met_by(capabilities, sweeps)) {
        return Ok(Outcome::Skipped(missing.name()));
    }
    let fixture = Fixture::new(&opened, clock);
    opened.store.ensure_tables(&[fixture::spec()]).await?;
    (case.run)(&fixture).await?;
    Ok(Outcome::Passed)
}

struct OpenedEngine<'e, E: Engine> {
    engine: &'e E,
    store: E::Store,
}

impl<E: Engine> OpenStore for OpenedEngine<'_, E> {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn sweep(&self) -> Option<StoreFuture<'_, ()>> {
        self.engine.sweep(&self.store)
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Failure::new(format!("unexpected error `{}`: {error}", error.code()))
    }
}
