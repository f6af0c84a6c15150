//! Changes: the stream of a table, read shard by shard, each after its parent.
//!
//! A call is one page of each open shard, side by side. What a shard ends with is followed by its children, in this call or
//! the next. A saved position is good for as long as the server keeps records, 24 hours; after that it is a gap, even if
//! nothing was missed: a stream that has been trimmed does not tell.

mod lineage;
mod mend;
mod position;
mod record;
mod shard;
mod stream;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream as futures};
use nagaya_store::{ChangeRecord, Changes, Error, ErrorKind, From};

pub(crate) use self::{mend::Mend, stream::Followed};
use self::{
    position::{Place, Position, Progress},
    shard::Reader,
    stream::Stream,
};
use crate::engine::Dynamodb;

/// How long the server keeps records, less what clocks may be apart.
const RETENTION: Duration = Duration::from_secs(24 * 3600 - 600);
/// How long the shards of a stream are trusted: new ones come from ends that are noticed, or are told late.
const SHARDS_AGE: Duration = Duration::from_secs(60);
/// The same while the children of a shard are looked for.
const CHILDREN_AGE: Duration = Duration::from_secs(2);
/// How old a position gets before it is renewed though nothing was read.
const RENEWED_AFTER: i64 = 600;
/// How many shards are read side by side.
const SIDE_BY_SIDE: usize = 16;
/// How often a call goes on when there was nothing to give yet.
const MOST_ROUNDS: usize = 100;

/// Changes of a table from somewhere.
pub(crate) async fn changes(engine: &Dynamodb, table: &str, from: From, limit: usize) -> Result<Changes, Error> {
    if !engine.options.changes {
        return Err(ErrorKind::Unsupported("read changes").into());
    }
    let known = engine.table(table).await?;
    let reader = Reader { engine, table, schema: &known.spec.key };
    match from {
        From::Now => {
            let stream = engine.stream(table, Duration::ZERO).await?;
            let next = now(&reader, &stream).await?.save();
            Ok(Changes { records: Vec::new(), next })
        }
        From::Oldest => {
            let stream = engine.stream(table, Duration::ZERO).await?;
            let position = Position { stream: stream.label.clone(), at: seconds(), shards: Vec::new() };
            Walk::new(&reader, stream, position, limit).run(true).await
        }
        From::After(saved) => {
            let position = Position::read(&saved)?;
            let mut stream = engine.stream(table, SHARDS_AGE).await?;
            let is_known = |place: &Place| stream.shards.iter().any(|shard| shard.id == place.shard);
            // Another process may have seen more of the stream than this one.
            if stream.label != position.stream || !position.shards.iter().all(is_known) {
                stream = engine.stream(table, Duration::ZERO).await?;
            }
            let outlived = seconds().saturating_sub(position.at) > RETENTION.as_secs().cast_signed();
            if stream.label != position.stream
                || (outlived && position.shards.iter().any(|place| place.progress.is_unanchored()))
            {
                return Err(ErrorKind::Gap.into());
            }
            Walk::new(&reader, stream, position, limit).run(false).await
        }
    }
}

/// The position after all that is written now.
///
/// An iterator of the server holds the very moment, for a quarter of an hour. The position holds it by the clock, roughly,
/// for the case that nothing is read meanwhile: then some records from before may come, and none from after is missed.
async fn now(reader: &Reader<'_>, stream: &Stream) -> Result<Position, Error> {
    let (at, since) = (seconds(), reader.engine.followed.moment(millis()));
    let shards = lineage::youngest(&stream.shards, since);
    let begun: Vec<_> = shards.iter().map(|place| reader.begin_now(stream, place)).collect();
    side_by_side(begun).await?;
    Ok(Position { stream: stream.label.clone(), at, shards })
}

/// A call that reads on from a position.
struct Walk<'r, 'e> {
    reader: &'r Reader<'e>,
    stream: Arc<Stream>,
    position: Position,
    limit: usize,
    records: Vec<ChangeRecord>,
    /// The shards that have been looked at in this call.
    visited: HashSet<String>,
    /// The shards that the position named at the start.
    named: HashSet<String>,
    /// Whether a shard has ended since its children were looked for.
    ended: bool,
}

impl<'r, 'e> Walk<'r, 'e> {
    fn new(reader: &'r Reader<'e>, stream: Arc<Stream>, position: Position, limit: usize) -> Self {
        let named = position.shards.iter().map(|place| place.shard.clone()).collect();
        Walk { reader, stream, position, limit, records: Vec::new(), visited: HashSet::new(), named, ended: false }
    }

    async fn run(mut self, from_oldest: bool) -> Result<Changes, Error> {
        self.follow().await?;
        if from_oldest {
            // What others remember of these shards may have been trimmed: begin at what is the oldest now.
            self.position.shards.iter().for_each(|place| self.reader.forget(&self.stream, place));
        }
        for _ in 0..MOST_ROUNDS {
            let turn = self.turn();
            if turn.is_empty() || !self.records.is_empty() {
                break;
            }
            self.round(&turn).await?;
            self.follow().await?;
        }
        self.anchor().await?;
        if self.position.at.saturating_add(RENEWED_AFTER) < seconds() && self.unanchored().next().is_none() {
            self.position.at = seconds();
        }
        Ok(Changes { records: self.records, next: self.position.save() })
    }

    /// The shards to read next, as many as each can give a record.
    fn turn(&self) -> Vec<Place> {
        let open = self.position.shards.iter().filter(|place| place.progress != Progress::Done);
        open.filter(|place| !self.visited.contains(&place.shard)).take(self.limit).cloned().collect()
    }

    /// Reads a page of each of these shards, and puts them last in the order of turns.
    async fn round(&mut self, turn: &[Place]) -> Result<(), Error> {
        let share = self.limit / turn.len();
        let pages = turn.iter().map(|place| self.reader.page(&self.stream, place, share)).collect();
        let pages = side_by_side(pages).await?;
        let open = self.position.shards.iter().filter(|place| place.progress != Progress::Done).count();
        for (place, page) in turn.iter().zip(pages) {
            self.records.extend(page.records);
            if !page.passed {
                self.visited.insert(place.shard.clone());
            }
            let Some(at) = self.position.shards.iter().position(|other| other.shard == place.shard) else { continue };
            self.ended |= page.progress == Progress::Done;
            self.position.shards[at].progress = page.progress;
            if turn.len() < open {
                let moved = self.position.shards.remove(at);
                self.position.shards.push(moved);
            }
        }
        Ok(())
    }

    /// Puts the children in the place of shards that have ended.
    async fn follow(&mut self) -> Result<(), Error> {
        let childless = |place: &Place| {
            let is_child = |shard: &lineage::Shard| shard.parent.as_ref() == Some(&place.shard);
            place.progress == Progress::Done && !self.stream.shards.iter().any(is_child)
        };
        if self.position.shards.iter().any(childless) {
            let age = if std::mem::take(&mut self.ended) { Duration::ZERO } else { CHILDREN_AGE };
            let stream = self.reader.engine.stream(self.reader.table, age).await?;
            if stream.label != self.stream.label {
                // The stream was replaced: what is left of the old one is told first.
                return if self.records.is_empty() { Err(ErrorKind::Gap.into()) } else { Ok(()) };
            }
            self.stream = stream;
        }
        self.position.shards = lineage::follow(&self.position.shards, &self.stream.shards)?;
        Ok(())
    }

    /// Looks at the shards that have come to the front and were not read: their first record is what tells later whether
    /// something was trimmed before it was read.
    async fn anchor(&mut self) -> Result<(), Error> {
        loop {
            let fresh: Vec<Place> =
                self.unanchored().filter(|place| !self.named.contains(&place.shard)).cloned().collect();
            if fresh.is_empty() {
                return Ok(());
            }
            let looks = fresh.iter().map(|place| self.reader.anchor(&self.stream, place)).collect();
            let looks = side_by_side(looks).await?;
            for (place, progress) in fresh.into_iter().zip(looks) {
                self.ended |= progress == Progress::Done;
                if let Some(found) = self.position.shards.iter_mut().find(|other| other.shard == place.shard) {
                    found.progress = progress;
                }
                self.visited.insert(place.shard);
            }
            self.follow().await?;
        }
    }

    /// The shards without an anchor that have not been looked at in this call.
    fn unanchored(&self) -> impl Iterator<Item = &Place> {
        let open = self.position.shards.iter().filter(|place| place.progress.is_unanchored());
        open.filter(|place| !self.visited.contains(&place.shard))
    }
}

/// The answers of all, in their order.
async fn side_by_side<T>(calls: Vec<impl Future<Output = Result<T, Error>>>) -> Result<Vec<T>, Error> {
    futures::iter(calls).buffered(SIDE_BY_SIDE).try_collect().await
}

/// The milliseconds since 1970 by the machine's clock: they are compared with the server's, not with an item's expiry.
fn millis() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn seconds() -> i64 {
    millis().div_euclid(1000)
}
