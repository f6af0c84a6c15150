//! The saved form of a position: how far each open shard of a stream has been read.
//!
//! One line of text, `1|stream|second|shard,shard…`: the version of the form, the stream's label, when the position was
//! last known to be good, and the shards in the order in which they take turns. A shard is its id and how far it has been
//! read: `id` nothing of it, `id=number` up to a sequence number, `id>number` that too, `id!` to its end. A `~millis` at the
//! end says that records from before that moment do not count.

use nagaya_store::{ChangePosition, Error, ErrorKind};

/// The version of the form.
const FORM: &str = "1";

/// How far a stream has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// The label of the stream: another one is another history.
    pub(super) stream: String,
    /// The second since 1970 at which nothing had been missed yet: shards that have no anchor were seen empty later.
    pub(super) at: i64,
    /// The shards, the one whose turn it is first.
    pub(super) shards: Vec<Place>,
}

/// How far a shard has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The shard.
    pub(super) shard: String,
    /// How far.
    pub(super) progress: Progress,
}

/// How far.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    /// Somewhere in it.
    Reading(Mark),
    /// To its end.
    Done,
}

/// A point within a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Mark {
    /// Where the next record is.
    pub(super) next: Next,
    /// The millisecond since 1970 before which records do not count.
    pub(super) since: Option<i64>,
}

/// Where the next record of a shard is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// At its beginning. Nothing was there when it was last looked at, so nothing anchors it: see [`Position::at`].
    #[default]
    Beginning,
    /// At this sequence number.
    At(String),
    /// After this sequence number.
    After(String),
}

impl Progress {
    /// Whether nothing but the time tells that no record has been missed.
    pub(super) fn is_unanchored(&self) -> bool {
        matches!(self, Progress::Reading(Mark { next: Next::Beginning, .. }))
    }
}

impl Position {
    /// The position in its saved form.
    pub(super) fn save(&self) -> ChangePosition {
        let shards: Vec<_> = self.shards.iter().map(Place::save).collect();
        ChangePosition(format!("{FORM}|{}|{}|{}", self.stream, self.at, shards.join(",")))
    }

    /// Reads the saved form. A position in another form is one of another store, from which nothing follows here.
    pub(super) fn read(saved: &ChangePosition) -> Result<Self, Error> {
        let position = || {
            let mut parts = saved.0.split('|');
            let (form, stream, at, shards) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            if form != FORM || stream.is_empty() || parts.next().is_some() {
                return None;
            }
            let shards = shards.split(',').filter(|shard| !shard.is_empty()).map(Place::read);
            Some(Position { stream: stream.to_owned(), at: at.parse().ok()?, shards: shards.collect::<Option<_>>()? })
        };
        position().ok_or_else(|| ErrorKind::Gap.into())
    }
}

impl Place {
    /// A shard from its beginning.
    pub(super) fn beginning(shard: &str) -> Self {
        Place { shard: shard.to_owned(), progress: Progress::Reading(Mark::default()) }
    }

    fn save(&self) -> String {
        let shard = &self.shard;
        match &self.progress {
            Progress::Done => format!("{shard}!"),
            Progress::Reading(Mark { next, since }) => {
                let next = match next {
                    Next::Beginning => String::new(),
                    Next::At(number) => format!("={number}"),
                    Next::After(number) => format!(">{number}"),
                };
                let since = since.map_or_else(String::new, |since| format!("~{since}"));
                format!("{shard}{next}{since}")
            }
        }
    }

    fn read(saved: &str) -> Option<Self> {
        if let Some(shard) = saved.strip_suffix('!') {
            return Some(Place { shard: shard.to_owned(), progress: Progress::Done });
        }
        let (rest, since) = match saved.split_once('~') {
            Some((rest, since)) => (rest, Some(since.parse().ok()?)),
            None => (saved, None),
        };
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.to_owned())
        };
        let (shard, next) = match (rest.split_once('='), rest.split_once('>')) {
            (Some((shard, at)), _) => (shard, Next::At(number(at)?)),
            (None, Some((shard, after))) => (shard, Next::After(number(after)?)),
            (None, None) => (rest, Next::Beginning),
        };
        let progress = Progress::Reading(Mark { next, since });
        (!shard.is_empty()).then(|| Place { shard: shard.to_owned(), progress })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(shard: &str, next: Next, since: Option<i64>) -> Place {
        Place { shard: shard.to_owned(), progress: Progress::Reading(Mark { next, since }) }
    }

    #[test]
    fn a_position_is_read_back_as_it_was_saved() {
        let done = Place { shard: "shardId-3".to_owned(), progress: Progress::Done };
        let shards = vec![
            reading("shardId-1", Next::Beginning, None),
            reading("shardId-2", Next::After("000000000000000000007".to_owned()), None),
            done,
            reading("shardId-4", Next::Beginning, Some(1_800_000_000_123)),
            reading("shardId-5", Next::At("8".to_owned()), Some(9)),
        ];
        let position = Position { stream: "2026-11-15T10:08:33.650".to_owned(), at: 1_800_000_000, shards };
        let saved = position.save();
        assert_eq!(
            saved.0,
            "1|2026-11-15T10:08:33.650|1800000000|shardId-1,shardId-2>000000000000000000007,shardId-3!,\
             shardId-4~1800000000123,shardId-5=8~9"
        );
        assert_eq!(Position::read(&saved).expect("our own form"), position);
        let none = Position { shards: Vec::new(), ..position };
        assert_eq!(Position::read(&none.save()).expect("our own form"), none);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "x", "1", "1|s|2", "2|s|2|", "1||2|", "1|s|x|", "1|s|2|>1", "1|s|2|a>", "1|s|2|a=x", "1|s|2|a~x"]
        {
            let error = Position::read(&ChangePosition(text.to_owned())).expect_err(text);
            assert_eq!(error.code(), "gap", "{text}");
        }
    }
}
