//! What a search reads, and that it gives the items that answer, each once, whatever changes between its pages.

use std::{
    collections::BTreeMap,
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
    search::tests::{open_kondate_on, user},
};

const USER: &str = "u_01";

/// An item, with what it is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    number: usize,
    title: String,
    description: String,
    tags: Vec<String>,
    category: Option<&'static str>,
}

fn item(number: usize, title: &str, description: &str) -> Item {
    Item { number, title: title.into(), description: description.into(), tags: Vec::new(), category: None }
}

fn titled(number: usize, title: &str) -> Item {
    item(number, title, "")
}

impl Item {
    /// Two items of the catalog are published in the same second.
    fn key(&self, collection: &Collection) -> HitKey {
        let second = self.number / 2;
        let at = format!("2029-12-31T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60);
        (if collection.public { at } else { String::new() }, format!("r_{:05}", self.number))
    }

    fn fields(&self, collection: &Collection) -> Json {
        let (at, id) = self.key(collection);
        let mut fields = json!({ "recipeId": id, "title": self.title, "tags": self.tags });
        if !self.description.is_empty() {
            fields["description"] = self.description.as_str().into();
        }
        if collection.public {
            fields["createdAt"] = at.into();
            fields["creatorName"] = "Hana".into();
        } else if let Some(category) = self.category {
            fields["categoryId"] = category.into();
        }
        fields
    }
}

/// A user's book, or a catalog, and what its store is called for.
struct Shelf {
    nagaya: Nagaya,
    tenant: Tenant,
    store: Arc<InstrumentedStore>,
    collection: &'static Collection,
}

impl Shelf {
    async fn open(entity: &str, items: &[Item]) -> Self {
        let clock = ManualClock::default();
        let store = InstrumentedStore::new(memory_store(&clock));
        let nagaya = open_kondate_on(store.clone(), &clock).await;
        let collection = Collection::of_entity(entity).expect("a collection");
        let shelf = Shelf { tenant: user(&nagaya, USER), nagaya, store, collection };
        shelf.add(items).await;
        shelf.store.take(|_| true);
        shelf
    }

    /// Adds items and their postings.
    async fn add(&self, items: &[Item]) {
        let collection = self.collection;
        let mut created: Vec<(&str, Json)> = Vec::new();
        for item in items {
            let fields = item.fields(collection);
            self.tenant.create(collection.entity, object_fields(fields)).await.expect("an item");
            let key = item.key(collection);
            let record = self.tenant.get(collection.entity, &item_id(&key)).await.expect("an item");
            for (term, weight) in collection.terms(&record) {
                let mut posting = json!({ "kind": collection.kind, "term": term, "targetId": key.1, "weight": weight });
                if collection.public {
                    posting["initial"] = terms::initial(&term).map(String::from).into();
                    posting["createdAt"] = key.0.as_str().into();
                }
                created.push((collection.postings(), posting));
            }
        }
        for some in created.chunks(MAX_CHANGES) {
            let set = some.iter().fold(self.tenant.change_set(), |set, (entity, fields)| {
                set.create(entity, object_fields(fields.clone()))
            });
            set.commit().await.expect("postings");
        }
    }

    /// Deletes an item. Its postings follow later, or never.
    async fn delete(&self, item: &Item) {
        let key = item.key(self.collection);
        self.tenant.delete(self.collection.entity, &item_id(&key), None).await.expect("gone");
    }

    fn scope(&self) -> SearchScope {
        match self.collection.public {
            true => SearchScope::Catalog(self.nagaya.visitor(Principal::new("", "visitor"))),
            false => SearchScope::Own(self.tenant.clone()),
        }
    }

    async fn page(&self, question: &Question, order: (usize, bool), from: Position, pace: &Pace) -> Found {
        search(&self.scope(), self.collection, question, order, from, pace).await.expect("a page")
    }

    /// The numbers of the items that the first page has.
    async fn first(&self, question: &str, limit: usize) -> Vec<usize> {
        numbers(&self.page(&asked(question), (limit, false), Position::default(), &Pace::default()).await)
    }

    /// The limits of the queries, and the numbers of the items and postings that were read by their keys.
    fn reads(&self) -> (Vec<usize>, Vec<usize>) {
        let (mut queries, mut batches) = (Vec::new(), Vec::new());
        for call in self.store.take(|_| true) {
            match call {
                Call::Query(query) => queries.push(query.limit.expect("a limit")),
                Call::BatchGet(keys) => batches.push(keys.len()),
                other => panic!("{other:?}"),
            }
        }
        (queries, batches)
    }
}

fn asked(question: &str) -> Question {
    Question::new(Some(question), None, None)
}

fn numbers(page: &Found) -> Vec<usize> {
    page.records.iter().map(|record| record.text("recipeId").expect("an id")[2..].parse().expect("a number")).collect()
}

/// Letters that are no words.
fn letters(count: u32) -> String {
    (0..count).filter_map(|at| char::from_u32(0xac00 + at)).collect()
}

#[tokio::test]
async fn a_search_for_a_title_that_many_have_reads_the_newest_postings_only() {
    let title = letters(33);
    let items: Vec<_> = (0..250).map(|n| titled(n, &title)).collect();
    let shelf = Shelf::open("catalog_recipe", &items).await;
    assert_eq!(shelf.first(&title, 20).await, (230..250).rev().collect::<Vec<_>>());
    assert_eq!(shelf.reads(), (vec![32; 8], vec![20, 1]), "one page of eight terms, of 250 postings each");
    assert_eq!(shelf.first(&title, 100).await, (150..250).rev().collect::<Vec<_>>());
    assert_eq!(shelf.reads(), (vec![101; 8], vec![20, 20, 20, 20, 20, 1]));
}

#[tokio::test]
async fn the_postings_of_a_common_term_are_read_by_key_for_few_items() {
    let dish = |n: usize| titled(n, if n % 100 == 7 { "生姜焼き" } else { "焼き" });
    let shelf = Shelf::open("catalog_recipe", &(0..1_000).map(dish).collect::<Vec<_>>()).await;
    let found: Vec<_> = (0..10).rev().map(|n| 100 * n + 7).collect();
    assert_eq!(shelf.first("生姜焼き", 20).await, found);
    assert_eq!(shelf.reads(), (vec![32; 2], vec![10, 10]));
    // Nothing has both words.
    assert!(shelf.first("豚汁焼き", 20).await.is_empty());
    assert_eq!(shelf.reads(), (vec![32; 2], vec![]));
}

#[tokio::test]
async fn a_common_term_is_not_listed_again_beside_a_rare_one() {
    let dish = |n: usize| item(n, "x", if n.is_multiple_of(7) { "はやし" } else { "はや" });
    let shelf = Shelf::open("recipe", &(0..700).map(dish).collect::<Vec<_>>()).await;
    assert_eq!(shelf.first("はやし", 20).await, (80..100).rev().map(|n| 7 * n).collect::<Vec<_>>());
    // やし has 100 postings; はや is listed with its first page alone.
    assert_eq!(shelf.reads(), (vec![32, 32, 64, 128], vec![28, 64, 4, 20, 1]));
}

/// A store in this process answers at once, so nothing else would give other tasks their turn.
#[tokio::test]
async fn a_search_gives_other_tasks_their_turn_between_any_two_reads() {
    let items: Vec<_> =
        (0..500).map(|n| item(n, ["aab", "ba x", "aaba b"][n % 3], ["", "xab", "aabax"][n % 4 % 3])).collect();
    let shelf = Shelf::open("catalog_recipe", &items).await;
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
    shelf.store.inject(Fault::run_before({
        let at_reads = Arc::clone(&at_reads);
        move |_| {
            at_reads.lock().expect("no panic").push(turns.load(SeqCst));
            std::future::ready(())
        }
    }));
    for question in ["aaba", "aab x", "a b"] {
        shelf.page(&asked(question), (100, true), Position::default(), &Pace::default()).await;
        yield_now().await;
    }
    other.abort();
    let at_reads = at_reads.lock().expect("no panic");
    assert!(at_reads.len() > 20, "{at_reads:?}");
    assert!(at_reads.windows(2).all(|reads| reads[0] < reads[1]), "{at_reads:?}");
}

#[tokio::test]
async fn a_page_reads_a_bounded_number_of_postings_and_the_next_one_goes_on() {
    let items: Vec<_> = (0..50).map(|n| item(n, if n == 5 { "かれ" } else { "x" }, "かれ")).collect();
    let shelf = Shelf::open("catalog_recipe", &items).await;
    let pace = Pace { first_page: 4, max_page: 8, max_postings: 20, max_rejected: 10 };
    let (mut from, mut pages) = (Some(Position::default()), Vec::new());
    while let Some(position) = from {
        let page = shelf.page(&asked("かれ"), (100, false), position, &pace).await;
        let (queries, batches) = shelf.reads();
        assert!(queries.len() <= 3 && batches.iter().sum::<usize>() <= 24, "{queries:?} {batches:?}");
        pages.push(numbers(&page));
        from = page.next;
    }
    // In each window what has it in its title comes first.
    assert_eq!(pages[0], (26..50).rev().collect::<Vec<_>>());
    assert_eq!(pages[1], (2..26).rev().filter(|n| *n != 5).fold(vec![5], |all, n| [all, vec![n]].concat()));
    assert_eq!(pages[2], [1, 0]);
    assert_eq!(pages.len(), 3);
}

/// All pages, from one on.
async fn walk(shelf: &Shelf, limit: usize, from: Position, pace: &Pace) -> Vec<Vec<usize>> {
    let (mut from, mut pages) = (Some(from), Vec::new());
    while let Some(position) = from {
        let page = shelf.page(&asked("かれ"), (limit, false), position, pace).await;
        pages.push(numbers(&page));
        from = page.next;
    }
    pages
}

#[tokio::test]
async fn a_window_of_as_many_postings_as_are_allowed_is_over() {
    let items: Vec<_> = (0..30).map(|n| item(n, if n < 25 { "x" } else { "かれ" }, "かれ")).collect();
    let shelf = Shelf::open("catalog_recipe", &items).await;
    let pace = Pace { first_page: 5, max_page: 5, max_postings: 10, max_rejected: 10 };
    let pages = walk(&shelf, 3, Position::default(), &pace).await;
    assert_eq!(pages[..5], [vec![29, 28, 27], vec![26, 25, 24], vec![23, 22, 21], vec![20], vec![19, 18, 17]]);
    let pages = walk(&shelf, 100, Position::default(), &pace).await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 10, 0]);
}

#[tokio::test]
async fn a_window_ends_where_it_ended_before_whatever_has_come_since() {
    let text = |n: usize| item(n, "x", "かれ");
    let shelf = Shelf::open("catalog_recipe", &(0..30).map(text).collect::<Vec<_>>()).await;
    let pace = Pace { first_page: 8, max_page: 8, max_postings: 20, max_rejected: 10 };
    let first = shelf.page(&asked("かれ"), (5, false), Position::default(), &pace).await;
    assert_eq!(numbers(&first), [29, 28, 27, 26, 25]);
    shelf.add(&(30..34).map(text).collect::<Vec<_>>()).await;
    let rest = walk(&shelf, 5, first.next.expect("a next page"), &pace).await;
    assert_eq!(rest.concat(), (0..25).rev().collect::<Vec<_>>());
}

/// Letters can stand in an item and yet not together: then it is read in vain.
#[tokio::test]
async fn a_page_reads_a_bounded_number_of_items_and_the_next_one_goes_on() {
    let items: Vec<_> = (0..60).map(|n| titled(n, if n == 3 { "はやしら" } else { "しらはや" })).collect();
    let shelf = Shelf::open("recipe", &items).await;
    let pace = Pace { max_rejected: 20, ..Pace::default() };
    let (mut from, mut pages) = (Some(Position::default()), Vec::new());
    while let Some(position) = from {
        let page = shelf.page(&asked("はやしら"), (5, false), position, &pace).await;
        assert!(shelf.reads().1.iter().sum::<usize>() <= 25);
        pages.push(numbers(&page));
        from = page.next;
    }
    assert_eq!(pages, [vec![], vec![], vec![3]]);
}

#[tokio::test]
async fn a_cursor_that_much_has_come_since_is_refused() {
    let dish = |n: usize| titled(n, "かれ");
    let shelf = Shelf::open("catalog_recipe", &(0..30).map(dish).collect::<Vec<_>>()).await;
    let pace = Pace { first_page: 8, max_page: 8, max_postings: 20, max_rejected: 10 };
    let first = shelf.page(&asked("かれ"), (5, false), Position::default(), &pace).await;
    assert_eq!(numbers(&first), [29, 28, 27, 26, 25]);
    shelf.add(&(30..50).map(dish).collect::<Vec<_>>()).await;
    let next = || first.next.clone().expect("a next page");
    assert_eq!(numbers(&shelf.page(&asked("かれ"), (5, false), next(), &pace).await), [24, 23, 22, 21, 20]);
    shelf.add(&(50..90).map(dish).collect::<Vec<_>>()).await;
    let refused = search(&shelf.scope(), shelf.collection, &asked("かれ"), (5, false), next(), &pace).await;
    assert_eq!(refused.expect_err("it reads too much").code(), "bad_cursor");
}

#[tokio::test]
async fn a_window_may_grow_to_twice_its_postings() {
    let dish = |n: usize| item(n, if (25..30).contains(&n) { "かれ" } else { "x" }, "かれ");
    let shelf = Shelf::open("catalog_recipe", &(0..30).map(dish).collect::<Vec<_>>()).await;
    let pace = Pace { first_page: 5, max_page: 5, max_postings: 10, max_rejected: 10 };
    let first = shelf.page(&asked("かれ"), (3, false), Position::default(), &pace).await;
    assert_eq!(numbers(&first), [29, 28, 27]);
    let next = || first.next.clone().expect("a next page");
    // The last item of the page is the last of twice the postings, and then beyond them.
    shelf.add(&(30..47).map(dish).collect::<Vec<_>>()).await;
    let second = shelf.page(&asked("かれ"), (3, false), next(), &pace).await;
    assert_eq!(numbers(&second), [46, 45, 44]);
    shelf.add(&[dish(47)]).await;
    let refused = search(&shelf.scope(), shelf.collection, &asked("かれ"), (3, false), next(), &pace).await;
    assert_eq!(refused.expect_err("it reads too much").code(), "bad_cursor");
}

#[tokio::test]
async fn nothing_answers_signs_whatever_else_is_asked() {
    let tagged = Item { tags: vec!["和食".to_owned()], ..titled(1, "かれ") };
    let shelf = Shelf::open("catalog_recipe", &[tagged]).await;
    for (text, tag) in [(Some("!?"), Some("和食")), (Some("!?"), None), (Some("かれ"), Some("!?"))] {
        let question = Question::new(text, tag, None);
        assert!(question.has_terms(), "{text:?} {tag:?}");
        let found = shelf.page(&question, (9, false), Position::default(), &Pace::default()).await;
        assert_eq!(numbers(&found), [0; 0], "{text:?} {tag:?}");
    }
}

#[tokio::test]
async fn a_page_is_at_most_as_large_as_one_of_a_list() {
    let shelf = Shelf::open("recipe", &[]).await;
    let ids: Vec<_> = (10..31).map(|n| format!("r_{n}")).collect();
    let steps = vec!["𠮷".repeat(500); 50];
    for id in &ids {
        let recipe = json!({ "recipeId": id, "title": "aa", "description": "x", "steps": steps });
        shelf.tenant.create("recipe", object_fields(recipe)).await.expect("a recipe");
        let posting = json!({ "kind": "RECIPE", "term": "aa", "targetId": id, "weight": 4 });
        shelf.tenant.create("search_term", object_fields(posting)).await.expect("a posting");
    }
    // The first answers, which are the last recipes, get this size.
    let resize = async |id: &String, size: usize| {
        let recipe = shelf.tenant.get("recipe", &[id]).await.expect("a recipe");
        let bytes = size - (recipe.size() - recipe.text("description").map_or(0, str::len));
        let description = "𠮷".repeat(bytes / 4) + &"x".repeat(bytes % 4);
        let patch = object_fields(json!({ "description": description }));
        assert_eq!(shelf.tenant.update("recipe", &[id], patch, None).await.expect("a change").size(), size);
    };
    for id in &ids[1..20] {
        resize(id, MAX_PAGE_BYTES / 20).await;
    }
    let last = MAX_PAGE_BYTES - 19 * (MAX_PAGE_BYTES / 20);
    for (size, answers) in [(last - 1, 20), (last, 20), (last + 1, 19)] {
        resize(&ids[20], size).await;
        let page = shelf.page(&asked("aa"), (100, false), Position::default(), &Pace::default()).await;
        assert_eq!(page.records.len(), answers, "{size}");
        let rest = page.next.expect("a next page");
        let rest = shelf.page(&asked("aa"), (100, false), rest, &Pace::default()).await;
        assert_eq!(rest.records.len(), ids.len() - answers, "{size}");
    }
}

/// How well an item answers, by all of its text; `None`: it does not.
fn score(item: &Item, question: &Question, collection: &Collection) -> Option<i64> {
    if question.is_empty {
        return None;
    }
    let places = [(4, item.title.clone()), (1, item.description.clone())];
    let tags = item.tags.iter().map(|tag| (2, tag.clone()));
    let texts: Vec<_> = places.into_iter().chain(tags).collect();
    let has = |phrase: &Phrase| texts.iter().any(|(_, text)| terms::Text::new(text).has(phrase));
    let is_in_category = question.category.as_deref().is_none_or(|asked| item.category == Some(asked));
    let has_tag =
        question.tag.as_ref().is_none_or(|asked| item.tags.iter().any(|tag| terms::folded_tag(tag) == *asked));
    if !question.phrases.iter().all(has) || !has_tag || !(collection.public || is_in_category) {
        return None;
    }
    // The weights of the terms, which say where the phrase may stand.
    let indexed = terms::index_terms([], {
        let mut texts: Vec<_> = texts.iter().map(|(weight, text)| (*weight, text.as_str())).collect();
        texts.sort_by_key(|(weight, _)| -weight);
        texts
    });
    let (search_terms, phrase_of) = question.terms()?;
    let weights = match search_terms {
        SearchTerms::All(terms) => terms.iter().map(|term| indexed.get(term).copied().unwrap_or(1)).collect(),
        SearchTerms::Beginning(first) => {
            let best = indexed.iter().filter(|(term, _)| term.starts_with(first)).map(|(_, weight)| *weight).max();
            vec![best.unwrap_or_default()]
        }
    };
    Some(Scores::new(phrase_of).of(&Candidate { key: item.key(collection), weights }))
}

fn some_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "あ",
        "ああ",
        "あい",
        "い",
        "卵",
        "玉子",
        "たまご",
        "焼き",
        "やき",
        "ねぎ",
        "玉ねぎ",
        " ",
        "b",
    ]);
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

fn some_items(from: usize) -> impl Strategy<Value = Vec<Item>> {
    let tags = prop::collection::vec(prop::sample::select(vec!["和食", "卵料理", "玉子料理"]), 0..2);
    let category = prop::option::of(prop::sample::select(vec!["c_01", "c 02"]));
    let item = (some_text(), some_text(), tags, category);
    prop::collection::vec(item, 0..25).prop_map(move |items| {
        let numbered = items.into_iter().enumerate().map(|(at, (title, description, tags, category))| Item {
            // A title has at least a letter.
            title: format!("{title}x"),
            description,
            tags: tags.into_iter().map(str::to_owned).collect(),
            category,
            number: from + 2 * at,
        });
        numbered.collect()
    })
}

fn some_question() -> impl Strategy<Value = (Option<String>, Option<&'static str>, Option<&'static str>)> {
    let tag = prop::option::weighted(0.3, prop::sample::select(vec!["和食", "たまご料理", "卵"]));
    let category = prop::option::weighted(0.2, prop::sample::select(vec!["c_01", "c 02", "c"]));
    (prop::option::weighted(0.9, some_text()), tag, category)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Proves the full-text search part of K19: however little is read at once, and whatever comes and goes between two pages, each
    /// item that answers throughout is on one page, the best of a window first.
    #[test]
    fn pages_have_each_item_that_answers_once(
        items in some_items(0),
        newcomers in some_items(41),
        is_public in any::<bool>(),
        question in some_question(),
        limit in 1..12_usize,
        oldest_first in any::<bool>(),
        (first_page, max_page) in (1..6_usize, 3..12_usize),
        max_postings in prop_oneof![Just(1_000), 5..40_usize],
        max_rejected in 0..10_usize,
        is_changed in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let shelf = Shelf::open(if is_public { "catalog_recipe" } else { "recipe" }, &items).await;
            let (text, tag, category) = &question;
            let question = Question::new(text.as_deref(), *tag, category.filter(|_| !is_public));
            prop_assume!(text.is_some() || question.tag.is_some() || question.category.is_some());
            // One letter is looked up among a number of postings, and so in one window.
            let is_single = matches!(question.terms(), Some((SearchTerms::Beginning(_), _)));
            let max_postings = if is_single { 1_000 } else { max_postings };
            let pace = Pace { first_page, max_page, max_postings, max_rejected };
            let (mut from, mut found, mut pages) = (Some(Position::default()), Vec::new(), 0);
            let (mut new, mut gone) = (newcomers.chunks(7), items.chunks(5).map(|some| &some[0]));
            let mut deleted = Vec::new();
            while let Some(position) = from {
                let page = match search(&shelf.scope(), shelf.collection, &question, (limit, oldest_first), position, &pace).await {
                    Ok(page) => page,
                    Err(error) => {
                        prop_assert!(is_changed && max_postings < 1_000, "{error}");
                        return Ok(());
                    }
                };
                prop_assert!(page.records.len() <= limit);
                found.extend(numbers(&page));
                pages += 1;
                prop_assert!(pages < 400, "no end");
                if let Some(position) = &page.next {
                    // What a cursor says is all that the next page knows.
                    let cursor = position.seal(&shelf.scope(), &["search"]).expect("a cursor");
                    prop_assert_eq!(&Position::open(&shelf.scope(), &["search"], &cursor).expect("a position"), position);
                }
                from = page.next;
                if is_changed {
                    shelf.add(new.next().unwrap_or_default()).await;
                    if let Some(item) = gone.next() {
                        shelf.delete(item).await;
                        deleted.push(item.number);
                    }
                }
            }
            let scored = |items: &[Item]| -> BTreeMap<usize, i64> {
                items.iter().filter_map(|item| Some((item.number, score(item, &question, shelf.collection)?))).collect()
            };
            let answers = scored(&items);
            let is_lasting = |number: &usize| number.is_multiple_of(2) && !deleted.contains(number);
            let mut lasting: Vec<_> = found.iter().copied().filter(is_lasting).collect();
            if !is_changed && max_postings == 1_000 {
                let mut best: Vec<_> = answers.iter().map(|(number, score)| (-score, *number)).collect();
                best.sort_by_key(|(score, number)| (*score, if oldest_first { *number as i64 } else { -(*number as i64) }));
                prop_assert_eq!(&lasting, &best.into_iter().map(|(_, number)| number).collect::<Vec<_>>());
            }
            lasting.sort();
            prop_assert_eq!(lasting, answers.keys().copied().filter(is_lasting).collect::<Vec<_>>());
            let all: std::collections::BTreeSet<_> = found.iter().collect();
            prop_assert_eq!(all.len(), found.len(), "nothing is there twice");
            let known = scored(&[items.clone(), newcomers.clone()].concat());
            prop_assert!(found.iter().all(|number| known.contains_key(number)), "only what answers");
            Ok(())
        })?;
    }
}
