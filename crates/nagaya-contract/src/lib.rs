//! The contract: what every engine has to do, tried on a real one.
//!
//! An engine's test implements [`Engine`] (how to open an empty store with a clock of ours), and says
//! `contract::run(&engine).await.assert()`. Each case has a store of its own. A case that needs what the engine's
//! capabilities deny is skipped, and the report says so.
//!
//! It is not a model test: it tells what is right in examples that can be read. Cases are functions whose names are
//! sentences; each area is one file with its cases listed on top.

mod changes;
mod concurrency;
mod conditions;
mod expiry;
mod history;
mod indexes;
mod items;
mod limits;
mod paging;
mod queries;
mod report;
mod scans;
mod tables;
mod trial;
mod updates;
mod values;
mod write_sets;

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;

pub use self::report::{Outcome, Report};
use self::trial::{Failure, Subject, Trial};
use nagaya_store::{Answer, Capabilities, Error, Store};

/// How long the stores of the contract keep changes.
pub const RETENTION: Duration = Duration::from_secs(3600);

/// An engine on trial.
pub trait Engine: Sync {
    /// Its store.
    type Store: Store;

    /// A store without tables, which tells the time by this clock and keeps changes for [`RETENTION`].
    ///
    /// It must not sweep on its own, or the cases cannot see that expired items stay unseen before a sweep.
    fn open(&self, clock: Clock) -> Answer<'_, Self::Store>;

    /// Removes all expired items and all changes older than [`RETENTION`]; `None` when the engine cannot be asked to.
    fn sweep<'a>(&'a self, store: &'a Self::Store) -> Option<Answer<'a, ()>> {
        let _ = store;
        None
    }
}

/// A clock that moves only when a case moves it.
#[derive(Debug, Clone)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Some moment in 2100: servers that sweep by a clock of their own have nothing to sweep.
    fn new() -> Self {
        Clock(Arc::new(AtomicI64::new(4_102_444_800_000)))
    }

    /// The milliseconds since 1970.
    pub fn millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn seconds(&self) -> i64 {
        self.millis().div_euclid(1000)
    }

    fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }
}

/// A piece of the contract.
struct Case {
    /// The name of its function.
    function: &'static str,
    /// What the engine has to be able to do for it.
    needs: &'static [Need],
    run: for<'t> fn(&'t Trial<'_>) -> Verdict<'t>,
}

/// Whether a case holds, to be awaited.
type Verdict<'t> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 't>>;

impl Case {
    /// What it claims, as a sentence.
    fn name(&self, area: &str) -> String {
        format!("{area}: {}", self.function.replace('_', " "))
    }
}

/// What a case needs of an engine.
#[derive(Debug, Clone, Copy)]
enum Need {
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

impl Need {
    fn is_met(self, by: Capabilities, sweeps: bool) -> bool {
        match self {
            Need::Transactions => by.transactions,
            Need::CrossPartition => by.transactions && by.cross_partition,
            Need::OldImages => by.changes && by.old_images,
            Need::Changes => by.changes,
            Need::ExactNumbers => by.exact_numbers,
            Need::TypedKeys => by.typed_keys,
            Need::ScanSegments => by.scan_segments,
            Need::SnapshotReads => by.snapshot_reads,
            Need::ConsistentIndexes => by.consistent_indexes,
            Need::Sweep => sweeps,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Need::Transactions => "transactions",
            Need::CrossPartition => "write sets across partitions",
            Need::OldImages => "old images in changes",
            Need::Changes => "changes",
            Need::ExactNumbers => "exact numbers",
            Need::TypedKeys => "keys of numbers and bytes",
            Need::ScanSegments => "scan segments",
            Need::SnapshotReads => "reads of one moment",
            Need::ConsistentIndexes => "indexes that show every write at once",
            Need::Sweep => "a sweep on request",
        }
    }
}

/// The cases of an area: functions, each with what it needs.
macro_rules! cases {
    ($($function:ident $([$($need:ident),+])?,)+) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            $crate::Case {
                function: stringify!($function),
                needs: &[$($($crate::Need::$need),+)?],
                run: |trial| Box::pin($function(trial)),
            },
        )+];
    };
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

/// Tries an engine against the whole contract.
pub async fn run<E: Engine>(engine: &E) -> Report {
    let mut report = Report::default();
    for (area, cases) in AREAS {
        for case in *cases {
            // An engine that panics fails the case, and the others are tried all the same.
            let outcome = match AssertUnwindSafe(attempt(engine, case)).catch_unwind().await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(failure)) => Outcome::Failed(failure.to_string()),
                Err(_) => Outcome::Failed("it panicked".to_owned()),
            };
            report.cases.push((case.name(area), outcome));
        }
    }
    report
}

async fn attempt<E: Engine>(engine: &E, case: &Case) -> Result<Outcome, Failure> {
    let clock = Clock::new();
    let opened = Opened { engine, store: engine.open(clock.clone()).await? };
    let (capabilities, sweeps) = (opened.store.capabilities(), opened.sweep().is_some());
    if let Some(missing) = case.needs.iter().find(|need| !need.is_met(capabilities, sweeps)) {
        return Ok(Outcome::Skipped(missing.name()));
    }
    let trial = Trial::new(&opened, clock);
    opened.store.ensure(&[trial::spec()]).await?;
    (case.run)(&trial).await?;
    Ok(Outcome::Passed)
}

struct Opened<'e, E: Engine> {
    engine: &'e E,
    store: E::Store,
}

impl<E: Engine> Subject for Opened<'_, E> {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn sweep(&self) -> Option<Answer<'_, ()>> {
        self.engine.sweep(&self.store)
    }
}

impl From<Error> for Failure {
    #[track_caller]
    fn from(error: Error) -> Self {
        Failure::new(format!("unexpected error `{}`: {error}", error.code()))
    }
}
