//! Results in a form that can be compared between two stores.

use std::{collections::BTreeMap, fmt};

use nagaya_store::{
    ChangeCause, Error, FailedCondition, Item, Key, KeySchema, Page, PagePosition, Query, Scan, StartPosition, Store,
    WriteOutcome,
};

use super::generate::{INDEXES, Operation, TABLE, spec};

/// The result of an operation.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    Written(Option<Item>),
    Items(Vec<Option<Item>>),
    Page(Vec<Item>),
    Failed(&'static str, Vec<FailedCondition>, Message),
}

/// The message of an error, which differs between engines.
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

/// A query that continues after a page.
pub(crate) type Kept = Query;

/// Runs an operation; also returns the query that continues.
pub(crate) async fn answer(store: &dyn Store, operation: &Operation, kept: Option<&Kept>) -> (Answer, Option<Kept>) {
    let answer = match operation {
        Operation::Write(set) => {
            // Only the response to a set of one action has the item.
            let lone = set.actions().len() == 1;
            store.write(set.clone()).await.map(|WriteOutcome { item }| Answer::Written(item.filter(|_| lone)))
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
    // A query that was opened before can still be continued.
    (answer.unwrap_or_else(failed), kept.cloned())
}

/// Engines agree only on the kind of an error and on the items that conditions failed on.
fn failed(error: Error) -> Answer {
    let conditions = error.failed_conditions().unwrap_or_default().to_vec();
    if matches!(error.code(), "engine" | "unavailable" | "busy") {
        panic!("the engine failed: {error} {error:?}");
    }
    Answer::Failed(error.code(), conditions, Message(error.to_string()))
}

/// One page. Engines count expired items differently, and order equal index keys differently. So only pages that end at the
/// same item are compared.
async fn page(store: &dyn Store, query: &Query) -> (Answer, Option<Kept>) {
    match store.query(query.clone()).await {
        Ok(Page { items, next, .. }) => (Answer::Page(items), next.map(|next: PagePosition| query.clone().after(next))),
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

/// The items in the order of the query; items with equal index keys in the order of their own keys.
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

/// All items of the table and of each index partition.
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

/// The changes of each item in order: old item, new item, cause.
pub(crate) async fn changes(store: &dyn Store) -> BTreeMap<Key, Vec<(Option<Item>, Option<Item>, ChangeCause)>> {
    let mut all: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    let mut last: BTreeMap<Key, u128> = BTreeMap::new();
    let mut from = StartPosition::Oldest;
    loop {
        let changes = store.changes(TABLE, from, 1_000).await.expect("changes");
        if changes.records.is_empty() {
            return all;
        }
        for record in changes.records {
            // Delivery is at least once: repeated records are skipped.
            if last.get(&record.key).is_some_and(|last| record.sequence <= *last) {
                continue;
            }
            last.insert(record.key.clone(), record.sequence);
            all.entry(record.key).or_default().push((record.old, record.new, record.cause));
        }
        from = StartPosition::After(changes.next);
    }
}
