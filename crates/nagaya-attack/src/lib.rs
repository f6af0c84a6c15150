//! The attack suite: an attacker who has the handle of one tenant tries to reach other tenants, on any design and engine.
//!
//! Use it for your own design, or for your own engine. Implement [`Engine`], which says how to open an empty store, and run the
//! suite in a test. To also attack a server in front of the data layer, implement [`Gateway`] and use [`run_through`].
//!
//! Every attack is made in two environments. In one, the other tenants have items; in the other, they have public items only.
//! The suite passes when:
//!
//! - *Nothing leaks*: every answer is the same in both environments, byte for byte: values, errors and their texts, the lengths
//!   of pages, cursors. Ids and times are generated in the same way in both.
//! - *Nothing is changed*: the items of others do not change, and every new item has the attacker's tenant.
//! - *Users keep to themselves*: with a handle for own items, those of other users of the tenant do not exist and cannot be made, and
//!   an idempotency key gives nothing to others and nothing that was deleted.
//! - *Nobody writes the audit*, and no page is larger than it may be.
//! - An item that was written into the store with a wrong tenant is reported as a breach, and never returned.
//!
//! Two kinds of values reveal by their nature that they are taken, and pass: a value that is unique among *all* tenants, and a
//! key that contains no tenant and that callers choose.
//!
//! # Example
//!
//! ```
//! use nagaya_attack::{Engine, Options};
//! use nagaya_embedded::EmbeddedStore;
//! use nagaya_store::{StoreFuture, Clock};
//!
//! struct Memory;
//!
//! impl Engine for Memory {
//!     type Store = EmbeddedStore;
//!
//!     fn open(&self, clock: Clock) -> StoreFuture<'_, EmbeddedStore> {
//!         Box::pin(async { EmbeddedStore::in_memory(nagaya_embedded::Options { clock, ..nagaya_embedded::Options::default() }) })
//!     }
//! }
//!
//! let design = nagaya_design::check(
//!     r#"
//!     name    = "notes"
//!     version = "1.0"
//!
//!     [tenant]
//!     field = "teamId"
//!
//!     [table.main]
//!     key = ["PK", "SK"]
//!
//!     [entity.note]
//!     table = "main"
//!     key   = { PK = "TEAM#{teamId}", SK = "NOTE#{noteId}" }
//!
//!     [entity.note.fields]
//!     teamId = { type = "string", min = 1, max = 64 }
//!     noteId = { type = "ulid", default = "new" }
//!     text   = { type = "string", max = 4000 }
//!
//!     [access.notes]
//!     entity = "note"
//!     "#,
//!     &[],
//! );
//! let design = design.design.expect("the design is sound");
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
//! // Panics with the attacks that succeeded.
//! let options = Options { steps: 50, ..Options::default() };
//! nagaya_attack::run_with(&design, &Memory, options).await.assert();
//! # });
//! ```

mod action;
mod audit;
mod constraints;
mod cursors;
mod environment;
mod fields;
mod gateway;
mod ids;
mod json;
mod lists;
mod pages;
mod random;
mod routes;
mod scenario;
mod tampered_items;
mod tenant_names;
mod users;
mod values;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
pub use nagaya_contract::{Engine, Outcome, Report};
use nagaya_design::Design;

use self::gateway::NoGateway;
use self::scenario::{Failure, Scenario};
pub use self::{
    action::{Action, FurtherRoute, MAX_PAGES, Observation},
    gateway::{AttackClient, BoxFuture, Gateway, UNSUPPORTED},
};

/// How many attacks are made, and with which random choices.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The seed of the random choices; the report shows it.
    pub seed: u64,
    /// How many random attacks are made.
    pub steps: usize,
    /// Of the other attacks, one of this many is made: 1 makes all; use more for a slow engine. The seed chooses which.
    pub one_in: usize,
}

impl Default for Options {
    fn default() -> Self {
        let mut seed = [0; 8];
        // Without randomness every run makes the same attacks.
        let _ = getrandom::fill(&mut seed);
        Options { seed: u64::from_be_bytes(seed), steps: 300, one_in: 1 }
    }
}

/// A kind of attack.
struct Case {
    /// The name of its function.
    function: &'static str,
    run: for<'t> fn(&'t mut Scenario) -> CaseFuture<'t>,
}

/// The result of a case.
type CaseFuture<'t> = BoxFuture<'t, Result<(), Failure>>;

/// The cases of an area.
macro_rules! cases {
    ($($function:ident,)+) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            $crate::Case { function: stringify!($function), run: |scenario| Box::pin($function(scenario)) },
        )+];
    };
}
use cases;

/// The whole suite, by area.
static AREAS: &[(&str, &[Case])] = &[
    ("tenant names", tenant_names::CASES),
    ("ids", ids::CASES),
    ("fields", fields::CASES),
    ("lists", lists::CASES),
    ("cursors", cursors::CASES),
    ("constraints", constraints::CASES),
    ("tampered items", tampered_items::CASES),
    ("audit", audit::CASES),
    ("routes", routes::CASES),
    ("random", random::CASES),
    // The last ones: their items are in one environment only.
    ("users", users::CASES),
    ("pages", pages::CASES),
];

/// Attacks a design on an engine, with other random attacks each time.
pub async fn run<E: Engine>(design: &Design, engine: &E) -> Report {
    run_with(design, engine, Options::default()).await
}

/// Attacks a design on an engine.
pub async fn run_with<E: Engine>(design: &Design, engine: &E, options: Options) -> Report {
    run_through(&NoGateway, design, engine, options).await
}

/// Attacks a design on an engine through a gateway, such as a server.
pub async fn run_through<E: Engine>(gateway: &dyn Gateway, design: &Design, engine: &E, options: Options) -> Report {
    let mut report = Report::new("attack", "the design has", Some(options.seed));
    for attacker in environment::attackers(design) {
        // Stores are opened once for each attacker: what a case leaves behind is in both environments.
        let mut scenario = match Scenario::open(gateway, design, engine, options, attacker.clone()).await {
            Ok(scenario) => scenario,
            Err(failure) => {
                report.add(&format!("{attacker:?} environments"), "are made", failure.into());
                continue;
            }
        };
        for (area, cases) in AREAS {
            for case in *cases {
                // A panic fails the case; the other cases still run.
                let outcome = AssertUnwindSafe((case.run)(&mut scenario)).catch_unwind().await;
                let outcome = outcome.unwrap_or_else(|_| Err(Failure::new("it panicked")));
                let outcome = outcome.map_or_else(Outcome::from, |()| Outcome::Passed);
                report.add(&format!("{attacker:?} {area}"), case.function, outcome);
            }
        }
    }
    report
}
