//! Asking: which items have the terms of a question, the best ones first.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nagaya_tenancy::{Error, List, MAX_PAGE_BYTES, Page, Record, Tenant, Visitor};
use tokio::task::yield_now;

use super::{
    Collection,
    ranking::{HitKey, Ranking, Unread},
    terms::QueryTerm,
};

/// Items that are read at once: even large ones take little memory.
const ITEMS_AT_ONCE: usize = 20;
/// Reads that wait for the store at the same time.
const CONCURRENT_READS: usize = 8;

/// How much is read at once, and at most.
#[derive(Debug)]
pub(super) struct Pace {
    /// Postings of a term that come first, and as many as the answer has items. Often these are enough.
    pub(super) first_page: usize,
    /// Postings that come at once later: few, because the store may give nobody else a turn meanwhile.
    pub(super) max_page: usize,
    /// Postings of a term that are read, at most: those of the newest items.
    pub(super) max_postings: usize,
    /// The most items whose postings are read by their keys, in place of all those of a term.
    pub(super) max_looked_up: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { first_page: 32, max_page: 250, max_postings: 2_000, max_looked_up: 100 }
    }
}

/// Whose items are searched.
pub(super) enum SearchScope {
    Own(Tenant),
    Catalog(Visitor),
}

impl SearchScope {
    async fn list(&self, list: &List) -> Result<Page, Error> {
        match self {
            SearchScope::Own(tenant) => tenant.list(list).await,
            SearchScope::Catalog(visitor) => visitor.list(list).await,
        }
    }

    async fn get_many(&self, wanted: &[(&str, &[&str])]) -> Result<Vec<Option<Record>>, Error> {
        match self {
            SearchScope::Own(tenant) => tenant.get_many(wanted).await,
            SearchScope::Catalog(visitor) => visitor.get_many(wanted).await,
        }
    }
}

/// The items that answer best, at most `limit` of them, of equally good ones the newest or the oldest first. One that has
/// fewer than half of the terms is no answer.
///
/// A store in this process answers at once: after each read, other tasks have their turn.
pub(super) async fn search(
    scope: &SearchScope,
    collection: &Collection,
    wanted: &[QueryTerm],
    (limit, oldest_first): (usize, bool),
    pace: &Pace,
) -> Result<Vec<Record>, Error> {
    let best = best_hits(scope, collection, wanted, (limit, oldest_first), pace).await?;
    let ids: Vec<_> = best.iter().map(item_id).collect();
    let wanted: Vec<_> = ids.iter().map(|id| (collection.entity, id.as_slice())).collect();
    let (mut found, mut bytes) = (Vec::new(), 0);
    for some in wanted.chunks(ITEMS_AT_ONCE) {
        // Those that are gone are left out: their postings follow.
        for record in scope.get_many(some).await?.into_iter().flatten() {
            bytes += record.size();
            // An answer is at most as large as the page of a list, which holds any single item.
            if bytes > MAX_PAGE_BYTES {
                return Ok(found);
            }
            found.push(record);
        }
        yield_now().await;
    }
    Ok(found)
}

/// The keys of the best items.
///
/// The postings of each term are read from the newest to the oldest, page by page, until nothing that is unread can change the answer.
async fn best_hits(
    scope: &SearchScope,
    collection: &Collection,
    wanted: &[QueryTerm],
    (limit, oldest_first): (usize, bool),
    pace: &Pace,
) -> Result<Vec<HitKey>, Error> {
    let mut ranking = Ranking::new(wanted.len(), limit, oldest_first);
    let mut lists: Vec<_> = wanted.iter().map(|term| Postings::new(collection, term, pace.max_postings)).collect();
    // What begins with a character comes by its terms, and its newest items are known at the end only.
    while let Some(at) = lists.iter().position(|list| list.pair.is_none()) {
        let beginning = lists.swap_remove(at);
        for (key, weight) in beginning.read_all(scope, pace.max_page).await? {
            ranking.add(key, weight);
        }
        if ranking.settle(&unread(&lists)).is_none() {
            return Ok(ranking.into_best());
        }
    }

    let mut page = pace.first_page.max(limit);
    loop {
        let undecided = ranking.settle(&unread(&lists));
        if !undecided.others {
            lists.retain(|list| undecided.hits.iter().any(|key| list.could_have(key)));
            if undecided.hits.len() <= pace.max_looked_up {
                in_turns(lists.iter().map(|list| list.look_up(scope, collection, &undecided.hits)), &mut ranking)
                    .await?;
                return Ok(ranking.into_best());
            }
        }
        let size = page.min(pace.max_page);
        in_turns(lists.iter_mut().map(|list| list.read(scope, size)), &mut ranking).await?;
        lists.retain(|list| !list.is_read);
        page = 2 * size;
    }
}

/// Adds what these reads find. Several wait for a store that is elsewhere; when one is done, other tasks have their turn first.
async fn in_turns(
    reads: impl Iterator<Item = impl Future<Output = Result<Vec<(HitKey, i64)>, Error>> + Send>,
    ranking: &mut Ranking,
) -> Result<(), Error> {
    let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(CONCURRENT_READS);
    while let Some(postings) = reads.try_next().await? {
        for (key, weight) in postings {
            ranking.add(key, weight);
        }
        yield_now().await;
    }
    Ok(())
}

fn unread(lists: &[Postings<'_>]) -> Unread {
    Unread::new(lists.iter().map(|list| list.read_to.as_ref()))
}

fn item_id((at, id): &HitKey) -> Vec<&str> {
    if at.is_empty() { vec![id] } else { vec![at, id] }
}

/// The postings of a term, from the newest to the oldest item.
struct Postings<'t> {
    /// The term; `None`: all terms that begin with a character, which are sorted by term before their items.
    pair: Option<&'t str>,
    list: List,
    /// The last item that was read.
    read_to: Option<HitKey>,
    /// Whether there are no more.
    is_read: bool,
    /// How many may still be read.
    left: usize,
}

impl<'t> Postings<'t> {
    fn new(collection: &Collection, term: &'t QueryTerm, max: usize) -> Self {
        let (of_term, beginning_with) = collection.access_patterns();
        let initial = |list: List, first: Option<char>| match first.filter(|_| collection.public) {
            Some(first) => list.with("initial", first),
            None => list,
        };
        let (pair, list) = match term {
            QueryTerm::Pair(pair) => {
                (Some(pair.as_str()), initial(List::by(of_term).with("term", pair), pair.chars().next()))
            }
            // The terms of the catalog are partitioned by their first character.
            QueryTerm::Beginning(first) if collection.public => (None, initial(List::by(beginning_with), Some(*first))),
            QueryTerm::Beginning(first) => (None, List::by(beginning_with).with("term", *first)),
        };
        Postings { pair, list: list.with("kind", collection.kind), read_to: None, is_read: false, left: max }
    }

    /// Whether an item could have a posting that is not read yet.
    fn could_have(&self, key: &HitKey) -> bool {
        self.read_to.as_ref().is_none_or(|to| key < to)
    }

    /// The next postings: each with its item, and how weighty the term is in it.
    async fn read(&mut self, scope: &SearchScope, size: usize) -> Result<Vec<(HitKey, i64)>, Error> {
        self.list = self.list.clone().limit(size.min(self.left));
        let page = scope.list(&self.list).await?;
        self.left = self.left.saturating_sub(page.records.len());
        let postings: Vec<_> = page.records.iter().map(posting).collect();
        self.read_to = postings.last().map(|(key, _)| key.clone()).or(self.read_to.take());
        match page.next.filter(|_| self.left > 0) {
            Some(next) => self.list = self.list.clone().cursor(next),
            None => self.is_read = true,
        }
        Ok(postings)
    }

    /// All postings, and other tasks have their turn after each page. Several terms of an item can begin alike: the weightiest
    /// counts.
    async fn read_all(mut self, scope: &SearchScope, size: usize) -> Result<HashMap<HitKey, i64>, Error> {
        let mut weights = HashMap::new();
        while !self.is_read {
            for (key, weight) in self.read(scope, size).await? {
                let best = weights.entry(key).or_insert(weight);
                *best = weight.max(*best);
            }
            yield_now().await;
        }
        Ok(weights)
    }

    /// The postings of those of these items that are not read yet, by their keys.
    async fn look_up(
        &self,
        scope: &SearchScope,
        collection: &Collection,
        hits: &[HitKey],
    ) -> Result<Vec<(HitKey, i64)>, Error> {
        let Some(pair) = self.pair else { return Ok(Vec::new()) };
        let hits = hits.iter().filter(|key| self.could_have(key));
        let ids: Vec<_> = hits.map(|key| collection.posting_id(pair, &item_id(key))).collect();
        let ids: Vec<Vec<&str>> = ids.iter().map(|id| id.iter().map(String::as_str).collect()).collect();
        let wanted: Vec<_> = ids.iter().map(|id| (collection.postings(), id.as_slice())).collect();
        Ok(scope.get_many(&wanted).await?.iter().flatten().map(posting).collect())
    }
}

fn posting(record: &Record) -> (HitKey, i64) {
    let text = |field: &str| record.text(field).unwrap_or_default().to_owned();
    let weight = record.json("weight").and_then(|weight| weight.as_i64()).unwrap_or_default();
    ((text("createdAt"), text("targetId")), weight)
}
