//! Lineage: which shards of a stream to read, so that a child comes after its parent.
//!
//! A stream is a forest of shards that grows and is cut at its old end. A shard is closed when it is split or has been
//! open for some hours, and its children go on with its items. A position names only the shards at its front; what is
//! older has been read, and what is younger is found from here.

use std::collections::{HashMap, HashSet};

use nagaya_store::{Error, ErrorKind};

use super::position::{Mark, Place, Progress};

/// A shard, as the server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) id: String,
    pub(super) parent: Option<String>,
}

/// What comes of a shard that the front does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has been read: some shard after it is at the front.
    Read,
    /// Its turn comes after its parent.
    Waits,
    /// Its turn has come.
    Opens,
}

/// The front, with children in the place of shards that have been read to their end.
///
/// A shard of the front that is gone, with nothing that goes on from it, is a gap: what was in it has been trimmed.
pub(super) fn follow(front: &[Place], shards: &[Shard]) -> Result<Vec<Place>, Error> {
    let known: HashMap<&str, &Shard> = shards.iter().map(|shard| (shard.id.as_str(), shard)).collect();
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    for shard in shards {
        if let Some(parent) = &shard.parent {
            children.entry(parent).or_default().push(&shard.id);
        }
    }
    for place in front {
        let followed = place.progress == Progress::Done && children.contains_key(place.shard.as_str());
        if !known.contains_key(place.shard.as_str()) && !followed {
            return Err(ErrorKind::Gap.into());
        }
    }

    let done: HashMap<&str, bool> =
        front.iter().map(|place| (place.shard.as_str(), place.progress == Progress::Done)).collect();
    let read = read_before(front, &known);
    let mut fates: HashMap<&str, Fate> = HashMap::new();
    for shard in parents_first(shards, &known) {
        if done.contains_key(shard.id.as_str()) {
            continue;
        }
        let fate = if read.contains(shard.id.as_str()) {
            Fate::Read
        } else {
            match shard.parent.as_deref().map(|parent| (done.get(parent), fates.get(parent))) {
                Some((Some(false), _) | (_, Some(Fate::Waits | Fate::Opens))) => Fate::Waits,
                // Its parent has been read, or is older than anything that is kept.
                _ => Fate::Opens,
            }
        };
        fates.insert(&shard.id, fate);
    }

    // A shard leaves the front once all that go on from it are there, or further.
    let succeeded = |place: &&Place| {
        let goes_on =
            |child: &&str| done.contains_key(child) || matches!(fates.get(child), Some(Fate::Read | Fate::Opens));
        place.progress == Progress::Done
            && children.get(place.shard.as_str()).is_some_and(|children| children.iter().all(goes_on))
    };
    let stay = front.iter().filter(|place| !succeeded(place)).cloned();
    let opened = shards.iter().filter(|shard| fates.get(shard.id.as_str()) == Some(&Fate::Opens));
    Ok(stay.chain(opened.map(|shard| Place::beginning(&shard.id))).collect())
}

/// The front of a reader for whom nothing before this millisecond counts: the youngest shards.
///
/// Whether one of them is closed shows when it is read. What a description says of that can be old, and dynoxide calls open
/// shards closed.
pub(super) fn youngest(shards: &[Shard], since: i64) -> Vec<Place> {
    let parents: HashSet<&str> = shards.iter().filter_map(|shard| shard.parent.as_deref()).collect();
    let leaves = shards.iter().filter(|shard| !parents.contains(shard.id.as_str()));
    let place = |shard: &Shard| {
        let mark = Mark { since: Some(since), ..Mark::default() };
        Place { shard: shard.id.clone(), progress: Progress::Reading(mark) }
    };
    leaves.map(place).collect()
}

/// All ancestors of the front.
fn read_before<'a>(front: &[Place], known: &HashMap<&'a str, &'a Shard>) -> HashSet<&'a str> {
    let mut read = HashSet::new();
    for place in front {
        let mut shard = known.get(place.shard.as_str());
        while let Some(parent) = shard.and_then(|shard| shard.parent.as_deref()) {
            // A chain that was walked before, or one that bites its tail.
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

    /// Places as ids, those read to their end with a `!`.
    fn front(text: &str) -> Vec<Place> {
        let place = |text: &str| match text.strip_suffix('!') {
            Some(shard) => Place { shard: shard.to_owned(), progress: Progress::Done },
            None => Place::beginning(text),
        };
        text.split_whitespace().map(place).collect()
    }

    #[track_caller]
    fn check(before: &str, stream: &str, after: &str) {
        assert_eq!(follow(&front(before), &shards(stream)).expect("no gap"), front(after));
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
    fn what_has_been_read_is_not_read_again() {
        check("c", "a b<a c<b", "c");
        check("b c", "a b<a c<a d<b e<c", "b c");
        check("b! c", "a b<a c<a d<b e<c", "c d");
    }

    #[test]
    fn a_shard_stays_until_its_children_are_known() {
        check("a!", "a", "a!");
        check("a!", "a b<a", "b");
        // A sibling that the server tells late.
        check("b", "a b<a c<a", "b c");
    }

    #[test]
    fn a_shard_that_is_gone_is_a_gap_unless_its_child_goes_on() {
        for (before, stream) in [("a", "b<a"), ("a", "c"), ("a!", "c<b"), ("a", "")] {
            let error = follow(&front(before), &shards(stream)).expect_err("a gap");
            assert_eq!(error.code(), "gap", "{before} in {stream}");
        }
        check("a!", "b<a", "b");
    }

    #[test]
    fn now_is_the_youngest_shards() {
        let places = youngest(&shards("a b<a c<b d"), 7);
        let mark = Mark { since: Some(7), ..Mark::default() };
        let place = |shard: &str| Place { shard: shard.to_owned(), progress: Progress::Reading(mark.clone()) };
        assert_eq!(places, [place("c"), place("d")]);
        // None of the older ones comes back.
        assert_eq!(follow(&places, &shards("a b<a c<b d")).expect("no gap"), places);
    }

    #[test]
    fn lineage_that_bites_its_tail_ends() {
        check("", "a<b b<a", "a");
    }
}
