//! Options of the engine: timeouts, retries, and what the server supports.

use std::time::Duration;

use nagaya_store::Clock;

/// Options of the engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// The clock for the expiry of items.
    pub clock: Clock,
    /// A prefix for all table names in the account: with `dev-`, `orders` is the table `dev-orders`.
    pub prefix: String,
    /// Whether the server supports transactions. Without them (dynalite), write sets have one action.
    pub transactions: bool,
    /// Whether the server supports streams. Without them, changes cannot be read.
    pub changes: bool,
    /// Whether the response to a failed condition contains the stored item. If not (dynalite), the engine reads the item
    /// afterwards: that costs a read, and may return a later version.
    pub returns_item_on_failed_condition: bool,
    /// Whether `ensure` adds missing indexes to an existing table. Backfilling an index takes minutes to hours, and teams add
    /// one per deployment. So a server that starts does not add them, and queries on a missing index fail.
    pub adds_missing_indexes: bool,
    /// How a write set of one action is sent.
    pub single_write_mode: SingleWriteMode,
    /// The timeout of a call with all of its attempts.
    pub call_timeout: Duration,
    /// The timeout of one attempt.
    pub attempt_timeout: Duration,
    /// The most attempts of a call.
    pub max_attempts: u32,
    /// The longest delay before the second attempt. The limit doubles with each attempt; delays are random up to it.
    pub initial_backoff: Duration,
    /// The longest delay before any attempt.
    pub max_backoff: Duration,
    /// The retry budget that all calls share, so that an outage does not multiply the load. A retry takes one; a successful
    /// retry gives it back, and a call that succeeds at once gives back a part.
    pub retry_budget: u32,
    /// How long the description of a table is cached.
    pub description_cache_time: Duration,
}

/// How a write set of one action is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SingleWriteMode {
    /// As `PutItem`, `UpdateItem` or `DeleteItem`. When the response to an action that is not idempotent is lost, the call
    /// fails with [`nagaya_store::ErrorKind::OutcomeUnknown`].
    #[default]
    Plain,
    /// As a transaction of one action, whose client request token makes it safe to retry. Writes cost twice as much, and the
    /// item after an update is read separately: it may already have later changes.
    Transaction,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: Clock::system(),
            prefix: String::new(),
            transactions: true,
            changes: true,
            returns_item_on_failed_condition: true,
            adds_missing_indexes: true,
            single_write_mode: SingleWriteMode::Plain,
            call_timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(2),
            max_attempts: 5,
            initial_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(1),
            retry_budget: 100,
            description_cache_time: Duration::from_secs(300),
        }
    }
}
