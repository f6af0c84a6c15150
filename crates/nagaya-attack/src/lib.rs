//! The attack suite: somebody who holds a tenant's handle tries to reach another tenant, on a design and an engine of yours.
//!
//! A test implements [`Engine`] (how to open an empty store with a clock of ours), and says
//! `attack::run(&design, &engine).await.assert()`.
//!
//! Everything happens in two worlds. In one the other tenants are at home, in the other they have nothing but what is
//! public; the attacker does the same in both. Pass means:
//!
//! - *Nothing comes out*: every answer is the same in both worlds, byte for byte: values, errors and their texts, the
//!   lengths of pages, cursors. Ids and times are made the same way in both, so that nothing has to be left out.
//! - *Nothing goes in*: what the others have stored stays as it is, and whatever is new carries the attacker's tenant.
//! - An item that somebody wrote into the store with a wrong wall is an error and an alarm, never a result.
//!
//! Two things tell by their nature, and are not held against a design: a value that is unique among *all* tenants tells
//! that it is taken, and so does a key that has no tenant in it and that callers choose themselves.

mod action;
mod cursors;
mod door;
mod fields;
mod forge;
mod ids;
mod json;
mod lists;
mod names;
mod planted;
mod promises;
mod random;
mod report;
mod trial;
mod world;

use std::{future::Future, panic::AssertUnwindSafe, pin::Pin};

use futures_util::FutureExt as _;
use nagaya_design::Design;
use nagaya_store::{Answer, Clock, Store};

use self::door::Open;
use self::trial::{Failure, Trial};
pub use self::{
    action::{Action, MOST_PAGES, Seen},
    door::{Door, Hand, Later},
    report::{Outcome, Report},
};

/// An engine on trial.
pub trait Engine: Sync {
    /// Its store.
    type Store: Store + 'static;

    /// A store without tables, which tells the time by this clock.
    fn open(&self, clock: Clock) -> Answer<'_, Self::Store>;
}

/// How long and by which luck random attacks run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Where the random choices start; the report tells it.
    pub seed: u64,
    /// How many random attacks are made.
    pub steps: usize,
    /// Of all other attacks, one in so many is made: 1 for all of them, more for a slow engine. The seed says which.
    pub one_in: usize,
}

impl Default for Options {
    fn default() -> Self {
        let mut seed = [0; 8];
        // Without randomness every run makes the same attacks, which is still something.
        let _ = getrandom::fill(&mut seed);
        Options { seed: u64::from_be_bytes(seed), steps: 300, one_in: 1 }
    }
}

/// A kind of attack.
struct Case {
    /// The name of its function.
    function: &'static str,
    run: for<'t> fn(&'t mut Trial) -> Verdict<'t>,
}

/// Whether a wall holds, to be awaited.
type Verdict<'t> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 't>>;

/// The cases of an area.
macro_rules! cases {
    ($($function:ident,)+) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            $crate::Case { function: stringify!($function), run: |trial| Box::pin($function(trial)) },
        )+];
    };
}
use cases;

/// The whole suite, by area.
static AREAS: &[(&str, &[Case])] = &[
    ("names", names::CASES),
    ("ids", ids::CASES),
    ("fields", fields::CASES),
    ("lists", lists::CASES),
    ("cursors", cursors::CASES),
    ("promises", promises::CASES),
    ("planted", planted::CASES),
    ("random", random::CASES),
];

/// Attacks a design on an engine, with other random attacks each time.
pub async fn run<E: Engine>(design: &Design, engine: &E) -> Report {
    run_with(design, engine, Options::default()).await
}

/// Attacks a design on an engine.
pub async fn run_with<E: Engine>(design: &Design, engine: &E, options: Options) -> Report {
    run_through(&Open, design, engine, options).await
}

/// Attacks a design on an engine through what stands before its walls.
pub async fn run_through<E: Engine>(door: &dyn Door, design: &Design, engine: &E, options: Options) -> Report {
    let mut report = Report::new(options.seed);
    for attacker in world::attackers(design) {
        // Stores are made once for each attacker: what a case leaves behind is there in both worlds.
        let mut trial = match Trial::open(door, design, engine, options, attacker.clone()).await {
            Ok(trial) => trial,
            Err(failure) => {
                report.add(&attacker, "worlds", "are made", Err(failure));
                continue;
            }
        };
        for (area, cases) in AREAS {
            for case in *cases {
                // A layer that panics fails the case, and the others are tried all the same.
                let outcome = AssertUnwindSafe((case.run)(&mut trial)).catch_unwind().await;
                let outcome = outcome.unwrap_or_else(|_| Err(Failure::new("it panicked")));
                report.add(&attacker, area, case.function, outcome);
            }
        }
    }
    report
}
