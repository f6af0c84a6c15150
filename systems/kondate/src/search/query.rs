//! Asking: which items have the phrases of a question, the best ones first, page by page.
//!
//! Candidates come in the order of the items. Those of a *window*, the newest 2,000 at first, are sorted by how weighty the places are
//! where the terms stand; then come those of the next window. A cursor says where in which window a page has ended. So a page reads a
//! bounded number of postings, and what comes, goes or changes otherwise meanwhile moves no other item to another page.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use nagaya_tenancy::{Error, ErrorKind, List, MAX_PAGE_BYTES, Page, Record, Tenant, Visitor};
use tokio::task::yield_now;

use super::{
    Collection,
    candidates::{Candidate, Candidates, precedes},
    index::{TITLE_WEIGHT, strings},
    terms::{self, MAX_QUERY_TERMS, Phrase},
};

/// Items that are read at once: even large ones take little memory.
const ITEMS_AT_ONCE: usize = 20;
/// Windows that an old cursor may have grown to, by new items, before it is refused.
const MAX_GROWTH: usize = 2;

/// The key of an item in postings, which sorts the newest last: the time of publication (empty for own items) and the id.
pub(super) type HitKey = (String, String);

/// How much is read at once, and at most.
#[derive(Debug)]
pub(super) struct Pace {
    /// Postings of a term that come first, and as many as the answer has items. Often these are enough.
    pub(super) first_page: usize,
    /// Postings that come at once later: few, because the store may give nobody else a turn meanwhile.
    pub(super) max_page: usize,
    /// Postings of a term that are read for a page, at most.
    pub(super) max_postings: usize,
    /// Items that are read for a page, at most, besides those that it has.
    pub(super) max_rejected: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { first_page: 32, max_page: 250, max_postings: 2_000, max_rejected: 200 }
    }
}

/// Whose items are searched.
pub(super) enum SearchScope {
    Own(Tenant),
    Catalog(Visitor),
}

impl SearchScope {
    pub(super) async fn list(&self, list: &List) -> Result<Page, Error> {
        match self {
            SearchScope::Own(tenant) => tenant.list(list).await,
            SearchScope::Catalog(visitor) => visitor.list(list).await,
        }
    }

    pub(super) async fn get_many(&self, wanted: &[(&str, &[&str])]) -> Result<Vec<Option<Record>>, Error> {
        match self {
            SearchScope::Own(tenant) => tenant.get_many(wanted).await,
            SearchScope::Catalog(visitor) => visitor.get_many(wanted).await,
        }
    }

    fn seal(&self, bound: &[&str], position: &[&str]) -> Result<String, Error> {
        match self {
            SearchScope::Own(tenant) => tenant.seal_position(bound, position),
            SearchScope::Catalog(visitor) => visitor.seal_position(bound, position),
        }
    }

    fn open(&self, bound: &[&str], cursor: &str) -> Result<Vec<String>, Error> {
        match self {
            SearchScope::Own(tenant) => tenant.open_position(bound, cursor),
            SearchScope::Catalog(visitor) => visitor.open_position(bound, cursor),
        }
    }
}

/// What is looked for: phrases, and a tag and a category that the items have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Question {
    phrases: Vec<Phrase>,
    tag: Option<String>,
    category: Option<String>,
    /// The phrases of the tag, where the index does not have it as a whole.
    letters_of_tag: Option<Vec<Phrase>>,
    /// Whether nothing can answer it: it has signs alone.
    is_empty: bool,
}

/// By which postings a question is looked up.
pub(super) enum SearchTerms {
    /// Items with all of these terms.
    All(Vec<String>),
    /// Items with any term that begins with a letter.
    Beginning(char),
}

impl Question {
    pub(super) fn new(text: Option<&str>, tag: Option<&str>, category: Option<&str>) -> Self {
        let phrases = text.map(terms::phrases).unwrap_or_default();
        let tag = tag.map(terms::folded_tag);
        let is_empty = (text.is_some() && phrases.is_empty()) || tag.as_ref().is_some_and(String::is_empty);
        Question { phrases, tag, category: category.map(str::to_owned), letters_of_tag: None, is_empty }
    }

    /// What is looked up in an index of the first version, which has pairs alone: letters, and no words, tags and categories.
    pub(super) fn by_letters(self, tag: Option<&str>) -> Self {
        let phrases = self.phrases.iter().map(Phrase::by_letters).collect();
        let tag_letters = tag.map(terms::phrases).unwrap_or_default().iter().map(Phrase::by_letters).collect();
        Question { phrases, letters_of_tag: Some(tag_letters), ..self }
    }

    /// Whether there is anything to look up.
    pub(super) fn has_terms(&self) -> bool {
        self.is_empty || self.terms().is_some()
    }

    /// The terms, and for each of them the phrase that it is of. `None`: nothing can answer.
    fn terms(&self) -> Option<(SearchTerms, Vec<Option<usize>>)> {
        if self.is_empty {
            return None;
        }
        let filters: Vec<String> = match &self.letters_of_tag {
            Some(letters) => letters.iter().flat_map(Phrase::terms).collect(),
            None => {
                let category = self.category.as_deref().map(terms::category_term);
                category.into_iter().chain(self.tag.as_deref().and_then(terms::tag_term)).collect()
            }
        };
        let of_phrases = self
            .phrases
            .iter()
            .enumerate()
            .flat_map(|(at, phrase)| phrase.terms().into_iter().map(move |term| (term, Some(at))));
        let mut terms: Vec<(String, Option<usize>)> = Vec::new();
        for (term, phrase) in filters.into_iter().map(|term| (term, None)).chain(of_phrases) {
            if terms.len() < MAX_QUERY_TERMS && !terms.iter().any(|(known, _)| *known == term) {
                terms.push((term, phrase));
            }
        }
        if !terms.is_empty() {
            let (terms, phrases) = terms.into_iter().unzip();
            return Some((SearchTerms::All(terms), phrases));
        }
        let phrases = self.phrases.iter().chain(self.letters_of_tag.iter().flatten());
        let first = phrases.into_iter().find_map(Phrase::single)?;
        Some((SearchTerms::Beginning(first), vec![Some(0)]))
    }

    /// Whether an item has all that is asked for: postings only say that it may.
    fn is_answered_by(&self, collection: &Collection, record: &Record) -> bool {
        let has_tag = |tag: &String| strings(record, "tags").iter().any(|own| terms::folded_tag(own) == *tag);
        let mut missing: Vec<&Phrase> = self.phrases.iter().collect();
        let mut texts = collection.texts(record);
        while let Some(text) = (!missing.is_empty()).then(|| texts.next()).flatten() {
            missing.retain(|phrase| !text.has(phrase));
        }
        missing.is_empty()
            && self.category.as_deref().is_none_or(|category| record.text("categoryId") == Some(category))
            && self.tag.as_ref().is_none_or(has_tag)
    }
}

/// Where a page has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The last item before the window; `None`: it is the first one.
    start: Option<HitKey>,
    /// The last item of the window; `None`: it has not been read to its end.
    end: Option<HitKey>,
    /// The last item of the page, with its score; `None`: the window begins.
    last: Option<(i64, HitKey)>,
}

/// What the cursor of a search is bound to besides the caller.
pub(super) type Bound<'b> = [&'b str];

impl Position {
    pub(super) fn open(scope: &SearchScope, bound: &Bound<'_>, cursor: &str) -> Result<Self, Error> {
        let texts = scope.open(bound, cursor)?;
        let refused = || Error::from(ErrorKind::BadCursor);
        let [start_at, start, end_at, end, score, last_at, last] = texts.as_slice() else { return Err(refused()) };
        // No id is empty.
        let key = |at: &String, id: &String| (!id.is_empty()).then(|| (at.clone(), id.clone()));
        let score = score.parse().map_err(|_| refused())?;
        Ok(Position {
            start: key(start_at, start),
            end: key(end_at, end),
            last: key(last_at, last).map(|key| (score, key)),
        })
    }

    pub(super) fn seal(&self, scope: &SearchScope, bound: &Bound<'_>) -> Result<String, Error> {
        let texts = |key: Option<&HitKey>| key.cloned().unwrap_or_default();
        let (start, end) = (texts(self.start.as_ref()), texts(self.end.as_ref()));
        let last = texts(self.last.as_ref().map(|(_, key)| key));
        let score = self.last.as_ref().map_or(0, |(score, _)| *score).to_string();
        scope.seal(bound, &[&start.0, &start.1, &end.0, &end.1, &score, &last.0, &last.1])
    }
}

/// A page of answers.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) records: Vec<Record>,
    /// Where the next page begins; `None`: this is the last one.
    pub(super) next: Option<Position>,
}

/// A page of the items that answer, of equally good ones the newest or the oldest first.
///
/// A page may have fewer than `limit` and yet a next one: it reads a bounded number of postings and items. A store in this process
/// answers at once: after each read, other tasks have their turn.
pub(super) async fn search(
    scope: &SearchScope,
    collection: &Collection,
    question: &Question,
    (limit, oldest_first): (usize, bool),
    from: Position,
    pace: &Pace,
) -> Result<Found, Error> {
    let Some((terms, phrase_of)) = question.terms() else { return Ok(Found::default()) };
    let scores = Scores::new(phrase_of);
    let mut page = PageOfAnswers {
        scope,
        collection,
        question,
        limit,
        left: limit + pace.max_rejected,
        bytes: 0,
        ended: None,
        records: Vec::new(),
    };
    let mut candidates = Candidates::new((scope, collection), &terms, (limit, oldest_first), from.start.clone(), pace);
    let is_before = |one: &HitKey, other: &HitKey| precedes(one, other, oldest_first);
    let (mut others, mut has_beyond) = (Vec::new(), false);
    while !candidates.is_done {
        let mut best = Vec::new();
        for candidate in candidates.next().await? {
            if from.end.as_ref().is_some_and(|end| is_before(end, &candidate.key)) {
                has_beyond = true;
                break;
            }
            let score = scores.of(&candidate);
            let is_later = from
                .last
                .as_ref()
                .is_none_or(|(last, key)| score < *last || (score == *last && is_before(key, &candidate.key)));
            match is_later {
                true if score == scores.best => best.push((score, candidate.key)),
                true => others.push((score, candidate.key)),
                false => {}
            }
        }
        // Nothing can be better than the best: they need not wait for the end of the window.
        if page.add(best).await? {
            return Ok(page.found(Position { last: None, ..from }));
        }
        let passed = |key: &HitKey| candidates.at.as_ref().is_some_and(|at| !is_before(at, key));
        let is_over = match (&from.end, &from.last) {
            (Some(end), _) => passed(end),
            (None, Some((_, last))) => candidates.read >= pace.max_postings && passed(last),
            (None, None) => candidates.read >= pace.max_postings,
        };
        if is_over {
            break;
        }
        if candidates.read >= MAX_GROWTH * pace.max_postings {
            return Err(ErrorKind::BadCursor.into());
        }
    }
    let end = from.end.clone().or(candidates.at.clone());
    // They are in the order of their places, which equally good ones keep.
    others.sort_by_key(|(score, _)| Reverse(*score));
    if page.add(others).await? {
        return Ok(page.found(Position { start: from.start, end, last: None }));
    }
    let has_next_window = has_beyond || !candidates.is_done;
    let next = end.filter(|_| has_next_window).map(|end| Position { start: Some(end), ..Position::default() });
    Ok(Found { records: page.records, next })
}

/// How good candidates are.
struct Scores {
    /// For each term the phrase that it is of; `None`: it says nothing of the place.
    phrase_of: Vec<Option<usize>>,
    best: i64,
}

impl Scores {
    fn new(phrase_of: Vec<Option<usize>>) -> Self {
        let phrases: std::collections::BTreeSet<_> = phrase_of.iter().flatten().collect();
        let best = TITLE_WEIGHT * phrases.len() as i64;
        Scores { phrase_of, best }
    }

    /// The sum over the phrases of how weighty the least of their terms is.
    fn of(&self, candidate: &Candidate) -> i64 {
        let mut least = std::collections::BTreeMap::new();
        for (phrase, weight) in self.phrase_of.iter().zip(&candidate.weights) {
            let Some(phrase) = phrase else { continue };
            let known = least.entry(phrase).or_insert(*weight);
            *known = (*known).min(*weight);
        }
        least.into_values().sum()
    }
}

/// A page that is being filled.
struct PageOfAnswers<'s> {
    scope: &'s SearchScope,
    collection: &'s Collection,
    question: &'s Question,
    limit: usize,
    /// Items that may still be read.
    left: usize,
    bytes: usize,
    records: Vec<Record>,
    /// The last item that was read for the page, when there is no room for a further one.
    ended: Option<(i64, HitKey)>,
}

impl PageOfAnswers<'_> {
    /// Adds the candidates that answer, in this order; `true` if the page has ended before all of them.
    ///
    /// A full page has ended when a further answer is found: then there is a next one.
    async fn add(&mut self, candidates: Vec<(i64, HitKey)>) -> Result<bool, Error> {
        let mut rest = candidates.as_slice();
        while !rest.is_empty() {
            if self.left == 0 {
                return Ok(true);
            }
            let at_once = (self.limit + 1 - self.records.len()).min(ITEMS_AT_ONCE).min(self.left);
            let (some, others) = rest.split_at(at_once.min(rest.len()));
            rest = others;
            let ids: Vec<_> = some.iter().map(|(_, key)| item_id(key)).collect();
            let wanted: Vec<_> = ids.iter().map(|id| (self.collection.entity, id.as_slice())).collect();
            let records = self.scope.get_many(&wanted).await?;
            self.left -= some.len();
            for (candidate, record) in some.iter().zip(records) {
                // Those that are gone are left out: their postings follow.
                let answers = |record: &Record| self.question.is_answered_by(self.collection, record);
                if let Some(record) = record.filter(answers) {
                    self.bytes += record.size();
                    // A page is at most as large as one of a list, which holds any single item.
                    let is_full = self.records.len() == self.limit || self.bytes > MAX_PAGE_BYTES;
                    if is_full && !self.records.is_empty() {
                        return Ok(true);
                    }
                    self.records.push(record);
                }
                self.ended = Some(candidate.clone());
            }
            yield_now().await;
        }
        Ok(false)
    }

    fn found(self, position: Position) -> Found {
        Found { records: self.records, next: Some(Position { last: self.ended, ..position }) }
    }
}

/// The id of an item in its collection.
pub(super) fn item_id((at, id): &HitKey) -> Vec<&str> {
    if at.is_empty() { vec![id] } else { vec![at, id] }
}
