//! What a search reads, and that it gives the same as if it read all postings of all terms.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use nagaya_tenancy::{Nagaya, Principal};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, memory_store};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::{
    product::{MAX_CHANGES, object_fields},
    search::{
        terms::query_terms,
        tests::{open_kondate_on, user},
    },
};

const USER: &str = "u_01";

/// An item, with the weight of each of its terms.
#[derive(Debug, Clone)]
struct Indexed {
    key: HitKey,
    terms: Vec<(String, i64)>,
}

/// An item of the catalog with a number, published so many seconds after midnight.
fn catalog_item(n: usize, second: usize, terms: impl IntoIterator<Item = (String, i64)>) -> Indexed {
    let at = format!("2029-12-31T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60);
    Indexed { key: (at, format!("r_{n}")), terms: terms.into_iter().collect() }
}

/// Kondate with the postings of these items, and what it calls its store for.
async fn open_with(collection: &Collection, items: &[Indexed]) -> (Nagaya, Arc<InstrumentedStore>) {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let nagaya = open_kondate_on(store.clone(), &clock).await;
    let tenant = user(&nagaya, USER);
    let postings = items
        .iter()
        .flat_map(|item| item.terms.iter().map(|(term, weight)| posting_of(collection, item, term, *weight)));
    for some in postings.collect::<Vec<_>>().chunks(MAX_CHANGES) {
        let set = some.iter().fold(tenant.change_set(), |set, posting| {
            set.create(collection.postings(), object_fields(posting.clone()))
        });
        set.commit().await.expect("postings");
    }
    store.take(|_| true);
    (nagaya, store)
}

fn posting_of(collection: &Collection, item: &Indexed, term: &str, weight: i64) -> Json {
    let (at, id) = &item.key;
    let mut posting = json!({ "kind": collection.kind, "term": term, "targetId": id, "weight": weight });
    if collection.public {
        posting["initial"] = term.chars().next().map(String::from).into();
        posting["createdAt"] = at.as_str().into();
    }
    posting
}

fn scope(nagaya: &Nagaya, collection: &Collection) -> SearchScope {
    match collection.public {
        true => SearchScope::Catalog(nagaya.visitor(Principal::new("", "visitor"))),
        false => SearchScope::Own(user(nagaya, USER)),
    }
}

fn collection(entity: &str) -> &'static Collection {
    Collection::of_entity(entity).expect("a collection")
}

/// The limits of the queries, and the numbers of the items that were read by their keys.
fn reads(store: &InstrumentedStore) -> (Vec<usize>, Vec<usize>) {
    let (mut queries, mut batches) = (Vec::new(), Vec::new());
    for call in store.take(|_| true) {
        match call {
            Call::Query(query) => queries.push(query.limit.expect("a limit")),
            Call::BatchGet(keys) => batches.push(keys.len()),
            other => panic!("{other:?}"),
        }
    }
    (queries, batches)
}

/// The ids that a search of the catalog gives.
async fn ids(nagaya: &Nagaya, question: &str, order: (usize, bool)) -> Vec<String> {
    let collection = collection("catalog_recipe");
    let terms = query_terms(question);
    let best = best_hits(&scope(nagaya, collection), collection, &terms, order, &Pace::default()).await;
    best.expect("hits").into_iter().map(|(_, id)| id).collect()
}

fn letters(count: u32) -> String {
    (0..count).filter_map(|at| char::from_u32(0x4e00 + at)).collect()
}

fn pairs_of(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.windows(2).map(|pair| pair.iter().collect()).collect()
}

#[tokio::test]
async fn a_search_for_a_title_that_many_have_reads_the_newest_postings_only() {
    let title = letters(33);
    let items: Vec<_> =
        (0..900).map(|n| catalog_item(n, n, pairs_of(&title).into_iter().map(|term| (term, 4)))).collect();
    let (nagaya, store) = open_with(collection("catalog_recipe"), &items).await;
    let newest: Vec<_> = (880..900).rev().map(|n| format!("r_{n}")).collect();
    assert_eq!(ids(&nagaya, &title, (20, false)).await, newest);
    assert_eq!(reads(&store), (vec![32; 32], vec![]), "one page of each term, of 900 postings each");
    let newest: Vec<_> = (800..900).rev().map(|n| format!("r_{n}")).collect();
    assert_eq!(ids(&nagaya, &title, (100, false)).await, newest);
    assert_eq!(reads(&store), (vec![100; 32], vec![]));
}

#[tokio::test]
async fn the_postings_of_a_common_term_are_read_by_key_for_few_items() {
    let pair = |term: &str| (term.to_owned(), 4);
    let grilled = |n: usize| match n % 100 {
        7 => catalog_item(n, n, ["生姜", "姜焼", "焼き"].map(pair)),
        _ => catalog_item(n, n, [pair("焼き")]),
    };
    let items: Vec<_> = (0..1_000).map(grilled).collect();
    let (nagaya, store) = open_with(collection("catalog_recipe"), &items).await;
    let found: Vec<_> = (0..10).rev().map(|n| format!("r_{}", 100 * n + 7)).collect();
    assert_eq!(ids(&nagaya, "生姜焼き", (20, false)).await, found);
    assert_eq!(reads(&store), (vec![32; 3], vec![10]));
    // Nothing has two of the three terms.
    assert!(ids(&nagaya, "豚汁焼き", (20, false)).await.is_empty());
    assert_eq!(reads(&store), (vec![32; 3], vec![]));
}

/// A store in this process answers at once, so nothing else would give other tasks their turn.
#[tokio::test]
async fn a_search_gives_other_tasks_their_turn_between_any_two_reads() {
    let terms = ["aa", "ab", "ba", "b", "x"].map(|term| (term.to_owned(), 1));
    let items: Vec<_> = (0..700).map(|n| catalog_item(n, n, terms.iter().skip(n % 3).cloned())).collect();
    let collection = collection("catalog_recipe");
    let (nagaya, store) = open_with(collection, &items).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let other = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, SeqCst);
                yield_now().await;
            }
        }
    });
    let at_reads = Arc::new(Mutex::new(Vec::new()));
    store.inject(Fault::run_before({
        let at_reads = Arc::clone(&at_reads);
        move |_| {
            at_reads.lock().expect("no panic").push(turns.load(SeqCst));
            std::future::ready(())
        }
    }));
    let scope = scope(&nagaya, collection);
    for question in ["aaba", "aab x", "a b"] {
        search(&scope, collection, &query_terms(question), (100, true), &Pace::default()).await.expect("hits");
        yield_now().await;
    }
    other.abort();
    let at_reads = at_reads.lock().expect("no panic");
    assert!(at_reads.len() > 20, "{at_reads:?}");
    assert!(at_reads.windows(2).all(|reads| reads[0] < reads[1]), "{at_reads:?}");
}

#[tokio::test]
async fn of_a_term_the_newest_postings_count_up_to_a_limit() {
    let item = |n: usize| catalog_item(n, n, [("aa".to_owned(), if n == 9 { 4 } else { 1 })]);
    let collection = collection("catalog_recipe");
    let (nagaya, store) = open_with(collection, &(0..30).map(item).collect::<Vec<_>>()).await;
    let pace = Pace { first_page: 4, max_page: 9, max_postings: 20, max_looked_up: 0 };
    let best = best_hits(&scope(&nagaya, collection), collection, &query_terms("aa"), (1, false), &pace).await;
    assert_eq!(best.expect("hits")[0].1, "r_29");
    assert_eq!(reads(&store).0, [4, 8, 8]);
}

#[tokio::test]
async fn a_term_is_read_on_only_if_an_open_item_could_have_it() {
    // Item 10 has `aa` and `bb`. It is the best if it has `cc` too, which is read less far.
    let terms_of = |n: usize| {
        let has = [("aa", n == 10), ("bb", [99, 30, 20, 10, 5].contains(&n)), ("cc", n >= 90 || n == 10)];
        has.into_iter().filter(|(_, has)| *has).map(|(term, _)| (term.to_owned(), 4)).collect::<Vec<_>>()
    };
    let items: Vec<_> = (0..100).map(|n| catalog_item(n, n, terms_of(n))).collect();
    let collection = collection("catalog_recipe");
    let (nagaya, store) = open_with(collection, &items).await;
    for (max_looked_up, expected) in [(1, (vec![4, 4, 4], vec![1])), (0, (vec![4, 4, 4, 8], vec![]))] {
        let pace = Pace { first_page: 4, max_page: 20, max_postings: 100, max_looked_up };
        let terms = query_terms("aa bb cc");
        let best = best_hits(&scope(&nagaya, collection), collection, &terms, (1, false), &pace).await;
        assert_eq!(best.expect("hits")[0].1, "r_10");
        assert_eq!(reads(&store), expected, "{max_looked_up}");
    }
    // Two of three terms are in nothing.
    assert!(ids(&nagaya, "x y z", (20, false)).await.is_empty());
    assert_eq!(reads(&store), (vec![250; 2], vec![]));
}

#[tokio::test]
async fn an_answer_is_at_most_as_large_as_a_page() {
    let collection = collection("recipe");
    let ids: Vec<_> = (10..31).map(|n| format!("r_{n}")).collect();
    let items: Vec<_> =
        ids.iter().map(|id| Indexed { key: (String::new(), id.clone()), terms: vec![("aa".to_owned(), 4)] }).collect();
    let (nagaya, _) = open_with(collection, &items).await;
    let tenant = user(&nagaya, USER);
    let steps = vec!["𠮷".repeat(500); 50];
    for id in &ids {
        let recipe = json!({ "recipeId": id, "title": "aa", "description": "x", "steps": steps });
        tenant.create("recipe", object_fields(recipe)).await.expect("a recipe");
    }
    // The first answers, which are the last recipes, get this size.
    let resize = async |id: &String, size: usize| {
        let recipe = tenant.get("recipe", &[id]).await.expect("a recipe");
        let bytes = size - (recipe.size() - recipe.text("description").map_or(0, str::len));
        let description = "𠮷".repeat(bytes / 4) + &"x".repeat(bytes % 4);
        let patch = object_fields(json!({ "description": description }));
        assert_eq!(tenant.update("recipe", &[id], patch, None).await.expect("a change").size(), size);
    };
    for id in &ids[1..20] {
        resize(id, MAX_PAGE_BYTES / 20).await;
    }
    let last = MAX_PAGE_BYTES - 19 * (MAX_PAGE_BYTES / 20);
    let scope = scope(&nagaya, collection);
    for (size, answers) in [(last - 1, 20), (last, 20), (last + 1, 19)] {
        resize(&ids[20], size).await;
        let found = search(&scope, collection, &query_terms("aa"), (100, false), &Pace::default()).await.expect("hits");
        assert_eq!(found.len(), answers, "{size}");
    }
}

/// The best items by all postings of all terms; of a term, those that are read first up to a limit.
fn best_of_all(
    items: &[Indexed],
    wanted: &[QueryTerm],
    (limit, oldest_first): (usize, bool),
    max_postings: usize,
) -> Vec<HitKey> {
    let mut ranking = Ranking::new(wanted.len(), limit, oldest_first);
    for term in wanted {
        let matches = |text: &str| match term {
            QueryTerm::Pair(pair) => text == pair,
            QueryTerm::Beginning(first) => text.starts_with(*first),
        };
        let mut postings: Vec<_> = items
            .iter()
            .flat_map(|item| item.terms.iter().map(|(text, weight)| (text, &item.key, *weight)))
            .filter(|(text, ..)| matches(text))
            .collect();
        postings.sort_by(|one, other| other.cmp(one));
        let mut weights = HashMap::new();
        for (_, key, weight) in postings.into_iter().take(max_postings) {
            let best = weights.entry(key.clone()).or_insert(weight);
            *best = weight.max(*best);
        }
        weights.into_iter().for_each(|(key, weight)| ranking.add(key, weight));
    }
    ranking.into_best()
}

fn indexed_items() -> impl Strategy<Value = Vec<Indexed>> {
    let term = prop_oneof!["[abc]{2}", "[abc]", Just("aa".to_owned()), Just("ab".to_owned())];
    let terms = prop::collection::btree_map(term, 1..=4_i64, 0..8);
    prop::collection::vec(terms, 0..60).prop_map(|items| {
        // Always two of the same second.
        items.into_iter().enumerate().map(|(n, terms)| catalog_item(n, n / 2, terms)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Proves the full-text search part of K19: however little is read, the answer is the one of all postings.
    #[test]
    fn a_search_gives_what_all_postings_give(
        mut items in indexed_items(),
        is_public in any::<bool>(),
        questions in prop::collection::vec("[abc]{1,6}( [abc]{1,3}){0,3}", 1..6),
        limit in 1..30_usize,
        oldest_first in any::<bool>(),
        (first_page, max_page) in (1..6_usize, 3..12_usize),
        (max_postings, max_looked_up) in prop_oneof![
            (Just(1_000), prop_oneof![Just(0), 1..10_usize, Just(100)]),
            (1..40_usize, Just(0)),
        ],
    ) {
        let collection = collection(if is_public { "catalog_recipe" } else { "recipe" });
        if !is_public {
            items.iter_mut().for_each(|item| item.key.0.clear());
        }
        let pace = Pace { first_page, max_page, max_postings, max_looked_up };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (nagaya, _) = open_with(collection, &items).await;
            let scope = scope(&nagaya, collection);
            for question in &questions {
                let terms = query_terms(question);
                let order = (limit, oldest_first);
                let found = best_hits(&scope, collection, &terms, order, &pace).await.expect("hits");
                prop_assert_eq!(found, best_of_all(&items, &terms, order, max_postings), "{}", question);
            }
            Ok(())
        })?;
    }
}
