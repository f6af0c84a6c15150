//! Changes: the stream of a table, each shard read after its parent.
//!
//! A call reads one page of each open shard, concurrently. After the end of a shard its children are read, in this call or
//! the next. A saved position is valid as long as the server keeps records, 24 hours. After that it is a gap, even if
//! nothing was missed: a trimmed stream does not show whether it was.

mod cache;
mod empty_maps;
mod lineage;
mod position;
mod record;
mod shard;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream as futures};
use nagaya_store::{ChangePage, ChangeRecord, Error, ErrorKind, StartPosition};

use self::{
    cache::Stream,
    position::{Position, ShardPosition, ShardProgress},
    shard::ShardReader,
};
pub(crate) use self::{cache::StreamCache, empty_maps::EmptyMapTyper};
use crate::engine::Dynamodb;

/// How long the server keeps records, minus a margin for clock skew.
const RETENTION: Duration = Duration::from_secs(24 * 3600 - 600);
/// How long the shards of a stream are cached. A shard that ends is noticed at once; this is for shards that are listed late.
const SHARD_CACHE_TTL: Duration = Duration::from_secs(60);
/// How long they are cached while the children of a shard are missing.
const SHARD_CACHE_TTL_WITHOUT_CHILDREN: Duration = Duration::from_secs(2);
/// After how many seconds a position is renewed even if nothing was read.
const RENEWAL_SECONDS: i64 = 600;
/// How many shards are read concurrently.
const MAX_CONCURRENT_READS: usize = 16;
/// How often a call continues while it has found no record.
const MAX_EMPTY_READS: usize = 100;

/// Changes of a table after a position.
pub(crate) async fn changes(
    engine: &Dynamodb,
    table: &str,
    from: StartPosition,
    limit: usize,
) -> Result<ChangePage, Error> {
    if !engine.options.changes {
        return Err(ErrorKind::Unsupported("read changes").into());
    }
    let described = engine.table(table).await?;
    let reader = ShardReader { engine, table, schema: &described.spec.key };
    match from {
        StartPosition::Latest => {
            let stream = engine.stream(table, Duration::ZERO).await?;
            let next = position_now(&reader, &stream).await?.save();
            Ok(ChangePage { records: Vec::new(), next })
        }
        StartPosition::Oldest => {
            let stream = engine.stream(table, Duration::ZERO).await?;
            let position = Position { stream: stream.label.clone(), at: now_seconds(), shards: Vec::new() };
            ChangeReader::new(&reader, stream, position, limit).run(true).await
        }
        StartPosition::After(saved) => {
            let position = Position::parse(&saved)?;
            let mut stream = engine.stream(table, SHARD_CACHE_TTL).await?;
            let is_known = |position: &ShardPosition| stream.shards.iter().any(|shard| shard.id == position.shard);
            // Another process may have described the stream later than this one.
            if stream.label != position.stream || !position.shards.iter().all(is_known) {
                stream = engine.stream(table, Duration::ZERO).await?;
            }
            let is_expired = now_seconds().saturating_sub(position.at) > RETENTION.as_secs().cast_signed();
            if stream.label != position.stream
                || (is_expired && position.shards.iter().any(|position| position.progress.is_unanchored()))
            {
                return Err(ErrorKind::Gap.into());
            }
            ChangeReader::new(&reader, stream, position, limit).run(false).await
        }
    }
}

/// The position after all records that exist now.
///
/// A cached iterator begins exactly there, and is valid for a quarter of an hour. The position has the time as well, for
/// readers without that iterator: they may get some records from before, and miss none from after.
async fn position_now(reader: &ShardReader<'_>, stream: &Stream) -> Result<Position, Error> {
    let (at, since) = (now_seconds(), reader.engine.stream_cache.unique_time(now_millis()));
    let shards = lineage::frontier_from(&stream.shards, since);
    let iterators: Vec<_> = shards.iter().map(|position| reader.begin_now(stream, position)).collect();
    concurrently(iterators).await?;
    Ok(Position { stream: stream.label.clone(), at, shards })
}

/// One call that reads changes after a position.
struct ChangeReader<'r, 'e> {
    reader: &'r ShardReader<'e>,
    stream: Arc<Stream>,
    position: Position,
    limit: usize,
    records: Vec<ChangeRecord>,
    /// The shards that this call has read from.
    visited: HashSet<String>,
    /// The shards of the position at the start of the call.
    named: HashSet<String>,
    /// Whether a shard has ended since the shards were last described.
    has_ended: bool,
}

impl<'r, 'e> ChangeReader<'r, 'e> {
    fn new(reader: &'r ShardReader<'e>, stream: Arc<Stream>, position: Position, limit: usize) -> Self {
        let named = position.shards.iter().map(|position| position.shard.clone()).collect();
        ChangeReader {
            reader,
            stream,
            position,
            limit,
            records: Vec::new(),
            visited: HashSet::new(),
            named,
            has_ended: false,
        }
    }

    async fn run(mut self, from_oldest: bool) -> Result<ChangePage, Error> {
        self.open_children().await?;
        if from_oldest {
            // Cached iterators may point to records that are trimmed now.
            self.position.shards.iter().for_each(|position| self.reader.forget(&self.stream, position));
        }
        for _ in 0..MAX_EMPTY_READS {
            let shards = self.next_shards();
            if shards.is_empty() || !self.records.is_empty() {
                break;
            }
            self.read_round(&shards).await?;
            self.open_children().await?;
        }
        self.anchor_new_shards().await?;
        if self.position.at.saturating_add(RENEWAL_SECONDS) < now_seconds() && self.unanchored().next().is_none() {
            self.position.at = now_seconds();
        }
        Ok(ChangePage { records: self.records, next: self.position.save() })
    }

    /// The shards to read next: at most one for each record of the limit.
    fn next_shards(&self) -> Vec<ShardPosition> {
        let open = self.position.shards.iter().filter(|position| position.progress != ShardProgress::Done);
        open.filter(|position| !self.visited.contains(&position.shard)).take(self.limit).cloned().collect()
    }

    /// Reads a page of each of these shards, and moves them to the end of the order.
    async fn read_round(&mut self, shards: &[ShardPosition]) -> Result<(), Error> {
        let share = self.limit / shards.len();
        let pages = shards.iter().map(|position| self.reader.page(&self.stream, position, share)).collect();
        let pages = concurrently(pages).await?;
        let open = self.position.shards.iter().filter(|position| position.progress != ShardProgress::Done).count();
        for (position, page) in shards.iter().zip(pages) {
            self.records.extend(page.records);
            if !page.has_skipped {
                self.visited.insert(position.shard.clone());
            }
            let Some(at) = self.position.shards.iter().position(|other| other.shard == position.shard) else {
                continue;
            };
            self.has_ended |= page.progress == ShardProgress::Done;
            self.position.shards[at].progress = page.progress;
            if shards.len() < open {
                let moved = self.position.shards.remove(at);
                self.position.shards.push(moved);
            }
        }
        Ok(())
    }

    /// Replaces shards that have ended with their children.
    async fn open_children(&mut self) -> Result<(), Error> {
        let childless = |position: &ShardPosition| {
            let is_child = |shard: &lineage::Shard| shard.parent.as_ref() == Some(&position.shard);
            position.progress == ShardProgress::Done && !self.stream.shards.iter().any(is_child)
        };
        if self.position.shards.iter().any(childless) {
            let age =
                if std::mem::take(&mut self.has_ended) { Duration::ZERO } else { SHARD_CACHE_TTL_WITHOUT_CHILDREN };
            let stream = self.reader.engine.stream(self.reader.table, age).await?;
            if stream.label != self.stream.label {
                // The stream was replaced: return the remaining records of the old one first.
                return if self.records.is_empty() { Err(ErrorKind::Gap.into()) } else { Ok(()) };
            }
            self.stream = stream;
        }
        self.position.shards = lineage::advance(&self.position.shards, &self.stream.shards)?;
        Ok(())
    }

    /// Notes the first record of each new shard of the frontier that was not read. Later it shows whether records were
    /// trimmed before they were read.
    async fn anchor_new_shards(&mut self) -> Result<(), Error> {
        loop {
            let fresh: Vec<ShardPosition> =
                self.unanchored().filter(|position| !self.named.contains(&position.shard)).cloned().collect();
            if fresh.is_empty() {
                return Ok(());
            }
            let anchors = fresh.iter().map(|position| self.reader.anchor(&self.stream, position)).collect();
            let anchors = concurrently(anchors).await?;
            for (position, progress) in fresh.into_iter().zip(anchors) {
                self.has_ended |= progress == ShardProgress::Done;
                if let Some(found) = self.position.shards.iter_mut().find(|other| other.shard == position.shard) {
                    found.progress = progress;
                }
                self.visited.insert(position.shard);
            }
            self.open_children().await?;
        }
    }

    /// The shards without a sequence number that this call has not read from.
    fn unanchored(&self) -> impl Iterator<Item = &ShardPosition> {
        let open = self.position.shards.iter().filter(|position| position.progress.is_unanchored());
        open.filter(|position| !self.visited.contains(&position.shard))
    }
}

/// The results of all calls, in their order.
async fn concurrently<T>(calls: Vec<impl Future<Output = Result<T, Error>>>) -> Result<Vec<T>, Error> {
    futures::iter(calls).buffered(MAX_CONCURRENT_READS).try_collect().await
}

/// Milliseconds since 1970 by the machine's clock: compared with the server's time, not with an item's expiry.
fn now_millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn now_seconds() -> i64 {
    now_millis().div_euclid(1000)
}
