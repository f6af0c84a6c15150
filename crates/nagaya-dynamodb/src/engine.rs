//! The engine: its clients and the port.

use std::fmt;

use nagaya_store::{
    Answer, Capabilities, Changes, Error, From, Item, Key, Measurement, Page, Query, Scan, Store, TableSpec, WriteSet,
    Written,
};

use crate::{
    bulk,
    known::Known,
    meter::{Meter, Metrics},
    options::Options,
    read, streams, tables, write,
};

/// A store on DynamoDB.
pub struct Dynamodb {
    /// Repeats what fails, by the options: for what may happen twice.
    pub(crate) client: aws_sdk_dynamodb::Client,
    /// Repeats only what has surely not happened: for what must not happen twice.
    pub(crate) once: aws_sdk_dynamodb::Client,
    pub(crate) streams: aws_sdk_dynamodbstreams::Client,
    pub(crate) options: Options,
    /// The tables as far as they are known.
    pub(crate) known: Known,
    /// What is remembered of streams between calls.
    pub(crate) followed: streams::Followed,
    pub(crate) meter: Meter,
}

impl fmt::Debug for Dynamodb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dynamodb")
    }
}

impl Dynamodb {
    /// What the engine has done so far.
    pub fn metrics(&self) -> Metrics {
        self.meter.read()
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

    fn ensure<'a>(&'a self, tables: &'a [TableSpec]) -> Answer<'a, ()> {
        Box::pin(tables::ensure(self, tables))
    }

    fn get<'a>(&'a self, table: &'a str, key: &'a Key) -> Answer<'a, Option<Item>> {
        Box::pin(read::get(self, table, key))
    }

    fn batch_get<'a>(&'a self, keys: &'a [(String, Key)]) -> Answer<'a, Vec<Option<Item>>> {
        Box::pin(read::batch_get(self, keys))
    }

    fn query(&self, query: Query) -> Answer<'_, Page> {
        Box::pin(read::query(self, query))
    }

    fn scan(&self, scan: Scan) -> Answer<'_, Page> {
        Box::pin(read::scan(self, scan))
    }

    fn write(&self, set: WriteSet) -> Answer<'_, Written> {
        Box::pin(write::write(self, set))
    }

    fn changes<'a>(&'a self, table: &'a str, from: From, limit: usize) -> Answer<'a, Changes> {
        Box::pin(streams::changes(self, table, from, limit))
    }

    fn measurements(&self) -> Vec<Measurement> {
        let Metrics { throttles, retries, timeouts, unprocessed, unanswered, .. } = self.metrics();
        let counter = |name, help, count: u64| Measurement::counter(name, help, count as f64);
        vec![
            counter("throttles", "Attempts that the server refused because there were too many", throttles),
            counter("retries", "Attempts after the first of a call", retries),
            counter("timeouts", "Attempts that had no answer in time", timeouts),
            counter("unprocessed", "Keys and items of batches that the server left for later", unprocessed),
            counter("unanswered", "Writes of which it is not known whether they happened", unanswered),
        ]
    }
}

impl Dynamodb {
    /// Puts items without conditions, 25 at a time: for seeding and migration, when nobody else writes.
    ///
    /// Not all or none: after an error, some may have been put. Doing it again is safe.
    pub async fn put_all(&self, table: &str, items: Vec<Item>) -> Result<(), Error> {
        bulk::put_all(self, table, items).await
    }
}
