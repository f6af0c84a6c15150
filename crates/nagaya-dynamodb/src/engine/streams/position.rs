//! The serialized form of a position: how far each open shard of a stream has been read.
//!
//! One line of text, `1|stream|second|shard,shard…`: the format version, the stream's label, the time at which the position
//! was last valid, and the shards in the order in which they are read. A shard is its id and its progress: `id` nothing is
//! read, `id=number` the next record has this sequence number, `id>number` the next record follows this one, `id!` read to
//! its end. A `~millis` at the end means that records from before that time are skipped.

use nagaya_store::{ChangePosition, Error, ErrorKind};

/// The format version.
const FORMAT_VERSION: &str = "1";

/// How far a stream has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// The label of the stream; a new stream of the table has another label.
    pub(super) stream: String,
    /// The time in seconds since 1970 at which no record had been missed. Shards without a sequence number were seen empty
    /// later than that.
    pub(super) at: i64,
    /// The shards, the next one to read first.
    pub(super) shards: Vec<ShardPosition>,
}

/// How far a shard has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShardPosition {
    /// The id of the shard.
    pub(super) shard: String,
    pub(super) progress: ShardProgress,
}

/// How far a shard has been read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ShardProgress {
    /// Up to this record.
    Reading(NextRecord),
    /// To its end.
    Done,
}

/// The next record of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct NextRecord {
    pub(super) at: RecordPosition,
    /// Records from before this time, in milliseconds since 1970, are skipped.
    pub(super) since: Option<i64>,
}

/// A position between the records of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum RecordPosition {
    /// At the beginning. The shard was empty when it was last read, so there is no sequence number: see [`Position::at`].
    #[default]
    Beginning,
    /// At this sequence number.
    At(String),
    /// After this sequence number.
    After(String),
}

impl ShardProgress {
    /// Whether there is no sequence number, so that only [`Position::at`] shows whether records have been missed.
    pub(super) fn is_unanchored(&self) -> bool {
        matches!(self, ShardProgress::Reading(NextRecord { at: RecordPosition::Beginning, .. }))
    }
}

impl Position {
    /// Serializes the position.
    pub(super) fn save(&self) -> ChangePosition {
        let shards: Vec<_> = self.shards.iter().map(ShardPosition::save).collect();
        ChangePosition(format!("{FORMAT_VERSION}|{}|{}|{}", self.stream, self.at, shards.join(",")))
    }

    /// Parses a serialized position. Another format is a position of another store: a gap.
    pub(super) fn parse(saved: &ChangePosition) -> Result<Self, Error> {
        let position = || {
            let mut parts = saved.0.split('|');
            let (version, stream, at, shards) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            if version != FORMAT_VERSION || stream.is_empty() || parts.next().is_some() {
                return None;
            }
            let shards = shards.split(',').filter(|shard| !shard.is_empty()).map(ShardPosition::parse);
            Some(Position { stream: stream.to_owned(), at: at.parse().ok()?, shards: shards.collect::<Option<_>>()? })
        };
        position().ok_or_else(|| ErrorKind::Gap.into())
    }
}

impl ShardPosition {
    /// A shard from its beginning.
    pub(super) fn beginning(shard: &str) -> Self {
        ShardPosition { shard: shard.to_owned(), progress: ShardProgress::Reading(NextRecord::default()) }
    }

    fn save(&self) -> String {
        let shard = &self.shard;
        match &self.progress {
            ShardProgress::Done => format!("{shard}!"),
            ShardProgress::Reading(NextRecord { at, since }) => {
                let at = match at {
                    RecordPosition::Beginning => String::new(),
                    RecordPosition::At(number) => format!("={number}"),
                    RecordPosition::After(number) => format!(">{number}"),
                };
                let since = since.map_or_else(String::new, |since| format!("~{since}"));
                format!("{shard}{at}{since}")
            }
        }
    }

    fn parse(saved: &str) -> Option<Self> {
        if let Some(shard) = saved.strip_suffix('!') {
            return Some(ShardPosition { shard: shard.to_owned(), progress: ShardProgress::Done });
        }
        let (rest, since) = match saved.split_once('~') {
            Some((rest, since)) => (rest, Some(since.parse().ok()?)),
            None => (saved, None),
        };
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.to_owned())
        };
        let (shard, at) = match (rest.split_once('='), rest.split_once('>')) {
            (Some((shard, next)), _) => (shard, RecordPosition::At(number(next)?)),
            (None, Some((shard, after))) => (shard, RecordPosition::After(number(after)?)),
            (None, None) => (rest, RecordPosition::Beginning),
        };
        let progress = ShardProgress::Reading(NextRecord { at, since });
        (!shard.is_empty()).then(|| ShardPosition { shard: shard.to_owned(), progress })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(shard: &str, at: RecordPosition, since: Option<i64>) -> ShardPosition {
        ShardPosition { shard: shard.to_owned(), progress: ShardProgress::Reading(NextRecord { at, since }) }
    }

    #[test]
    fn a_serialized_position_parses_to_itself() {
        let done = ShardPosition { shard: "shardId-3".to_owned(), progress: ShardProgress::Done };
        let shards = vec![
            reading("shardId-1", RecordPosition::Beginning, None),
            reading("shardId-2", RecordPosition::After("000000000000000000007".to_owned()), None),
            done,
            reading("shardId-4", RecordPosition::Beginning, Some(1_800_000_000_123)),
            reading("shardId-5", RecordPosition::At("8".to_owned()), Some(9)),
        ];
        let position = Position { stream: "2026-11-15T10:08:33.650".to_owned(), at: 1_800_000_000, shards };
        let saved = position.save();
        assert_eq!(
            saved.0,
            "1|2026-11-15T10:08:33.650|1800000000|shardId-1,shardId-2>000000000000000000007,shardId-3!,\
             shardId-4~1800000000123,shardId-5=8~9"
        );
        assert_eq!(Position::parse(&saved).expect("a serialized position"), position);
        let none = Position { shards: Vec::new(), ..position };
        assert_eq!(Position::parse(&none.save()).expect("a serialized position"), none);
    }

    #[test]
    fn other_texts_are_gaps() {
        for text in
            ["", "x", "1", "1|s|2", "2|s|2|", "1||2|", "1|s|x|", "1|s|2|>1", "1|s|2|a>", "1|s|2|a=x", "1|s|2|a~x"]
        {
            let error = Position::parse(&ChangePosition(text.to_owned())).expect_err(text);
            assert_eq!(error.code(), "gap", "{text}");
        }
    }
}
