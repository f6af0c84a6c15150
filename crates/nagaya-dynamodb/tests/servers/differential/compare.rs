//! Answers, in a form in which those of two stores can be compared.

use std::{collections::BTreeMap, fmt};

use nagaya_store::{Cause, Error, Failed, From, Item, Key, KeySchema, Page, Position, Query, Scan, Store, Written};

use super::generate::{INDEXES, Operation, TABLE, spec};

/// What an operation gave.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Written(Option<Item>),
    Items(Vec<Option<Item>>),
    Page(Vec<Item>),
    Failed(&'static str, Vec<Failed>, Message),
}

/// What an error says, which is each engine's own.
pub(crate) struct Message(String);

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq for Message {
    fn eq(&self, _: &Message) -> bool {
        true
    }
}

impl Answer {
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Answer::Written(_) => "written",
            Answer::Items(_) => "found by key",
            Answer::Page(_) => "pages",
            Answer::Failed(code, ..) => code,
        }
    }
}

/// A query that stands where a page ended.
pub(crate) type Kept = Query;

/// Does an operation; also gives where a query stands now.
pub(crate) async fn answer(store: &dyn Store, operation: &Operation, kept: Option<&Kept>) -> (Answer, Option<Kept>) {
    let answer = match operation {
        Operation::Write(set) => {
            // The item after it is part of the answer to a set of one action only.
            let lone = set.actions().len() == 1;
            store.write(set.clone()).await.map(|Written { item }| Answer::Written(item.filter(|_| lone)))
        }
        Operation::Get(key) => store.get(TABLE, key).await.map(|item| Answer::Items(vec![item])),
        Operation::BatchGet(keys) => {
            let keys: Vec<_> = keys.iter().map(|key| (TABLE.to_owned(), key.clone())).collect();
            store.batch_get(&keys).await.map(Answer::Items)
        }
        Operation::Query(query) => all_pages(store, query).await.map(|items| in_order(query, items)),
        Operation::Scan(scan) => all_of_scan(store, scan).await.map(Answer::Page),
        Operation::Open(query) => return page(store, query).await,
        Operation::Resume => match kept {
            Some(query) => return page(store, query).await,
            None => Ok(Answer::Page(Vec::new())),
        },
        Operation::Wait(_) => Ok(Answer::Written(None)),
    };
    // What was opened before can still be gone on with.
    (answer.unwrap_or_else(failed), kept.cloned())
}

/// Nothing of a failure but its kind is the same everywhere, and the items that conditions found.
fn failed(error: Error) -> Answer {
    let conditions = error.failed_conditions().unwrap_or_default().to_vec();
    if matches!(error.code(), "engine" | "unavailable" | "busy") {
        panic!("the engine failed: {error} {error:?}");
    }
    Answer::Failed(error.code(), conditions, Message(error.to_string()))
}

/// One page. How much of a page expired items take is each engine's own matter, and so is the order of equal keys in an
/// index: pages that end at the same place are compared, and others only left behind.
async fn page(store: &dyn Store, query: &Query) -> (Answer, Option<Kept>) {
    match store.query(query.clone()).await {
        Ok(Page { items, next, .. }) => (Answer::Page(items), next.map(|next: Position| query.clone().after(next))),
        Err(error) => (failed(error), None),
    }
}

async fn all_pages(store: &dyn Store, query: &Query) -> Result<Vec<Item>, Error> {
    let (mut query, mut items) = (query.clone(), Vec::new());
    loop {
        let page = store.query(query.clone()).await?;
        items.extend(page.items);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(items),
        }
    }
}

async fn all_of_scan(store: &dyn Store, scan: &Scan) -> Result<Vec<Item>, Error> {
    let (mut scan, mut items) = (scan.clone(), Vec::new());
    loop {
        let page = store.scan(scan.clone()).await?;
        items.extend(page.items);
        match page.next {
            Some(next) => scan.after = Some(next),
            None => {
                items.sort_by_key(|item| spec().key.key_of(item));
                return Ok(items);
            }
        }
    }
}

/// The items as the query says, with those of equal index keys in the order of their own keys.
fn in_order(query: &Query, mut items: Vec<Item>) -> Answer {
    if let Some(index) = query.index.as_deref().and_then(|index| spec().index(index).cloned()) {
        let place = |item: &Item| place(item, &index.key);
        let sorted =
            items.is_sorted_by(
                |one, other| {
                    if query.descending { place(one) >= place(other) } else { place(one) <= place(other) }
                },
            );
        assert!(sorted, "not in order: {items:#?}");
        items.sort_by_key(|item| (place(item), spec().key.key_of(item)));
    }
    Answer::Page(items)
}

fn place(item: &Item, key: &KeySchema) -> Option<Key> {
    key.key_of(item)
}

/// All that is in the table, and in each partition of each index.
pub(crate) async fn contents(store: &dyn Store) -> BTreeMap<String, Vec<Item>> {
    let table = all_of_scan(store, &Scan::table(TABLE)).await.expect("a scan");
    let mut contents = BTreeMap::from([("table".to_owned(), table)]);
    for index in INDEXES {
        for partition in 0..3 {
            let query = Query::index(TABLE, index, format!("I{partition}"));
            let items = all_pages(store, &query).await.expect("a query");
            let Answer::Page(items) = in_order(&query, items) else { continue };
            contents.insert(format!("{index} I{partition}"), items);
        }
    }
    contents
}

/// What happened to each item, in order: before, after, and why.
pub(crate) async fn changes(store: &dyn Store) -> BTreeMap<Key, Vec<(Option<Item>, Option<Item>, Cause)>> {
    let mut all: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    let mut last: BTreeMap<Key, u128> = BTreeMap::new();
    let mut from = From::Oldest;
    loop {
        let changes = store.changes(TABLE, from, 1_000).await.expect("changes");
        if changes.records.is_empty() {
            return all;
        }
        for record in changes.records {
            // At least once: what comes again is left out.
            if last.get(&record.key).is_some_and(|last| record.sequence <= *last) {
                continue;
            }
            last.insert(record.key.clone(), record.sequence);
            all.entry(record.key).or_default().push((record.old, record.new, record.cause));
        }
        from = From::After(changes.next);
    }
}
