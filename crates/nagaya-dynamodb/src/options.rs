//! How the engine behaves, apart from where the tables are.

use std::time::Duration;

use nagaya_store::Clock;

/// How the engine behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The clock by which items expire.
    pub clock: Clock,
    /// What the names of tables begin with in the account: `dev-` makes `orders` the table `dev-orders`.
    pub prefix: String,
    /// Whether the server has transactions. Without them (dynalite), write sets have one action.
    pub transactions: bool,
    /// Whether the server has streams. Without them, changes cannot be read.
    pub changes: bool,
    /// Whether the server answers a failed condition with the item that it found. Without that (dynalite), the item is read
    /// afterwards: that costs a read, and may find a later one.
    pub returns_found: bool,
    /// Whether `ensure` adds the indexes that a table lacks which is there already. Filling one takes minutes to hours, and
    /// teams add one per deployment: a server that starts leaves them alone, and what needs one says that it is missing.
    pub adds_indexes: bool,
    /// How a write set of one action is sent.
    pub lone: Lone,
    /// How long a call takes at most, all attempts together.
    pub call_timeout: Duration,
    /// How long one attempt waits for its answer.
    pub attempt_timeout: Duration,
    /// How often a call is tried at most.
    pub attempts: u32,
    /// The longest wait before the second attempt; each further wait may be twice as long. Waits are random up to that.
    pub first_backoff: Duration,
    /// The longest wait of all.
    pub longest_backoff: Duration,
    /// How many retries all calls together may make at once: an outage must not multiply the load. Each retry takes one
    /// away, one that succeeds gives it back, and so do some calls without a retry.
    pub retry_budget: u32,
    /// How long the description of a table is trusted before it is asked for again.
    pub description_age: Duration,
}

/// How a write set of one action is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lone {
    /// As `PutItem`, `UpdateItem` or `DeleteItem`. When the answer to an action that cannot be repeated is lost, the call
    /// fails with [`nagaya_store::ErrorKind::Unanswered`].
    #[default]
    Plain,
    /// As a transaction of one, which has a token and can always be repeated. Writes cost twice as much, and the item
    /// after an update is read afterwards: it may already have later changes.
    Token,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: Clock::system(),
            prefix: String::new(),
            transactions: true,
            changes: true,
            returns_found: true,
            adds_indexes: true,
            lone: Lone::Plain,
            call_timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(2),
            attempts: 5,
            first_backoff: Duration::from_millis(50),
            longest_backoff: Duration::from_secs(1),
            retry_budget: 100,
            description_age: Duration::from_secs(300),
        }
    }
}
