//! Candidates: the items that have all terms of a question, from the newest or the oldest on.
//!
//! The postings of each term are in the order of their items, so the items that all terms have are found by reading the lists side by
//! side. The list that gets furthest with a page says how far: its items are the candidates. What the other lists have read decides
//! about most of them; about the others, their postings are read by key. So a common term costs little beside a rare one.

use std::collections::HashMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nagaya_tenancy::{Error, List, Record};
use tokio::task::yield_now;

use super::{
    Collection,
    query::{HitKey, Pace, SearchScope, SearchTerms, item_id},
    terms::initial,
};

/// Reads that wait for the store at the same time.
const CONCURRENT_READS: usize = 8;
/// Postings that are read by key at once.
const LOOKED_UP_AT_ONCE: usize = 100;

/// An item that has all terms, with the weight of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) key: HitKey,
    pub(super) weights: Vec<i64>,
}

/// Reads candidates.
pub(super) struct Candidates<'s> {
    scope: &'s SearchScope,
    collection: &'s Collection,
    terms: &'s SearchTerms,
    oldest_first: bool,
    /// For each term whether its postings are so many that they are read by key only.
    by_key: Vec<bool>,
    page: usize,
    max_page: usize,
    max_postings: usize,
    /// The last item that was decided about.
    pub(super) at: Option<HitKey>,
    /// Postings of the list that got furthest.
    pub(super) read: usize,
    /// Whether there are no more.
    pub(super) is_done: bool,
}

/// A page of the postings of a term.
struct TermPage {
    term: usize,
    /// The items, in order.
    keys: Vec<HitKey>,
    weights: HashMap<HitKey, i64>,
    has_more: bool,
}

impl<'s> Candidates<'s> {
    /// The candidates after an item.
    pub(super) fn new(
        (scope, collection): (&'s SearchScope, &'s Collection),
        terms: &'s SearchTerms,
        (limit, oldest_first): (usize, bool),
        after: Option<HitKey>,
        pace: &Pace,
    ) -> Self {
        let by_key = match terms {
            SearchTerms::All(terms) => vec![false; terms.len()],
            SearchTerms::Beginning(_) => Vec::new(),
        };
        // One more answer than the page has says that there is a next one.
        let page = pace.first_page.max(limit + 1);
        let (max_page, max_postings) = (pace.max_page, pace.max_postings);
        let (read, is_done) = (0, false);
        Candidates {
            scope,
            collection,
            terms,
            oldest_first,
            by_key,
            page,
            max_page,
            max_postings,
            at: after,
            read,
            is_done,
        }
    }

    /// The next ones. There may be none among those that were read.
    pub(super) async fn next(&mut self) -> Result<Vec<Candidate>, Error> {
        match self.terms {
            SearchTerms::All(terms) => self.next_with_all(terms).await,
            SearchTerms::Beginning(first) => self.beginning_with(*first).await,
        }
    }

    async fn next_with_all(&mut self, terms: &[String]) -> Result<Vec<Candidate>, Error> {
        let size = self.page.min(self.max_page);
        self.page = 2 * size;
        let mut pages = self.read_pages(terms, size).await?;
        let oldest_first = self.oldest_first;
        let furthest = |one: &TermPage, other: &TermPage| {
            let last = |page: &TermPage| page.keys.last().cloned();
            let order = match (last(one), last(other)) {
                (Some(one), Some(other)) if precedes(&one, &other, oldest_first) => std::cmp::Ordering::Less,
                (Some(one), Some(other)) if one == other => std::cmp::Ordering::Equal,
                _ => std::cmp::Ordering::Greater,
            };
            // What has no more has got to the end; of several, the one with the fewest postings.
            other.has_more.cmp(&one.has_more).then(match one.has_more {
                true => order,
                false => other.keys.len().cmp(&one.keys.len()),
            })
        };
        let Some(at) = (0..pages.len()).max_by(|one, other| furthest(&pages[*one], &pages[*other])) else {
            self.is_done = true;
            return Ok(Vec::new());
        };
        let first = pages.swap_remove(at);
        self.read += first.keys.len();
        self.is_done = !first.has_more;
        self.at = first.keys.last().cloned().or(self.at.take());
        let mut candidates: Vec<_> = first
            .keys
            .iter()
            .map(|key| {
                let mut weights = vec![0; terms.len()];
                weights[first.term] = first.weights.get(key).copied().unwrap_or_default();
                Candidate { key: key.clone(), weights }
            })
            .collect();
        let pages: HashMap<usize, TermPage> = pages.into_iter().map(|page| (page.term, page)).collect();
        for page in pages.values() {
            candidates.retain_mut(|candidate| match page.weights.get(&candidate.key) {
                Some(weight) => {
                    candidate.weights[page.term] = *weight;
                    true
                }
                None => !page.reaches(&candidate.key, oldest_first),
            });
        }
        for (at, term) in terms.iter().enumerate().filter(|(at, _)| *at != first.term) {
            let is_open = |candidate: &Candidate| candidate.weights[at] == 0;
            let open: Vec<_> = candidates.iter().filter(|each| is_open(each)).map(|each| each.key.clone()).collect();
            if pages.contains_key(&at) && 2 * open.len() > first.keys.len() {
                self.by_key[at] = true;
            }
            let found = self.look_up(term, &open).await?;
            candidates.retain_mut(|candidate| {
                let weight = found.get(&candidate.key).copied();
                candidate.weights[at] = weight.unwrap_or(candidate.weights[at]);
                candidate.weights[at] != 0
            });
        }
        Ok(candidates)
    }

    /// A page of each term that is not read by key. Several wait for a store that is elsewhere; when one is done, other tasks have
    /// their turn first.
    async fn read_pages(&self, terms: &[String], size: usize) -> Result<Vec<TermPage>, Error> {
        let listed = terms.iter().enumerate().filter(|(at, _)| !self.by_key[*at]);
        let reads: Vec<_> = listed.map(|(at, term)| self.read_page(at, term, size)).collect();
        let mut reads = stream::iter(reads).buffer_unordered(CONCURRENT_READS);
        let mut pages = Vec::new();
        while let Some(page) = reads.try_next().await? {
            pages.push(page);
            yield_now().await;
        }
        Ok(pages)
    }

    async fn read_page(&self, at: usize, term: &str, size: usize) -> Result<TermPage, Error> {
        let (of_term, _) = self.collection.access_patterns();
        let list = self.list(of_term, initial(term)).with("term", term).descending(!self.oldest_first).limit(size);
        let list = match &self.at {
            Some(key) => list.after(self.collection.posting_id(term, &item_id(key))),
            None => list,
        };
        let page = self.scope.list(&list).await?;
        let postings: Vec<_> = page.records.iter().map(posting).collect();
        let keys = postings.iter().map(|(key, _)| key.clone()).collect();
        let has_more = page.next.is_some() && !postings.is_empty();
        Ok(TermPage { term: at, keys, weights: postings.into_iter().collect(), has_more })
    }

    /// The postings of a term that these items have.
    async fn look_up(&self, term: &str, keys: &[HitKey]) -> Result<HashMap<HitKey, i64>, Error> {
        let mut found = HashMap::new();
        for some in keys.chunks(LOOKED_UP_AT_ONCE) {
            let ids: Vec<_> = some.iter().map(|key| self.collection.posting_id(term, &item_id(key))).collect();
            let ids: Vec<Vec<&str>> = ids.iter().map(|id| id.iter().map(String::as_str).collect()).collect();
            let wanted: Vec<_> = ids.iter().map(|id| (self.collection.postings(), id.as_slice())).collect();
            found.extend(self.scope.get_many(&wanted).await?.iter().flatten().map(posting));
            yield_now().await;
        }
        Ok(found)
    }

    /// All items with a term that begins with a letter, each with the weightiest: these postings are sorted by term before their items.
    async fn beginning_with(&mut self, first: char) -> Result<Vec<Candidate>, Error> {
        let (_, beginning_with) = self.collection.access_patterns();
        let mut list = self.list(beginning_with, Some(first));
        if !self.collection.public {
            list = list.with("term", first);
        }
        let mut weights: HashMap<HitKey, i64> = HashMap::new();
        let mut left = self.max_postings;
        loop {
            let page = self.scope.list(&list.clone().limit(self.max_page.min(left))).await?;
            left = left.saturating_sub(page.records.len());
            // A partition of the catalog has words and tags too.
            let is_letters = |record: &&Record| record.text("term").is_some_and(|term| term.starts_with(first));
            for (key, weight) in page.records.iter().filter(is_letters).map(posting) {
                let best = weights.entry(key).or_insert(weight);
                *best = weight.max(*best);
            }
            yield_now().await;
            match page.next.filter(|_| left > 0) {
                Some(next) => list = list.cursor(next),
                None => break,
            }
        }
        let after = self.at.take();
        let mut found: Vec<_> =
            weights.into_iter().map(|(key, weight)| Candidate { key, weights: vec![weight] }).collect();
        found.retain(|each| after.as_ref().is_none_or(|after| precedes(after, &each.key, self.oldest_first)));
        found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        if !self.oldest_first {
            found.reverse();
        }
        (self.read, self.is_done) = (found.len(), true);
        self.at = found.last().map(|candidate| candidate.key.clone());
        Ok(found)
    }

    fn list(&self, access: &str, initial: Option<char>) -> List {
        let list = List::by(access).with("kind", self.collection.kind);
        // The terms of the catalog are partitioned by their first letter.
        match initial.filter(|_| self.collection.public) {
            Some(initial) => list.with("initial", initial),
            None => list,
        }
    }
}

impl TermPage {
    /// Whether the page has got as far as to this item: then it has the posting, or there is none.
    fn reaches(&self, key: &HitKey, oldest_first: bool) -> bool {
        !self.has_more || self.keys.last().is_some_and(|last| !precedes(last, key, oldest_first))
    }
}

/// Whether an item comes before another one.
pub(super) fn precedes(one: &HitKey, other: &HitKey, oldest_first: bool) -> bool {
    if oldest_first { one < other } else { one > other }
}

fn posting(record: &Record) -> (HitKey, i64) {
    let text = |field: &str| record.text(field).unwrap_or_default().to_owned();
    let weight = record.json("weight").and_then(|weight| weight.as_i64()).unwrap_or_default();
    ((text("createdAt"), text("targetId")), weight)
}
