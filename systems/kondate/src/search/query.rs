//! Asking: which items have the terms of a question, the best ones first.

use std::collections::HashMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nagaya_tenancy::{Error, List, MAX_PAGE_BYTES, Page, Record, Tenant, Visitor};

use super::{Collection, terms::QueryTerm};

/// Postings of a term that are looked at, at most: those of the newest items.
const MAX_POSTINGS: usize = 2_000;
/// Postings that come at once.
const PAGE_SIZE: usize = 1_000;
/// Items that are read at once: even large ones take little memory.
const ITEMS_AT_ONCE: usize = 20;
/// Terms that are looked up at the same time.
const CONCURRENT_LOOKUPS: usize = 8;

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

/// The key of a hit, which sorts the newest last: the time of publication (empty for own items) and the id.
type HitKey = (String, String);

/// How well an item answers: how many terms it has, and how weighty they are.
type Score = (usize, i64);

/// The items that answer best, at most `limit` of them, of equally good ones the newest or the oldest first. One that has
/// fewer than half of the terms is no answer.
pub(super) async fn search(
    shelf: &SearchScope,
    collection: &Collection,
    wanted: &[QueryTerm],
    (limit, oldest_first): (usize, bool),
) -> Result<Vec<Record>, Error> {
    let lookups: Vec<_> = wanted.iter().map(|term| find_weights(shelf, collection, term)).collect();
    let found: Vec<_> = stream::iter(lookups).buffered(CONCURRENT_LOOKUPS).try_collect().await?;
    let best = rank_hits(&found, limit, oldest_first);
    let ids: Vec<Vec<&str>> =
        best.iter().map(|(at, id)| if at.is_empty() { vec![id.as_str()] } else { vec![at.as_str(), id] }).collect();
    let wanted: Vec<_> = ids.iter().map(|id| (collection.entity, id.as_slice())).collect();
    let (mut found, mut bytes) = (Vec::new(), 0);
    for some in wanted.chunks(ITEMS_AT_ONCE) {
        // Those that are gone are left out: their postings follow.
        for record in shelf.get_many(some).await?.into_iter().flatten() {
            bytes += record.size();
            // An answer is no larger than the page of a list.
            if bytes > MAX_PAGE_BYTES && !found.is_empty() {
                return Ok(found);
            }
            found.push(record);
        }
    }
    Ok(found)
}

/// The items that have a term, and how weighty it is in each.
async fn find_weights(
    shelf: &SearchScope,
    collection: &Collection,
    wanted: &QueryTerm,
) -> Result<HashMap<HitKey, i64>, Error> {
    let list = list(collection, wanted).limit(PAGE_SIZE);
    let mut weights = HashMap::new();
    let mut page = shelf.list(&list).await?;
    for looked_at in (PAGE_SIZE..=MAX_POSTINGS).step_by(PAGE_SIZE) {
        for record in &page.records {
            let text = |field: &str| record.text(field).unwrap_or_default().to_owned();
            let weight = record.json("weight").and_then(|weight| weight.as_i64()).unwrap_or_default();
            // Several terms can begin alike: the weightiest counts.
            let best = weights.entry((text("createdAt"), text("targetId"))).or_insert(weight);
            *best = weight.max(*best);
        }
        match page.next.take().filter(|_| looked_at < MAX_POSTINGS) {
            Some(next) => page = shelf.list(&list.clone().cursor(next)).await?,
            None => break,
        }
    }
    Ok(weights)
}

fn list(collection: &Collection, wanted: &QueryTerm) -> List {
    let postings = collection.access_patterns();
    let initial = |list: List, first: Option<char>| match first.filter(|_| collection.public) {
        Some(first) => list.with("initial", first),
        None => list,
    };
    match wanted {
        QueryTerm::Pair(pair) => initial(List::by(postings.0).with("term", pair), pair.chars().next()),
        // The terms of the catalog are partitioned by their first character.
        QueryTerm::Beginning(first) if collection.public => initial(List::by(postings.1), Some(*first)),
        QueryTerm::Beginning(first) => List::by(postings.1).with("term", *first),
    }
    .with("kind", collection.kind)
}

/// The items of all terms, the best first: those with most terms, then the weightiest, then the newest.
fn rank_hits(found: &[HashMap<HitKey, i64>], limit: usize, oldest_first: bool) -> Vec<&HitKey> {
    let mut scores: HashMap<&HitKey, Score> = HashMap::new();
    for (target, weight) in found.iter().flatten() {
        let score = scores.entry(target).or_default();
        *score = (score.0 + 1, score.1 + weight);
    }
    let mut ranked: Vec<_> = scores.into_iter().filter(|(_, (terms, _))| 2 * terms >= found.len()).collect();
    ranked.sort_unstable_by(|(a, score), (b, other)| {
        let newer = if oldest_first { a.cmp(b) } else { b.cmp(a) };
        other.cmp(score).then(newer)
    });
    ranked.into_iter().take(limit).map(|(target, _)| target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each term is found in, and the order that comes of it.
    fn check(found: &[&[(&str, i64)]], limit: usize, expected: &[&str]) {
        let target = |id: &str| (String::new(), id.to_owned());
        let found: Vec<HashMap<_, _>> =
            found.iter().map(|items| items.iter().map(|(id, weight)| (target(id), *weight)).collect()).collect();
        let ranked: Vec<_> = rank_hits(&found, limit, false).into_iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(ranked, expected);
    }

    #[test]
    fn hits_are_sorted_by_terms_then_weight_then_age() {
        check(&[&[("a", 1), ("b", 4)], &[("a", 1)]], 9, &["a", "b"]);
        check(&[&[("a", 1), ("b", 4)], &[("a", 2), ("b", 1)]], 9, &["b", "a"]);
        check(&[&[("a", 4), ("c", 4), ("b", 4)]], 9, &["c", "b", "a"]);
        check(&[&[("a", 4), ("c", 4), ("b", 4)]], 2, &["c", "b"]);
        let target = |id: &str| (String::new(), id.to_owned());
        let found = [HashMap::from([(target("a"), 1), (target("b"), 4), (target("c"), 4)])];
        let oldest_first: Vec<_> = rank_hits(&found, 9, true).into_iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(oldest_first, ["b", "c", "a"]);
    }

    #[test]
    fn items_with_fewer_than_half_of_the_terms_are_not_found() {
        check(&[&[("a", 4)], &[("b", 4)], &[("b", 1)]], 9, &["b"]);
        check(&[&[("a", 4)], &[("b", 4)]], 9, &["b", "a"]);
        check(&[&[], &[], &[]], 9, &[]);
    }
}
