//! Reading: single items, batches, queries and scans.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use aws_sdk_dynamodb::{
    error::ProvideErrorMetadata as _,
    types::{KeysAndAttributes, ReturnConsumedCapacity},
};
use nagaya_store::{Error, ErrorKind, Item, Key, KeySchema, Page, Position, Query, Scan, limits};

use crate::{
    convert::{self, Attributes},
    engine::Dynamodb,
    expression::{self, Placeholders},
    known::Table,
    meter::Call,
    retry::Backoff,
};

pub(crate) async fn get(store: &Dynamodb, table: &str, key: &Key) -> Result<Option<Item>, Error> {
    let table = store.table(table).await?;
    limits::check_key(&table.spec.key, key)?;
    let found = get_stored(store, &table, key).await?;
    Ok(found.filter(|item| !table.spec.is_expired(item, store.options.clock.seconds())))
}

/// The item with this key, expired or not.
pub(crate) async fn get_stored(store: &Dynamodb, table: &Table, key: &Key) -> Result<Option<Item>, Error> {
    let answer = store
        .client
        .get_item()
        .table_name(&table.name)
        .set_key(Some(convert::to_key(&table.spec.key, key)))
        .consistent_read(true)
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await;
    let answer = answer.map_err(|failure| store.failed(&table.spec.name, failure))?;
    store.meter.answered(Call::Get, answer.consumed_capacity.as_slice());
    answer.item.map(convert::to_item).transpose()
}

pub(crate) async fn batch_get(store: &Dynamodb, keys: &[(String, Key)]) -> Result<Vec<Option<Item>>, Error> {
    if keys.len() > limits::MAX_BATCH_GET {
        let (count, most) = (keys.len(), limits::MAX_BATCH_GET);
        return Err(Error::limit(format!("a batch reads at most {most} items, not {count}")));
    }
    let mut tables: HashMap<String, Arc<Table>> = HashMap::new();
    let mut wanted: HashSet<(&str, &Key)> = HashSet::new();
    let mut requests: HashMap<String, Vec<Attributes>> = HashMap::new();
    for (name, key) in keys {
        let table = store.table(name).await?;
        limits::check_key(&table.spec.key, key)?;
        // DynamoDB takes each key once.
        if wanted.insert((name, key)) {
            requests.entry(table.name.clone()).or_default().push(convert::to_key(&table.spec.key, key));
        }
        tables.insert(table.name.clone(), table);
    }
    let requests = requests.into_iter().map(|(name, keys)| Ok((name, consistent(keys)?)));
    let found = read_all(store, &tables, requests.collect::<Result<_, Error>>()?).await?;
    Ok(keys.iter().map(|(table, key)| found.get(&(table.clone(), key.clone())).cloned()).collect())
}

/// Reads keys until the server has given them all; those that have not expired.
async fn read_all(
    store: &Dynamodb,
    tables: &HashMap<String, Arc<Table>>,
    mut requests: HashMap<String, KeysAndAttributes>,
) -> Result<HashMap<(String, Key), Item>, Error> {
    let (start, now) = (Instant::now(), store.options.clock.seconds());
    let mut backoff = Backoff::new(&store.options);
    let mut found = HashMap::new();
    while !requests.is_empty() {
        let answer = store
            .client
            .batch_get_item()
            .set_request_items(Some(requests))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) => return Err(store.failed_one_of(tables.values(), failure).await),
        };
        store.meter.answered(Call::BatchGet, answer.consumed_capacity());
        for (name, items) in answer.responses.unwrap_or_default() {
            let Some(table) = tables.get(&name) else { continue };
            for attributes in items {
                let key = convert::key_of(&table.spec.key, &attributes)?;
                let item = convert::to_item(attributes)?;
                if !table.spec.is_expired(&item, now) {
                    found.insert((table.spec.name.clone(), key), item);
                }
            }
        }
        requests = answer.unprocessed_keys.unwrap_or_default();
        let left: usize = requests.values().map(|keys| keys.keys().len()).sum();
        if left > 0 {
            store.meter.count(|metrics| metrics.unprocessed += left as u64);
            if start.elapsed() > store.options.call_timeout {
                return Err(ErrorKind::Busy.into());
            }
            backoff.wait().await;
        }
    }
    Ok(found)
}

fn consistent(keys: Vec<Attributes>) -> Result<KeysAndAttributes, Error> {
    KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build().map_err(Error::engine)
}

pub(crate) async fn query(store: &Dynamodb, query: Query) -> Result<Page, Error> {
    let table = store.table(&query.table).await?;
    let (table, index) = match &query.index {
        None => (table, None),
        Some(name) => {
            let (table, schema) = readable(store, table, name).await?;
            (table, Some(schema))
        }
    };
    let schema = index.as_ref().unwrap_or(&table.spec.key);
    limits::check_query(schema, &query)?;
    let after = query.after.as_ref().map(|position| start(&table, index.as_ref(), position)).transpose()?;
    let Some(sort) = expression::possible(query.sort) else { return Ok(Page::default()) };

    let mut placeholders = Placeholders::default();
    let keys = placeholders.key_condition(schema, query.partition, sort);
    let sent = query.filter.as_ref().and_then(|filter| placeholders.filter(filter, schema));
    let here = query.filter.filter(|_| sent.is_none());
    let answer = store
        .client
        .query()
        .table_name(&table.name)
        .set_index_name(query.index.clone())
        // An index of all partitions cannot be read consistently.
        .consistent_read(index.is_none())
        .key_condition_expression(keys)
        .set_filter_expression(sent)
        .set_expression_attribute_names(placeholders.names())
        .set_expression_attribute_values(placeholders.into_values())
        .scan_index_forward(!query.descending)
        .set_limit(query.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)))
        .set_exclusive_start_key(after)
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await;
    let answer = answer.map_err(|failure| {
        let message = failure.as_service_error().and_then(|service| service.message()).unwrap_or_default();
        match query.index {
            Some(name) if is_about_index(message) => no_index(store, &query.table, name),
            _ => store.failed(&query.table, failure),
        }
    })?;
    store.meter.answered(Call::Query, answer.consumed_capacity.as_slice());
    let next = answer.last_evaluated_key.map(|last| position(&table, index.as_ref(), &last)).transpose()?;
    let read = usize::try_from(answer.scanned_count).unwrap_or(0);
    let mut page = page(store, &table, answer.items.unwrap_or_default(), read, next)?;
    if let Some(filter) = here {
        page.items.retain(|item| filter.holds(item));
    }
    Ok(page)
}

pub(crate) async fn scan(store: &Dynamodb, scan: Scan) -> Result<Page, Error> {
    let table = store.table(&scan.table).await?;
    limits::check_scan(&scan)?;
    let (segment, segments) = scan.segment;
    let parallel = segments > 1;
    let after = scan.after.as_ref().map(|position| start(&table, None, position)).transpose()?;
    let answer = store
        .client
        .scan()
        .table_name(&table.name)
        .consistent_read(true)
        .set_segment(parallel.then_some(i32::try_from(segment).unwrap_or(i32::MAX)))
        .set_total_segments(parallel.then_some(i32::try_from(segments).unwrap_or(i32::MAX)))
        .set_limit(scan.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)))
        .set_exclusive_start_key(after)
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await;
    let answer = answer.map_err(|failure| store.failed(&scan.table, failure))?;
    store.meter.answered(Call::Scan, answer.consumed_capacity.as_slice());
    let next = answer.last_evaluated_key.map(|last| position(&table, None, &last)).transpose()?;
    let read = usize::try_from(answer.scanned_count).unwrap_or(0);
    page(store, &table, answer.items.unwrap_or_default(), read, next)
}

/// The key of an index that can be read, asked for again if it was not there last time.
async fn readable(store: &Dynamodb, table: Arc<Table>, index: &str) -> Result<(Arc<Table>, KeySchema), Error> {
    let key = |table: &Table| table.spec.index(index).map(|index| index.key.clone());
    if let Some(key) = key(&table) {
        return Ok((table, key));
    }
    let table = store.learn(&table.spec.name).await?;
    match key(&table) {
        Some(key) => Ok((table, key)),
        None => Err(no_index(store, &table.spec.name, index.to_owned())),
    }
}

fn no_index(store: &Dynamodb, table: &str, index: String) -> Error {
    store.known.forget(table);
    ErrorKind::NoIndex { table: table.to_owned(), index }.into()
}

/// Whether the server says that an index is not there, or not filled yet.
fn is_about_index(message: &str) -> bool {
    message.contains("does not have the specified index") || message.contains("backfilling")
}

/// What has not expired of what was read.
fn page(
    store: &Dynamodb,
    table: &Table,
    items: Vec<Attributes>,
    read: usize,
    next: Option<Position>,
) -> Result<Page, Error> {
    let now = store.options.clock.seconds();
    let mut items: Vec<Item> = items.into_iter().map(convert::to_item).collect::<Result<_, Error>>()?;
    let given = items.len();
    items.retain(|item| !table.spec.is_expired(item, now));
    Ok(Page { read: read - (given - items.len()).min(read), items, next })
}

/// A position as the server takes it.
fn start(table: &Table, index: Option<&KeySchema>, position: &Position) -> Result<Attributes, Error> {
    let mut start = convert::to_key(&table.spec.key, &position.key);
    match (index, &position.index_key) {
        (None, None) => {}
        (Some(schema), Some(key)) => start.extend(convert::to_key(schema, key)),
        _ => return Err(Error::invalid("the position is of another index than the query")),
    }
    Ok(start)
}

fn position(table: &Table, index: Option<&KeySchema>, last: &Attributes) -> Result<Position, Error> {
    let index_key = index.map(|schema| convert::key_of(schema, last)).transpose()?;
    Ok(Position { key: convert::key_of(&table.spec.key, last)?, index_key })
}
