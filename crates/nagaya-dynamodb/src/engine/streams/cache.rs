//! The stream of a table and its shards, cached between calls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use aws_sdk_dynamodbstreams::types::{StreamDescription, StreamViewType};
use nagaya_store::{Error, ErrorKind};

use super::{lineage, shard::IteratorCache};
use crate::engine::Dynamodb;

/// Streams, shard iterators and the latest time that was given out.
#[derive(Debug, Default)]
pub(crate) struct StreamCache {
    streams: Mutex<HashMap<String, Arc<Stream>>>,
    pub(super) iterators: IteratorCache,
    latest: Mutex<i64>,
}

/// The stream of a table.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) arn: String,
    /// The last part of the ARN, unique among the streams of the table.
    pub(super) label: String,
    pub(super) shards: Vec<lineage::Shard>,
    described_at: Instant,
}

impl Stream {
    pub(super) fn age(&self) -> Duration {
        self.described_at.elapsed()
    }
}

impl StreamCache {
    /// The time in milliseconds since 1970, different for each call.
    pub(super) fn unique_time(&self, now: i64) -> i64 {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = now.max(latest.saturating_add(1));
        *latest
    }
}

impl Dynamodb {
    /// The stream of a table, from the cache if it was described within this time.
    pub(super) async fn stream(&self, table: &str, age: Duration) -> Result<Arc<Stream>, Error> {
        let cached =
            self.stream_cache.streams.lock().unwrap_or_else(PoisonError::into_inner).get(table).map(Arc::clone);
        if let Some(cached) = cached.filter(|cached| cached.age() < age) {
            return Ok(cached);
        }
        let described_at = Instant::now();
        let arn = self.stream_arn(table).await?;
        let label = arn.rsplit('/').next().unwrap_or(&arn).replace(['|', ','], "-");
        let shards = self.shards(table, &arn).await?;
        let stream = Arc::new(Stream { arn, label, shards, described_at });
        let mut streams = self.stream_cache.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.insert(table.to_owned(), Arc::clone(&stream));
        Ok(stream)
    }

    async fn stream_arn(&self, table: &str) -> Result<String, Error> {
        let described = self.client.describe_table().table_name(self.name_of(table)).send().await;
        let described = described.map_err(|failure| self.call_error(table, failure))?;
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
            let described = described.map_err(|failure| self.call_error(table, failure))?;
            let described =
                described.stream_description().ok_or_else(|| Error::engine("the stream has no description"))?;
            check_view_type(table, described)?;
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

/// Changes have the item before and after, which only one view type contains.
fn check_view_type(table: &str, described: &StreamDescription) -> Result<(), Error> {
    match described.stream_view_type() {
        Some(StreamViewType::NewAndOldImages) | None => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "the stream of the table `{table}` carries {}, and changes need NEW_AND_OLD_IMAGES: turn it off, then run \
             `nagaya tables apply`",
            other.as_str()
        ))),
    }
}
