//! The DynamoDB engine: the store port on DynamoDB, DynamoDB Local and DynamoDB-compatible clusters such as ScyllaDB
//! Alternator.
//!
//! A [`Dynamodb`] is a [`nagaya_store::Store`] with the same items, conditions, write sets, queries, changes and errors as
//! any other. Where DynamoDB differs from the port, the engine hides the difference if that is exact: it never returns
//! expired items that are not deleted yet, and an update creates an absent item. Other differences are in the capabilities:
//! indexes are eventually consistent, and a batch or page may show a part of a write set.
//!
//! It is not a general client for DynamoDB: there are no local indexes, no PartiQL, no projections. A write that is not
//! idempotent and whose response was lost ends as [`ErrorKind::OutcomeUnknown`](nagaya_store::ErrorKind::OutcomeUnknown), never as a
//! false success or a false failure.
//!
//! Without the default feature `client` the crate has no SDK, and only renders requests: see [`QueryRequest`] and
//! [`expression`].
//!
//! # Example
//!
//! ```no_run
//! use nagaya_dynamodb::{Dynamodb, Options, Settings};
//! use nagaya_store::{Condition, Item, Key, KeySchema, Store, TableSpec, Update, Write, measure_capacity};
//!
//! # async fn tour() -> Result<(), nagaya_store::Error> {
//! // From the ordinary AWS environment, or `DYNAMODB_ENDPOINT=http://127.0.0.1:8000` alone for a server on this machine.
//! let store = Dynamodb::open(&Settings::from_env(), Options::default()).await?;
//! store.ensure_tables(&[TableSpec::new("todos", KeySchema::strings("PK", "SK")).with_ttl("expiresAt")]).await?;
//!
//! let todo = Item::new().with("PK", "FAMILY#f1").with("SK", "TODO#1").with("version", 1);
//! store.write(Write::put("todos", todo).when(Condition::absent("PK")).into()).await?;
//!
//! // `measure_capacity` returns what a call consumed.
//! let rename = Update::new().set("title", "Buy tea").set("version", 2);
//! let update = Write::update("todos", Key::new("FAMILY#f1", "TODO#1"), rename).when(Condition::equal("version", 1));
//! let (written, consumed) = measure_capacity(store.write(update.into())).await;
//! println!("{:?} for {} write units", written?.item, consumed.write_units);
//!
//! // The metrics count all calls, throttles, retries and timeouts.
//! let metrics = store.metrics();
//! println!("{} throttles, {} retries, {} timeouts", metrics.throttles, metrics.retries, metrics.timeouts);
//! # Ok(())
//! # }
//! ```
//!
//! # Permissions
//!
//! For items: `GetItem`, `BatchGetItem`, `Query`, `Scan`, `PutItem`, `UpdateItem`, `DeleteItem`, `BatchWriteItem`,
//! `ConditionCheckItem`, and `DescribeTable` and `DescribeTimeToLive` to read keys, indexes and TTL. For
//! changes: `DescribeStream`, `GetShardIterator`, `GetRecords`.

#[cfg(feature = "client")]
mod engine;
pub mod expression;
mod query;

#[cfg(feature = "client")]
pub use self::engine::{
    ApplyError, ApplyEvent, DesiredTable, Dynamodb, IndexState, Metrics, Options, Settings, SingleWriteMode, Step,
    TABLE_NAME_VARIABLE, TableKey, TablePlan, TableState, TablesPlan, Usage, table_name_from_env,
};
pub use self::query::QueryRequest;
