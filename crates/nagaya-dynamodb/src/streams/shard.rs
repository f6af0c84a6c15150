//! One shard: where it is read from, and a page of it.

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
    position::{Mark, Next, Place, Progress},
    record,
    stream::Stream,
};
use crate::engine::Dynamodb;

/// The most records that the server gives at once.
const LARGEST_PAGE: usize = 1_000;
/// How long the server keeps an iterator, with a minute to spare.
const ITERATOR_AGE: Duration = Duration::from_secs(14 * 60);
/// How many iterators are remembered.
const MOST_ITERATORS: usize = 20_000;
/// How far the clocks of writers, server and reader may be apart, the rounding of a record's time included.
const CLOCKS_APART: i64 = 10 * 60;

/// A page of a shard.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) records: Vec<ChangeRecord>,
    /// How far the shard has been read now.
    pub(super) progress: Progress,
    /// Whether records were passed over because they do not count.
    pub(super) passed: bool,
}

/// Iterators of shards, so that a poll need not ask for them.
#[derive(Debug, Default)]
pub(super) struct Iterators(Mutex<HashMap<(String, String, Mark), Iterator>>);

#[derive(Debug, Clone)]
struct Iterator {
    token: String,
    /// Whether it begins at a moment itself, and not at the records around it.
    exact: bool,
    taken: Instant,
}

impl Iterators {
    fn get(&self, stream: &Stream, shard: &str, mark: &Mark) -> Option<Iterator> {
        let iterators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = iterators.get(&(stream.arn.clone(), shard.to_owned(), mark.clone()))?;
        (found.taken.elapsed() < ITERATOR_AGE).then(|| found.clone())
    }

    fn put(&self, stream: &Stream, shard: &str, mark: &Mark, iterator: Iterator) {
        let mut iterators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if iterators.len() >= MOST_ITERATORS {
            iterators.retain(|_, iterator| iterator.taken.elapsed() < ITERATOR_AGE);
        }
        if iterators.len() < MOST_ITERATORS {
            iterators.insert((stream.arn.clone(), shard.to_owned(), mark.clone()), iterator);
        }
    }

    fn forget(&self, stream: &Stream, shard: &str, mark: &Mark) {
        let mut iterators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        iterators.remove(&(stream.arn.clone(), shard.to_owned(), mark.clone()));
    }
}

/// A stream that is read, and what its records are.
pub(super) struct Reader<'e> {
    pub(super) engine: &'e Dynamodb,
    pub(super) table: &'e str,
    pub(super) schema: &'e KeySchema,
}

impl Reader<'_> {
    /// The next records of a shard.
    pub(super) async fn page(&self, stream: &Stream, place: &Place, limit: usize) -> Result<Page, Error> {
        let Progress::Reading(mark) = &place.progress else {
            return Ok(Page { records: Vec::new(), progress: Progress::Done, passed: false });
        };
        let (iterator, found) = self.records(stream, &place.shard, mark, limit).await?;
        let read = found.records.unwrap_or_default().into_iter().map(|record| record::read(self.schema, record));
        let read = read.collect::<Result<Vec<_>, Error>>()?;
        let last = read.last().map(|last| last.number.clone());
        let oldest = mark.since.filter(|_| !iterator.exact).map(|since| since.div_euclid(1000) - CLOCKS_APART);
        let counts = |written: Option<i64>| oldest.is_none_or(|oldest| written.is_none_or(|written| written >= oldest));
        let all = read.len();
        let records: Vec<_> = read.into_iter().filter(|read| counts(read.written)).map(|read| read.record).collect();
        let passed = all > records.len();
        let mark = Mark {
            next: last.map_or_else(|| mark.next.clone(), Next::After),
            // Records are in order, so all that follow one that counts do too.
            since: mark.since.filter(|_| records.is_empty()),
        };
        let progress = match found.next_shard_iterator {
            Some(token) => {
                let next = Iterator { token, taken: Instant::now(), ..iterator };
                self.engine.followed.iterators.put(stream, &place.shard, &mark, next);
                Progress::Reading(mark)
            }
            None => Progress::Done,
        };
        Ok(Page { records, progress, passed })
    }

    /// Looks at a shard of which nothing has been read, and marks its first record without reading it.
    pub(super) async fn anchor(&self, stream: &Stream, place: &Place) -> Result<Progress, Error> {
        let Progress::Reading(mark) = &place.progress else { return Ok(Progress::Done) };
        let (iterator, found) = self.records(stream, &place.shard, mark, 1).await?;
        let first = found.records().first().map(|record| record.dynamodb().and_then(|stored| stored.sequence_number()));
        match (first, found.next_shard_iterator()) {
            (Some(number), _) => {
                let number = number.ok_or_else(|| Error::engine("the server gave a change without a number"))?;
                let mark = Mark { next: Next::At(number.to_owned()), since: mark.since };
                self.engine.followed.iterators.put(stream, &place.shard, &mark, iterator);
                Ok(Progress::Reading(mark))
            }
            (None, Some(_)) => Ok(place.progress.clone()),
            (None, None) => Ok(Progress::Done),
        }
    }

    /// Takes an iterator that begins with what is written from now on.
    pub(super) async fn begin_now(&self, stream: &Stream, place: &Place) -> Result<(), Error> {
        let Progress::Reading(mark) = &place.progress else { return Ok(()) };
        let taken = Instant::now();
        let token = self.iterator(stream, &place.shard, ShardIteratorType::Latest, None).await?;
        let iterator = Iterator { token, exact: true, taken };
        self.engine.followed.iterators.put(stream, &place.shard, mark, iterator);
        Ok(())
    }

    /// Forgets where a shard was read on.
    pub(super) fn forget(&self, stream: &Stream, place: &Place) {
        if let Progress::Reading(mark) = &place.progress {
            self.engine.followed.iterators.forget(stream, &place.shard, mark);
        }
    }

    async fn records(
        &self,
        stream: &Stream,
        shard: &str,
        mark: &Mark,
        limit: usize,
    ) -> Result<(Iterator, aws_sdk_dynamodbstreams::operation::get_records::GetRecordsOutput), Error> {
        let limit = i32::try_from(limit.min(LARGEST_PAGE)).unwrap_or(1);
        let mut remembered = self.engine.followed.iterators.get(stream, shard, mark);
        loop {
            let renewable = remembered.is_some();
            let iterator = match remembered.take() {
                Some(iterator) => iterator,
                None => self.iterator_at(stream, shard, mark).await?,
            };
            let page = self.engine.streams.get_records().shard_iterator(&iterator.token).limit(limit).send().await;
            match page {
                Ok(page) => return Ok((iterator, page)),
                // An iterator is a convenience: without it, the mark tells as well where to go on.
                Err(failure) if renewable && is_stale(&failure) => {
                    self.engine.followed.iterators.forget(stream, shard, mark);
                }
                Err(failure) => return Err(self.failed(failure)),
            }
        }
    }

    async fn iterator_at(&self, stream: &Stream, shard: &str, mark: &Mark) -> Result<Iterator, Error> {
        let taken = Instant::now();
        let (kind, number) = match &mark.next {
            Next::Beginning => (ShardIteratorType::TrimHorizon, None),
            Next::At(number) => (ShardIteratorType::AtSequenceNumber, Some(number.clone())),
            Next::After(number) => (ShardIteratorType::AfterSequenceNumber, Some(number.clone())),
        };
        Ok(Iterator { token: self.iterator(stream, shard, kind, number).await?, exact: false, taken })
    }

    async fn iterator(
        &self,
        stream: &Stream,
        shard: &str,
        kind: ShardIteratorType,
        number: Option<String>,
    ) -> Result<String, Error> {
        let call = self.engine.streams.get_shard_iterator().stream_arn(&stream.arn).shard_id(shard);
        let answer = call.shard_iterator_type(kind).set_sequence_number(number).send().await;
        let answer = answer.map_err(|failure| self.failed(failure))?;
        answer.shard_iterator.ok_or_else(|| Error::engine("the server gave no iterator"))
    }

    fn failed<E>(&self, failure: SdkError<E, HttpResponse>) -> Error
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        match code(&failure) {
            // The shard is gone, or its records before this point; DynamoDB Local calls the number invalid then.
            "TrimmedDataAccessException" | "ResourceNotFoundException" | "ValidationException" => ErrorKind::Gap.into(),
            "LimitExceededException" => ErrorKind::Busy.into(),
            _ => self.engine.failed(self.table, failure),
        }
    }
}

/// Whether the server no longer takes an iterator that it once gave.
fn is_stale<E: ProvideErrorMetadata, R>(failure: &SdkError<E, R>) -> bool {
    matches!(code(failure), "ExpiredIteratorException" | "ValidationException")
}

fn code<E: ProvideErrorMetadata, R>(failure: &SdkError<E, R>) -> &str {
    failure.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default()
}
