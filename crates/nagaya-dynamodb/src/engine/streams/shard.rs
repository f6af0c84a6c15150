//! Pages of one shard.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use aws_sdk_dynamodbstreams::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    types::ShardIteratorType,
};
use nagaya_store::{ChangeRecord, Error, ErrorKind, KeySchema};

use super::{
    cache::Stream,
    position::{NextRecord, RecordPosition, ShardPosition, ShardProgress},
    record,
};
use crate::engine::Dynamodb;

/// The most records of a page.
const MAX_PAGE: usize = 1_000;
/// How long an iterator is valid, with a minute to spare.
const ITERATOR_AGE: Duration = Duration::from_secs(14 * 60);
/// How many iterators are cached.
const MAX_ITERATORS: usize = 20_000;
/// How many seconds the clocks of server and reader may differ, with the rounding of a record's time.
const CLOCK_SKEW: i64 = 10 * 60;

/// A page of a shard.
#[derive(Debug)]
pub(super) struct ShardPage {
    pub(super) records: Vec<ChangeRecord>,
    /// The progress after the page.
    pub(super) progress: ShardProgress,
    /// Whether records were skipped because they are too old.
    pub(super) has_skipped: bool,
}

/// Cached shard iterators, so that a poll needs no call to get them.
#[derive(Debug, Default)]
pub(super) struct IteratorCache(Mutex<HashMap<(String, String, NextRecord), ShardIterator>>);

#[derive(Debug, Clone)]
struct ShardIterator {
    token: String,
    /// Whether it begins exactly at the requested time, so that no record has to be skipped.
    is_exact: bool,
    taken: Instant,
}

impl IteratorCache {
    fn get(&self, stream: &Stream, shard: &str, next: &NextRecord) -> Option<ShardIterator> {
        let iterators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = iterators.get(&(stream.arn.clone(), shard.to_owned(), next.clone()))?;
        (found.taken.elapsed() < ITERATOR_AGE).then(|| found.clone())
    }

    fn put(&self, stream: &Stream, shard: &str, next: &NextRecord, iterator: ShardIterator) {
        let mut iterators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if iterators.len() >= MAX_ITERATORS {
            iterators.retain(|_, iterator| iterator.taken.elapsed() < ITERATOR_AGE);
        }
        if iterators.len() < MAX_ITERATORS {
            iterators.insert((stream.arn.clone(), shard.to_owned(), next.clone()), iterator);
        }
    }

    fn forget(&self, stream: &Stream, shard: &str, next: &NextRecord) {
        let mut iterators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        iterators.remove(&(stream.arn.clone(), shard.to_owned(), next.clone()));
    }
}

/// Reads the shards of a table's stream.
pub(super) struct ShardReader<'e> {
    pub(super) engine: &'e Dynamodb,
    pub(super) table: &'e str,
    pub(super) schema: &'e KeySchema,
}

impl ShardReader<'_> {
    /// The next records of a shard.
    pub(super) async fn page(
        &self,
        stream: &Stream,
        position: &ShardPosition,
        limit: usize,
    ) -> Result<ShardPage, Error> {
        let ShardProgress::Reading(next) = &position.progress else {
            return Ok(ShardPage { records: Vec::new(), progress: ShardProgress::Done, has_skipped: false });
        };
        let (iterator, found) = self.records(stream, &position.shard, next, limit).await?;
        let read = found.records.unwrap_or_default().into_iter().map(|record| record::decode(self.schema, record));
        let read = read.collect::<Result<Vec<_>, Error>>()?;
        let last = read.last().map(|last| last.sequence_number.clone());
        let oldest = next.since.filter(|_| !iterator.is_exact).map(|since| since.div_euclid(1000) - CLOCK_SKEW);
        let is_new = |written: Option<i64>| oldest.is_none_or(|oldest| written.is_none_or(|written| written >= oldest));
        let all = read.len();
        let records: Vec<_> = read.into_iter().filter(|read| is_new(read.written_at)).map(|read| read.record).collect();
        let has_skipped = all > records.len();
        let next = NextRecord {
            at: last.map_or_else(|| next.at.clone(), RecordPosition::After),
            // Records are in order: after one that is new enough, none is skipped.
            since: next.since.filter(|_| records.is_empty()),
        };
        let progress = match found.next_shard_iterator {
            Some(token) => {
                let iterator = ShardIterator { token, taken: Instant::now(), ..iterator };
                self.engine.stream_cache.iterators.put(stream, &position.shard, &next, iterator);
                ShardProgress::Reading(next)
            }
            None => ShardProgress::Done,
        };
        Ok(ShardPage { records, progress, has_skipped })
    }

    /// Notes the sequence number of the first record of an unread shard, without reading the record.
    pub(super) async fn anchor(&self, stream: &Stream, position: &ShardPosition) -> Result<ShardProgress, Error> {
        let ShardProgress::Reading(next) = &position.progress else { return Ok(ShardProgress::Done) };
        let (iterator, found) = self.records(stream, &position.shard, next, 1).await?;
        let first = found.records().first().map(|record| record.dynamodb().and_then(|stored| stored.sequence_number()));
        match (first, found.next_shard_iterator()) {
            (Some(number), _) => {
                let number =
                    number.ok_or_else(|| Error::engine("the server sent a change without a sequence number"))?;
                let next = NextRecord { at: RecordPosition::At(number.to_owned()), since: next.since };
                self.engine.stream_cache.iterators.put(stream, &position.shard, &next, iterator);
                Ok(ShardProgress::Reading(next))
            }
            (None, Some(_)) => Ok(position.progress.clone()),
            (None, None) => Ok(ShardProgress::Done),
        }
    }

    /// Caches an iterator that begins with the next record to be written.
    pub(super) async fn begin_now(&self, stream: &Stream, position: &ShardPosition) -> Result<(), Error> {
        let ShardProgress::Reading(next) = &position.progress else { return Ok(()) };
        let taken = Instant::now();
        let token = self.iterator(stream, &position.shard, ShardIteratorType::Latest, None).await?;
        let iterator = ShardIterator { token, is_exact: true, taken };
        self.engine.stream_cache.iterators.put(stream, &position.shard, next, iterator);
        Ok(())
    }

    /// Removes the cached iterator of a position.
    pub(super) fn forget(&self, stream: &Stream, position: &ShardPosition) {
        if let ShardProgress::Reading(next) = &position.progress {
            self.engine.stream_cache.iterators.forget(stream, &position.shard, next);
        }
    }

    async fn records(
        &self,
        stream: &Stream,
        shard: &str,
        next: &NextRecord,
        limit: usize,
    ) -> Result<(ShardIterator, aws_sdk_dynamodbstreams::operation::get_records::GetRecordsOutput), Error> {
        let limit = i32::try_from(limit.min(MAX_PAGE)).unwrap_or(1);
        let mut cached = self.engine.stream_cache.iterators.get(stream, shard, next);
        loop {
            let is_cached = cached.is_some();
            let iterator = match cached.take() {
                Some(iterator) => iterator,
                None => self.iterator_at(stream, shard, next).await?,
            };
            let page = self.engine.streams.get_records().shard_iterator(&iterator.token).limit(limit).send().await;
            match page {
                Ok(page) => return Ok((iterator, page)),
                // The next round gets a new iterator at the same position.
                Err(failure) if is_cached && is_stale(&failure) => {
                    self.engine.stream_cache.iterators.forget(stream, shard, next);
                }
                Err(failure) => return Err(self.error(failure)),
            }
        }
    }

    async fn iterator_at(&self, stream: &Stream, shard: &str, next: &NextRecord) -> Result<ShardIterator, Error> {
        let taken = Instant::now();
        let (kind, number) = match &next.at {
            RecordPosition::Beginning => (ShardIteratorType::TrimHorizon, None),
            RecordPosition::At(number) => (ShardIteratorType::AtSequenceNumber, Some(number.clone())),
            RecordPosition::After(number) => (ShardIteratorType::AfterSequenceNumber, Some(number.clone())),
        };
        Ok(ShardIterator { token: self.iterator(stream, shard, kind, number).await?, is_exact: false, taken })
    }

    async fn iterator(
        &self,
        stream: &Stream,
        shard: &str,
        kind: ShardIteratorType,
        number: Option<String>,
    ) -> Result<String, Error> {
        let call = self.engine.streams.get_shard_iterator().stream_arn(&stream.arn).shard_id(shard);
        let response = call.shard_iterator_type(kind).set_sequence_number(number).send().await;
        let response = response.map_err(|failure| self.error(failure))?;
        response.shard_iterator.ok_or_else(|| Error::engine("the server sent no iterator"))
    }

    fn error<E>(&self, failure: SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        match code(&failure) {
            // The shard or the records at this position are trimmed; DynamoDB Local reports an invalid number then.
            "TrimmedDataAccessException" | "ResourceNotFoundException" | "ValidationException" => ErrorKind::Gap.into(),
            "LimitExceededException" => ErrorKind::Busy.into(),
            _ => self.engine.call_error(self.table, failure),
        }
    }
}

/// Whether the server no longer accepts an iterator.
fn is_stale<E: ProvideErrorMetadata, R>(failure: &SdkError<E, R>) -> bool {
    matches!(code(failure), "ExpiredIteratorException" | "ValidationException")
}

fn code<E: ProvideErrorMetadata, R>(failure: &SdkError<E, R>) -> &str {
    failure.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default()
}
