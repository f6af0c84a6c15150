//! The DynamoDB engine: the store port on DynamoDB, DynamoDB Local and DynamoDB-compatible clusters such as ScyllaDB
//! Alternator.
//!
//! A [`Dynamodb`] is a [`nagaya_store::Store`] like any other: the same items, conditions, write sets, queries and changes,
//! and the same errors. What the service lacks is made up for where it can be done exactly (items that have expired but
//! are not swept yet are never seen; an update of what is not there makes it), and said in the capabilities where it
//! cannot: indexes follow their table soon instead of at once, and a batch or page may show half of a write set.
//!
//! It is not a client for whatever DynamoDB can do: there are no local indexes, no PartiQL, no projections. It does not
//! guess either. A write whose answer was lost, and which must not happen twice, ends as
//! [`ErrorKind::Unanswered`](nagaya_store::ErrorKind::Unanswered), never as a false success or a false failure.
//!
//! # A tour
//!
//! ```no_run
//! use nagaya_dynamodb::{Dynamodb, Options, Settings};
//! use nagaya_store::{Condition, Item, Key, KeySchema, Store, TableSpec, Update, Write, metered};
//!
//! # async fn tour() -> Result<(), nagaya_store::Error> {
//! // From the ordinary AWS environment, or `DYNAMODB_ENDPOINT=http://127.0.0.1:8000` alone for a server on this machine.
//! let store = Dynamodb::open(&Settings::from_env(), Options::default()).await?;
//! store.ensure(&[TableSpec::new("todos", KeySchema::strings("PK", "SK")).with_ttl("expiresAt")]).await?;
//!
//! let todo = Item::new().with("PK", "FAMILY#f1").with("SK", "TODO#1").with("version", 1);
//! store.write(Write::put("todos", todo).when(Condition::absent("PK")).into()).await?;
//!
//! // What a call costs is known to whoever asks.
//! let rename = Update::new().set("title", "Buy tea").set("version", 2);
//! let update = Write::update("todos", Key::new("FAMILY#f1", "TODO#1"), rename).when(Condition::equal("version", 1));
//! let (written, consumed) = metered(store.write(update.into())).await;
//! println!("{:?} for {} write units", written?.item, consumed.write_units);
//!
//! // And what all calls have cost, how often the server said "later", and how often it said nothing.
//! let metrics = store.metrics();
//! println!("{} throttles, {} retries, {} timeouts", metrics.throttles, metrics.retries, metrics.timeouts);
//! # Ok(())
//! # }
//! ```
//!
//! # Permissions
//!
//! For items: `GetItem`, `BatchGetItem`, `Query`, `Scan`, `PutItem`, `UpdateItem`, `DeleteItem`, `BatchWriteItem`,
//! `ConditionCheckItem`, and `DescribeTable` and `DescribeTimeToLive`, by which it learns keys, indexes and expiry. For
//! changes: `DescribeStream`, `GetShardIterator`, `GetRecords`.

mod bulk;
mod convert;
mod engine;
mod error;
mod expression;
mod known;
mod meter;
mod options;
mod plan;
mod read;
mod retry;
mod settings;
mod streams;
mod tables;
mod transact;
mod write;

pub use self::{
    engine::Dynamodb,
    meter::{Metrics, Usage},
    options::{Lone, Options},
    settings::{Settings, TABLE_NAME, table_name},
    tables::{Event, IndexLook, Plan, Step, Stopped, TableLook, TablePlan, Wanted},
};
