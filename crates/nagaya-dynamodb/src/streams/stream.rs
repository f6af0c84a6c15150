//! The stream of a table: which it is, and its shards.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use aws_sdk_dynamodbstreams::types::{StreamDescription, StreamViewType};
use nagaya_store::{Error, ErrorKind};

use super::{lineage, shard::Iterators};
use crate::engine::Dynamodb;

/// What is remembered between calls.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    streams: Mutex<HashMap<String, Arc<Stream>>>,
    pub(super) iterators: Iterators,
    latest: Mutex<i64>,
}

/// The stream of a table.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) arn: String,
    /// The end of its name, which no other stream of the table has.
    pub(super) label: String,
    pub(super) shards: Vec<lineage::Shard>,
    learned: Instant,
}

impl Stream {
    pub(super) fn age(&self) -> Duration {
        self.learned.elapsed()
    }
}

impl Followed {
    /// The millisecond since 1970; no two calls get the same.
    pub(super) fn moment(&self, now: i64) -> i64 {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = now.max(latest.saturating_add(1));
        *latest
    }
}

impl Dynamodb {
    /// The stream of a table, as it was known not longer ago than this.
    pub(super) async fn stream(&self, table: &str, age: Duration) -> Result<Arc<Stream>, Error> {
        let known = self.followed.streams.lock().unwrap_or_else(PoisonError::into_inner).get(table).map(Arc::clone);
        if let Some(known) = known.filter(|known| known.age() < age) {
            return Ok(known);
        }
        let learned = Instant::now();
        let arn = self.stream_arn(table).await?;
        let label = arn.rsplit('/').next().unwrap_or(&arn).replace(['|', ','], "-");
        let shards = self.shards(table, &arn).await?;
        let stream = Arc::new(Stream { arn, label, shards, learned });
        let mut streams = self.followed.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.insert(table.to_owned(), Arc::clone(&stream));
        Ok(stream)
    }

    async fn stream_arn(&self, table: &str) -> Result<String, Error> {
        let described = self.client.describe_table().table_name(self.name_of(table)).send().await;
        let described = described.map_err(|failure| self.failed(table, failure))?;
        let described = described.table().ok_or_else(|| ErrorKind::NoTable(table.to_owned()))?;
        let enabled = described.stream_specification().is_some_and(|stream| stream.stream_enabled());
        described.latest_stream_arn().filter(|_| enabled).map(str::to_owned).ok_or_else(|| {
            Error::invalid(format!(
                "the table `{table}` has no stream: write `stream = true` for it in the design and run `nagaya tables apply`"
            ))
        })
    }

    async fn shards(&self, table: &str, arn: &str) -> Result<Vec<lineage::Shard>, Error> {
        let mut shards = Vec::new();
        let mut after = None;
        loop {
            let described = self.streams.describe_stream().stream_arn(arn);
            let described = described.set_exclusive_start_shard_id(after).send().await;
            let described = described.map_err(|failure| self.failed(table, failure))?;
            let described =
                described.stream_description().ok_or_else(|| Error::engine("the stream has no description"))?;
            has_images(table, described)?;
            for shard in described.shards() {
                shards.push(lineage::Shard {
                    id: shard.shard_id().unwrap_or_default().to_owned(),
                    parent: shard.parent_shard_id().map(str::to_owned),
                });
            }
            after = described.last_evaluated_shard_id().map(str::to_owned);
            if after.is_none() {
                return Ok(shards);
            }
        }
    }
}

/// Changes tell the item before and after; a stream with less cannot serve them.
fn has_images(table: &str, described: &StreamDescription) -> Result<(), Error> {
    match described.stream_view_type() {
        Some(StreamViewType::NewAndOldImages) | None => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "the stream of the table `{table}` carries {}, and changes need NEW_AND_OLD_IMAGES: turn it off, then run \
             `nagaya tables apply`",
            other.as_str()
        ))),
    }
}
