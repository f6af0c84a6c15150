//! The test servers, and stores on them that no other test uses.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::Clock;

/// A server that the engine is tested on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    /// The development server of AWS.
    DynamodbLocal,
    Dynoxide,
    Dynalite,
}

impl Server {
    /// Its address.
    ///
    /// # Panics
    ///
    /// When its environment variable is not set.
    pub(crate) fn endpoint(self) -> String {
        let variable = match self {
            Server::DynamodbLocal => "NAGAYA_TEST_DYNAMODB_LOCAL",
            Server::Dynoxide => "NAGAYA_TEST_DYNOXIDE",
            Server::Dynalite => "NAGAYA_TEST_DYNALITE",
        };
        std::env::var(variable).unwrap_or_else(|_| {
            panic!(
                "{variable} is not set: run `cargo xtask test`, \
                 or `cargo xtask servers` and set the variables it prints"
            )
        })
    }

    /// A store without tables.
    pub(crate) async fn open(self, clock: Clock) -> Dynamodb {
        open(&self.endpoint(), Options { clock, prefix: prefix(), ..self.options() }).await
    }

    /// Options with what the server supports.
    pub(crate) fn options(self) -> Options {
        let is_complete = !matches!(self, Server::Dynalite);
        Options {
            transactions: is_complete,
            changes: is_complete,
            // Tests make many calls at once on a busy machine.
            attempt_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            ..Options::default()
        }
    }
}

/// A store at an address, in a region of its own.
///
/// DynamoDB Local has a database for each region, with ten background threads each. A table with TTL occupies one of them:
/// with more than seven such tables, an added index is never backfilled.
pub(crate) async fn open(endpoint: &str, options: Options) -> Dynamodb {
    let region = Some(options.prefix.trim_end_matches('-').to_owned());
    let settings = Settings { region, ..Settings::local(endpoint) };
    Dynamodb::open(&settings, options).await.expect("a server on this machine needs no settings")
}

/// A prefix for table names that no other test and no earlier run has used.
pub(crate) fn prefix() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    format!("t{:x}-{}-", nanos(), GIVEN.fetch_add(1, Ordering::Relaxed))
}

/// A number from an environment variable.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: `{text}`")))
}

/// The seed in `NAGAYA_SEED`, or a new one for each run.
pub(crate) fn seed() -> u64 {
    number("NAGAYA_SEED").unwrap_or_else(|| nanos() as u64)
}

fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
