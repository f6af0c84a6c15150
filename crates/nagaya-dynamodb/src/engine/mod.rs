//! The engine: the store port on the AWS SDK.

mod bulk;
mod convert;
mod error;
mod meter;
mod options;
mod read;
mod retry;
mod settings;
mod streams;
mod table_cache;
mod tables;
mod transact;
mod write;
mod write_plan;

use std::fmt;

use nagaya_store::{
    Capabilities, ChangePage, Error, Item, Key, Measurement, Page, Query, Scan, StartPosition, Store, StoreFuture,
    TableSpec, WriteOutcome, WriteSet,
};

use self::{meter::Meter, streams::StreamCache, table_cache::TableCache};
pub use self::{
    meter::{Metrics, Usage},
    options::{Options, SingleWriteMode},
    settings::{Settings, TABLE_NAME_VARIABLE, table_name_from_env},
    tables::{ApplyError, ApplyEvent, DesiredTable, IndexState, Step, TableKey, TablePlan, TableState, TablesPlan},
};

/// A store on DynamoDB.
pub struct Dynamodb {
    /// Retries failed attempts, also ambiguous ones: for idempotent calls.
    pub(crate) client: aws_sdk_dynamodb::Client,
    /// Retries only attempts that the server surely did not carry out.
    pub(crate) once: aws_sdk_dynamodb::Client,
    pub(crate) streams: aws_sdk_dynamodbstreams::Client,
    pub(crate) options: Options,
    pub(crate) tables: TableCache,
    pub(crate) stream_cache: StreamCache,
    pub(crate) meter: Meter,
}

impl fmt::Debug for Dynamodb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dynamodb")
    }
}

impl Dynamodb {
    /// The counters of the engine.
    pub fn metrics(&self) -> Metrics {
        self.meter.metrics()
    }

    /// The name of a table in the account.
    pub(crate) fn name_of(&self, table: &str) -> String {
        format!("{}{table}", self.options.prefix)
    }
}

impl Store for Dynamodb {
    fn capabilities(&self) -> Capabilities {
        let Options { transactions, changes, .. } = self.options;
        Capabilities {
            transactions,
            cross_partition: transactions,
            old_images: changes,
            changes,
            consistent_indexes: false,
            snapshot_reads: false,
            ..Capabilities::ALL
        }
    }

    fn ensure_tables<'a>(&'a self, tables: &'a [TableSpec]) -> StoreFuture<'a, ()> {
        Box::pin(tables::ensure(self, tables))
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> StoreFuture<'a, Option<Item>> {
        Box::pin(read::get(self, table, key))
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> StoreFuture<'a, Vec<Option<Item>>> {
        Box::pin(read::batch_get(self, keys))
    }

    fn query(&self, query: Query) -> StoreFuture<'_, Page> {
        Box::pin(read::query(self, query))
    }

    fn scan(&self, scan: Scan) -> StoreFuture<'_, Page> {
        Box::pin(read::scan(self, scan))
    }

    fn write(&self, set: WriteSet) -> StoreFuture<'_, WriteOutcome> {
        Box::pin(write::write(self, set))
    }

    fn changes<'a>(&'a self, table: &'a str, from: StartPosition, limit: usize) -> StoreFuture<'a, ChangePage> {
        Box::pin(streams::changes(self, table, from, limit))
    }

    fn engine_metrics(&self) -> Vec<Measurement> {
        let Metrics { throttles, retries, timeouts, unprocessed, unanswered, .. } = self.metrics();
        let counter = |name, help, count: u64| Measurement::counter(name, help, count as f64);
        vec![
            counter("throttles", "Attempts that the server throttled", throttles),
            counter("retries", "Attempts after the first of a call", retries),
            counter("timeouts", "Attempts without a response in time", timeouts),
            counter("unprocessed", "Keys and items of batches that the server left unprocessed", unprocessed),
            counter("unanswered", "Writes of which the engine does not know whether they happened", unanswered),
        ]
    }
}

impl Dynamodb {
    /// Puts items without conditions, 25 at a time: for seeding and migration, without concurrent writers.
    ///
    /// This is not atomic: after an error, some items may have been put. Repeating the call is safe.
    pub async fn put_all(&self, table: &str, items: Vec<Item>) -> Result<(), Error> {
        bulk::put_all(self, table, items).await
    }
}
