//! Where the servers are, and stores on them that nobody else uses.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::Clock;

/// A server to try the engine on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    /// AWS's own, for development.
    DynamodbLocal,
    Dynoxide,
    Dynalite,
}

impl Server {
    /// Its address.
    ///
    /// # Panics
    ///
    /// When nobody told it.
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

    /// What the server can do.
    pub(crate) fn options(self) -> Options {
        let able = !matches!(self, Server::Dynalite);
        Options {
            transactions: able,
            changes: able,
            // A busy machine with a thousand calls at once is slow, not broken.
            attempt_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            ..Options::default()
        }
    }
}

/// A store at an address, in a region of its own.
///
/// DynamoDB Local has a database for each region, and in each ten threads for all of its chores, of which a table with an
/// expiry keeps one: with more than seven of those, an index that is added to a table is never filled.
pub(crate) async fn open(endpoint: &str, options: Options) -> Dynamodb {
    let region = Some(options.prefix.trim_end_matches('-').to_owned());
    let settings = Settings { region, ..Settings::local(endpoint) };
    Dynamodb::open(&settings, options).await.expect("a server on this machine needs nothing")
}

/// The beginning of table names that no other test and no earlier run has used.
pub(crate) fn prefix() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    format!("t{:x}-{}-", nanos(), GIVEN.fetch_add(1, Ordering::Relaxed))
}

/// A number of the environment.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: `{text}`")))
}

/// Another seed in every run; `NAGAYA_SEED` gives one again.
pub(crate) fn seed() -> u64 {
    number("NAGAYA_SEED").unwrap_or_else(|| nanos() as u64)
}

fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
