//! Shard lineage: which shards of a stream to read, each after its parent.
//!
//! The shards of a stream form a forest. A shard is closed when it is split or after some hours, and its children continue
//! with its items. Old shards are trimmed. A position names only the frontier: the shards that are being read. Their
//! ancestors have been read, and their descendants are found through the lineage.

use std::collections::{HashMap, HashSet};

use nagaya_store::{Error, ErrorKind};

use super::position::{NextRecord, ShardPosition, ShardProgress};

/// A shard, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) id: String,
    pub(super) parent: Option<String>,
}

/// The state of a shard that is not on the frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShardState {
    /// A descendant is on the frontier.
    AlreadyRead,
    /// Its parent is not read to its end.
    WaitsForParent,
    /// It can be read now.
    Ready,
}

/// Replaces the shards of the frontier that have been read to their end with their children.
///
/// A shard of the frontier that is missing and has no children is a gap: its records have been trimmed.
pub(super) fn advance(frontier: &[ShardPosition], shards: &[Shard]) -> Result<Vec<ShardPosition>, Error> {
    let known: HashMap<&str, &Shard> = shards.iter().map(|shard| (shard.id.as_str(), shard)).collect();
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    for shard in shards {
        if let Some(parent) = &shard.parent {
            children.entry(parent).or_default().push(&shard.id);
        }
    }
    for position in frontier {
        let has_successor = position.progress == ShardProgress::Done && children.contains_key(position.shard.as_str());
        if !known.contains_key(position.shard.as_str()) && !has_successor {
            return Err(ErrorKind::Gap.into());
        }
    }

    let done: HashMap<&str, bool> =
        frontier.iter().map(|position| (position.shard.as_str(), position.progress == ShardProgress::Done)).collect();
    let read = ancestors(frontier, &known);
    let mut states: HashMap<&str, ShardState> = HashMap::new();
    for shard in parents_first(shards, &known) {
        if done.contains_key(shard.id.as_str()) {
            continue;
        }
        let state = if read.contains(shard.id.as_str()) {
            ShardState::AlreadyRead
        } else {
            match shard.parent.as_deref().map(|parent| (done.get(parent), states.get(parent))) {
                Some((Some(false), _) | (_, Some(ShardState::WaitsForParent | ShardState::Ready))) => {
                    ShardState::WaitsForParent
                }
                // Its parent has been read or trimmed.
                _ => ShardState::Ready,
            }
        };
        states.insert(&shard.id, state);
    }

    // A shard leaves the frontier when each child is on it or has been read.
    let is_succeeded = |position: &&ShardPosition| {
        let is_reached = |child: &&str| {
            done.contains_key(child) || matches!(states.get(child), Some(ShardState::AlreadyRead | ShardState::Ready))
        };
        position.progress == ShardProgress::Done
            && children.get(position.shard.as_str()).is_some_and(|children| children.iter().all(is_reached))
    };
    let kept = frontier.iter().filter(|position| !is_succeeded(position)).cloned();
    let opened = shards.iter().filter(|shard| states.get(shard.id.as_str()) == Some(&ShardState::Ready));
    Ok(kept.chain(opened.map(|shard| ShardPosition::beginning(&shard.id))).collect())
}

/// The frontier of a reader that skips all records before this millisecond: the shards without children.
///
/// Closed shards are among them; reading shows that. The description may be out of date, and dynoxide describes open shards
/// as closed.
pub(super) fn frontier_from(shards: &[Shard], since: i64) -> Vec<ShardPosition> {
    let parents: HashSet<&str> = shards.iter().filter_map(|shard| shard.parent.as_deref()).collect();
    let leaves = shards.iter().filter(|shard| !parents.contains(shard.id.as_str()));
    let position = |shard: &Shard| {
        let next = NextRecord { since: Some(since), ..NextRecord::default() };
        ShardPosition { shard: shard.id.clone(), progress: ShardProgress::Reading(next) }
    };
    leaves.map(position).collect()
}

/// All ancestors of the frontier.
fn ancestors<'a>(frontier: &[ShardPosition], known: &HashMap<&'a str, &'a Shard>) -> HashSet<&'a str> {
    let mut read = HashSet::new();
    for position in frontier {
        let mut shard = known.get(position.shard.as_str());
        while let Some(parent) = shard.and_then(|shard| shard.parent.as_deref()) {
            // The rest of the chain was visited before, or it is a cycle.
            if !read.insert(parent) {
                break;
            }
            shard = known.get(parent);
        }
    }
    read
}

/// The shards, each after its parent.
fn parents_first<'a>(shards: &'a [Shard], known: &HashMap<&'a str, &'a Shard>) -> Vec<&'a Shard> {
    let depth = |shard: &Shard| {
        let mut depth = 0;
        let mut above = shard.parent.as_deref();
        while let Some(parent) = above.and_then(|parent| known.get(parent)) {
            depth += 1;
            above = parent.parent.as_deref().filter(|_| depth < shards.len());
        }
        depth
    };
    let mut sorted: Vec<&Shard> = shards.iter().collect();
    sorted.sort_by_cached_key(|shard| depth(shard));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shards as `child<parent`.
    fn shards(text: &str) -> Vec<Shard> {
        let shard = |text: &str| {
            let (id, parent) = text.split_once('<').map_or((text, None), |(id, parent)| (id, Some(parent.to_owned())));
            Shard { id: id.to_owned(), parent }
        };
        text.split_whitespace().map(shard).collect()
    }

    /// Positions as shard ids, with a `!` when read to the end.
    fn frontier(text: &str) -> Vec<ShardPosition> {
        let position = |text: &str| match text.strip_suffix('!') {
            Some(shard) => ShardPosition { shard: shard.to_owned(), progress: ShardProgress::Done },
            None => ShardPosition::beginning(text),
        };
        text.split_whitespace().map(position).collect()
    }

    #[track_caller]
    fn check(before: &str, stream: &str, after: &str) {
        assert_eq!(advance(&frontier(before), &shards(stream)).expect("no gap"), frontier(after));
    }

    #[test]
    fn a_new_reader_begins_with_the_oldest_shards() {
        check("", "a b<a c<b d", "a d");
        check("", "c<b b<a d", "b d");
        check("", "", "");
    }

    #[test]
    fn a_child_waits_for_its_parent() {
        check("a", "a b<a c<b", "a");
        check("a!", "a b<a c<b", "b");
        check("b!", "a b<a c<b", "c");
        check("a! x", "a b<a c<a x", "x b c");
    }

    #[test]
    fn shards_that_have_been_read_are_not_read_again() {
        check("c", "a b<a c<b", "c");
        check("b c", "a b<a c<a d<b e<c", "b c");
        check("b! c", "a b<a c<a d<b e<c", "c d");
    }

    #[test]
    fn a_shard_stays_until_its_children_are_known() {
        check("a!", "a", "a!");
        check("a!", "a b<a", "b");
        // A sibling that the server lists late.
        check("b", "a b<a c<a", "b c");
    }

    #[test]
    fn a_missing_shard_is_a_gap_unless_it_was_read_and_has_a_child() {
        for (before, stream) in [("a", "b<a"), ("a", "c"), ("a!", "c<b"), ("a", "")] {
            let error = advance(&frontier(before), &shards(stream)).expect_err("a gap");
            assert_eq!(error.code(), "gap", "{before} in {stream}");
        }
        check("a!", "b<a", "b");
    }

    #[test]
    fn a_reader_from_now_begins_with_the_shards_without_children() {
        let positions = frontier_from(&shards("a b<a c<b d"), 7);
        let next = NextRecord { since: Some(7), ..NextRecord::default() };
        let position =
            |shard: &str| ShardPosition { shard: shard.to_owned(), progress: ShardProgress::Reading(next.clone()) };
        assert_eq!(positions, [position("c"), position("d")]);
        // Older shards are not added later.
        assert_eq!(advance(&positions, &shards("a b<a c<b d")).expect("no gap"), positions);
    }

    #[test]
    fn a_cycle_in_the_lineage_ends() {
        check("", "a<b b<a", "a");
    }
}
