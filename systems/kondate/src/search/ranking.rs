//! Which items answer best, while their postings are read from the newest to the oldest.

use std::{cmp::Ordering, collections::HashMap};

/// The largest weight of a term.
pub(super) const MAX_WEIGHT: i64 = super::index::TITLE_WEIGHT;

/// The key of a hit, which sorts the newest last: the time of publication (empty for own items) and the id.
pub(super) type HitKey = (String, String);

/// How well an item answers: how many terms it has, and how weighty they are.
type Score = (usize, i64);

/// The best items among those whose postings have been read.
pub(super) struct Ranking {
    /// The number of terms. An item that has fewer than half of them is no answer.
    terms: usize,
    limit: usize,
    oldest_first: bool,
    scores: HashMap<HitKey, Score>,
}

/// How far the lists of postings are read that have more.
pub(super) struct Unread {
    /// Lists of which nothing is read.
    untouched: usize,
    /// The last item that was read of the others, the oldest first.
    read_to: Vec<HitKey>,
}

/// What reading on could change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undecided {
    /// The answer could have an item of which no posting has been read.
    pub(super) others: bool,
    /// Items that are in the answer or could be, and could have more terms.
    pub(super) hits: Vec<HitKey>,
}

impl Undecided {
    pub(super) fn is_none(&self) -> bool {
        !self.others && self.hits.is_empty()
    }
}

impl Unread {
    /// Of the last items that were read of these lists; `None`: nothing was read of one.
    pub(super) fn new<'k>(read_to: impl Iterator<Item = Option<&'k HitKey>>) -> Self {
        let (mut untouched, mut keys) = (0, Vec::new());
        for to in read_to {
            match to {
                Some(key) => keys.push(key.clone()),
                None => untouched += 1,
            }
        }
        keys.sort_unstable();
        Unread { untouched, read_to: keys }
    }

    fn count(&self) -> usize {
        self.untouched + self.read_to.len()
    }

    /// How many of the lists could still have this item: those that are not read as far as to it.
    fn that_could_have(&self, key: &HitKey) -> usize {
        self.count() - self.read_to.partition_point(|to| to <= key)
    }

    /// Whether an item of which nothing has been read could be newer than this one.
    fn could_have_newer(&self, key: &HitKey) -> bool {
        self.untouched > 0 || self.read_to.last().is_some_and(|to| to > key)
    }
}

impl Ranking {
    pub(super) fn new(terms: usize, limit: usize, oldest_first: bool) -> Self {
        Ranking { terms, limit, oldest_first, scores: HashMap::new() }
    }

    /// Counts a term that an item has; once for each term.
    pub(super) fn add(&mut self, key: HitKey, weight: i64) {
        let score = self.scores.entry(key).or_default();
        *score = (score.0 + 1, score.1 + weight);
    }

    /// Forgets the items that cannot be in the answer any more, and tells what is open.
    pub(super) fn settle(&mut self, unread: &Unread) -> Undecided {
        let bar = self.bar();
        let (terms, oldest_first) = (self.terms, self.oldest_first);
        let at_best = |(terms, weight): Score, more: usize| (terms + more, weight + MAX_WEIGHT * more as i64);
        let mut hits = Vec::new();
        self.scores.retain(|key, score| {
            let more = unread.that_could_have(key);
            let best = at_best(*score, more);
            let stays = is_answer(best, terms)
                && bar.as_ref().is_none_or(|bar| compare((best, key), (bar.0, &bar.1), oldest_first).is_ge());
            if stays && more > 0 {
                hits.push(key.clone());
            }
            stays
        });
        let best = at_best((0, 0), unread.count());
        let others = unread.count() > 0
            && is_answer(best, terms)
            && bar.is_none_or(|(score, key)| match best.cmp(&score) {
                Ordering::Equal => oldest_first || unread.could_have_newer(&key),
                better => better.is_gt(),
            });
        Undecided { others, hits }
    }

    /// The best items, the best first.
    pub(super) fn into_best(mut self) -> Vec<HitKey> {
        let (terms, oldest_first) = (self.terms, self.oldest_first);
        self.scores.retain(|_, score| is_answer(*score, terms));
        let mut ranked: Vec<_> = self.scores.into_iter().collect();
        ranked.sort_unstable_by(|(key, score), (other, others)| compare((*others, other), (*score, key), oldest_first));
        ranked.into_iter().take(self.limit).map(|(key, _)| key).collect()
    }

    /// The last item of a full answer, if nothing more were read: what is worse than this is not in the answer.
    fn bar(&self) -> Option<(Score, HitKey)> {
        let mut ranked: Vec<_> = self.scores.iter().filter(|(_, score)| is_answer(**score, self.terms)).collect();
        let last = self.limit.checked_sub(1).filter(|last| *last < ranked.len())?;
        let (_, (key, score), _) = ranked.select_nth_unstable_by(last, |(key, score), (other, others)| {
            compare((**others, other), (**score, key), self.oldest_first)
        });
        Some((**score, (*key).clone()))
    }
}

fn is_answer((found, _): Score, terms: usize) -> bool {
    2 * found >= terms
}

/// Greater is better: more terms, then weightier ones, then newer or older.
fn compare((score, key): (Score, &HitKey), (others, other): (Score, &HitKey), oldest_first: bool) -> Ordering {
    let by_age = if oldest_first { other.cmp(key) } else { key.cmp(other) };
    score.cmp(&others).then(by_age)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> HitKey {
        (String::new(), id.to_owned())
    }

    /// What each term is found in.
    fn ranking(found: &[&[(&str, i64)]], limit: usize, oldest_first: bool) -> Ranking {
        let mut ranking = Ranking::new(found.len(), limit, oldest_first);
        for (id, weight) in found.iter().copied().flatten() {
            ranking.add(key(id), *weight);
        }
        ranking
    }

    /// What each term is found in, and the order that comes of it.
    #[track_caller]
    fn check(found: &[&[(&str, i64)]], limit: usize, oldest_first: bool, expected: &[&str]) {
        let ranked = ranking(found, limit, oldest_first).into_best();
        assert_eq!(ranked, expected.iter().map(|id| key(id)).collect::<Vec<_>>());
    }

    #[test]
    fn hits_are_sorted_by_terms_then_weight_then_age() {
        check(&[&[("a", 1), ("b", 4)], &[("a", 1)]], 9, false, &["a", "b"]);
        check(&[&[("a", 1), ("b", 4)], &[("a", 2), ("b", 1)]], 9, false, &["b", "a"]);
        check(&[&[("a", 4), ("c", 4), ("b", 4)]], 9, false, &["c", "b", "a"]);
        check(&[&[("a", 4), ("c", 4), ("b", 4)]], 2, false, &["c", "b"]);
        check(&[&[("a", 1), ("b", 4), ("c", 4)]], 9, true, &["b", "c", "a"]);
    }

    #[test]
    fn items_with_fewer_than_half_of_the_terms_are_not_found() {
        check(&[&[("a", 4)], &[("b", 4)], &[("b", 1)]], 9, false, &["b"]);
        check(&[&[("a", 4)], &[("b", 4)]], 9, false, &["b", "a"]);
        check(&[&[], &[], &[]], 9, false, &[]);
    }

    /// Terms and what is read of them, how far the lists are read that have more, and what is undecided.
    #[track_caller]
    fn check_settled(ranking: &mut Ranking, read_to: &[Option<&str>], (others, hits, kept): (bool, &[&str], &[&str])) {
        let keys: Vec<_> = read_to.iter().map(|id| id.map(key)).collect();
        let mut undecided = ranking.settle(&Unread::new(keys.iter().map(Option::as_ref)));
        undecided.hits.sort();
        assert_eq!(undecided, Undecided { others, hits: hits.iter().map(|id| key(id)).collect() });
        let mut now: Vec<_> = ranking.scores.keys().map(|(_, id)| id.as_str()).collect();
        now.sort();
        assert_eq!(now, kept);
    }

    #[test]
    fn a_full_answer_of_the_best_newest_items_needs_no_more() {
        let same: &[_] = &[("e", 4), ("d", 4), ("c", 4)];
        // Both lists go on after `c`.
        check_settled(&mut ranking(&[same, same], 2, false), &[Some("c"), Some("c")], (false, &[], &["d", "e"]));
        check_settled(&mut ranking(&[same, same], 3, false), &[Some("c"), Some("c")], (false, &[], &["c", "d", "e"]));
        // Not full, or older ones come first, or others could weigh more.
        let all = ["c", "d", "e"];
        check_settled(&mut ranking(&[same, same], 4, false), &[Some("c"), Some("c")], (true, &[], &all));
        check_settled(&mut ranking(&[same, same], 2, true), &[Some("c"), Some("c")], (true, &[], &["c", "d"]));
        let light: &[_] = &[("e", 4), ("d", 3), ("c", 3)];
        check_settled(&mut ranking(&[same, light], 2, false), &[Some("c"), Some("c")], (true, &[], &["d", "e"]));
        // One list is behind: `d` could be as good as `e`, and so could an item that has not been seen.
        let behind: &[_] = &[("e", 4)];
        check_settled(&mut ranking(&[same, behind], 1, false), &[Some("c"), Some("e")], (false, &[], &["e"]));
        check_settled(&mut ranking(&[same, &[]], 1, false), &[Some("c"), None], (true, &all, &all));
    }

    #[test]
    fn only_items_that_can_still_have_half_of_the_terms_are_kept() {
        let (rare, common): (&[_], &[_]) = (&[("a", 1), ("z", 1)], &[("z", 1), ("y", 1), ("x", 1)]);
        // Three of five: `y` has one, and only one list goes on after it.
        let found = [rare, rare, common, &[], &[]];
        check_settled(&mut ranking(&found, 9, false), &[Some("x")], (false, &["a"], &["a", "z"]));
        // An item that has not been seen can be in two lists, which is too few.
        check_settled(&mut ranking(&found, 9, false), &[Some("x"), None], (false, &["a", "z"], &["a", "z"]));
        check_settled(&mut ranking(&found, 9, false), &[], (false, &[], &["z"]));
        check_settled(&mut ranking(&[&[], &[]], 9, false), &[], (false, &[], &[]));
    }
}
