//! Reads: single items, batches, queries and scans.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use aws_sdk_dynamodb::{
    error::ProvideErrorMetadata as _,
    types::{KeysAndAttributes, ReturnConsumedCapacity},
};
use nagaya_store::{Error, ErrorKind, Item, Key, KeySchema, Page, PagePosition, Query, Scan, limits};

use super::{
    Dynamodb,
    convert::{self, Attributes},
    meter::Call,
    retry::Backoff,
    table_cache::Table,
};
use crate::QueryRequest;

pub(crate) async fn get(store: &Dynamodb, table: &str, key: &Key) -> Result<Option<Item>, Error> {
    let table = store.table(table).await?;
    limits::check_key(&table.spec.key, key)?;
    let found = get_stored(store, &table, key).await?;
    Ok(found.filter(|item| !table.spec.is_expired(item, store.options.clock.seconds())))
}

/// The item with this key, expired or not.
pub(crate) async fn get_stored(store: &Dynamodb, table: &Table, key: &Key) -> Result<Option<Item>, Error> {
    let response = store
        .client
        .get_item()
        .table_name(&table.name)
        .set_key(Some(convert::to_key(&table.spec.key, key)))
        .consistent_read(true)
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await;
    let response = response.map_err(|failure| store.call_error(&table.spec.name, failure))?;
    store.meter.count_response(Call::Get, response.consumed_capacity.as_slice());
    response.item.map(convert::to_item).transpose()
}

pub(crate) async fn batch_get(store: &Dynamodb, keys: &[(String, Key)]) -> Result<Vec<Option<Item>>, Error> {
    if keys.len() > limits::MAX_BATCH_GET {
        let (count, most) = (keys.len(), limits::MAX_BATCH_GET);
        return Err(Error::limit_exceeded(format!("a batch reads at most {most} items, not {count}")));
    }
    let mut tables: HashMap<String, Arc<Table>> = HashMap::new();
    let mut wanted: HashSet<(&str, &Key)> = HashSet::new();
    let mut requests: HashMap<String, Vec<Attributes>> = HashMap::new();
    for (name, key) in keys {
        let table = store.table(name).await?;
        limits::check_key(&table.spec.key, key)?;
        // DynamoDB accepts each key once.
        if wanted.insert((name, key)) {
            requests.entry(table.name.clone()).or_default().push(convert::to_key(&table.spec.key, key));
        }
        tables.insert(table.name.clone(), table);
    }
    let requests = requests.into_iter().map(|(name, keys)| Ok((name, consistent(keys)?)));
    let found = read_all(store, &tables, requests.collect::<Result<_, Error>>()?).await?;
    Ok(keys.iter().map(|(table, key)| found.get(&(table.clone(), key.clone())).cloned()).collect())
}

/// Reads keys until none is unprocessed, without expired items.
async fn read_all(
    store: &Dynamodb,
    tables: &HashMap<String, Arc<Table>>,
    mut requests: HashMap<String, KeysAndAttributes>,
) -> Result<HashMap<(String, Key), Item>, Error> {
    let (start, now) = (Instant::now(), store.options.clock.seconds());
    let mut backoff = Backoff::new(&store.options);
    let mut found = HashMap::new();
    while !requests.is_empty() {
        let response = store
            .client
            .batch_get_item()
            .set_request_items(Some(requests))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        let response = match response {
            Ok(response) => response,
            Err(failure) => return Err(store.batch_error(tables.values(), failure).await),
        };
        store.meter.count_response(Call::BatchGet, response.consumed_capacity());
        for (name, items) in response.responses.unwrap_or_default() {
            let Some(table) = tables.get(&name) else { continue };
            for attributes in items {
                let key = convert::key_of(&table.spec.key, &attributes)?;
                let item = convert::to_item(attributes)?;
                if !table.spec.is_expired(&item, now) {
                    found.insert((table.spec.name.clone(), key), item);
                }
            }
        }
        requests = response.unprocessed_keys.unwrap_or_default();
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
    let mut table = store.table(&query.table).await?;
    let (table_name, index_name) = (query.table.clone(), query.index.clone());
    // The index may have been added since the table was described.
    if index_name.as_ref().is_some_and(|name| table.spec.index(name).is_none()) {
        table = store.describe_table(&table_name).await?;
    }
    let request = match QueryRequest::new(&table.name, &table.spec, query) {
        Ok(Some(request)) => request,
        Ok(None) => return Ok(Page::default()),
        Err(error) => {
            if matches!(error.kind(), ErrorKind::NoIndex { .. }) {
                store.tables.forget(&table_name);
            }
            return Err(error);
        }
    };
    let QueryRequest { expression_attribute_names, expression_attribute_values, local_filter, .. } = request;
    let response = store
        .client
        .query()
        .table_name(request.table_name)
        .set_index_name(request.index_name)
        .consistent_read(request.consistent_read)
        .key_condition_expression(request.key_condition_expression)
        .set_filter_expression(request.filter_expression)
        .set_expression_attribute_names(Some(expression_attribute_names.into_iter().collect()))
        .set_expression_attribute_values(Some(convert::to_attributes(expression_attribute_values)))
        .scan_index_forward(request.scan_index_forward)
        .set_limit(request.limit)
        .set_exclusive_start_key(request.exclusive_start_key.map(convert::to_attributes))
        .return_consumed_capacity(ReturnConsumedCapacity::Total)
        .send()
        .await;
    let response = response.map_err(|failure| {
        let message = failure.as_service_error().and_then(|service| service.message()).unwrap_or_default();
        match &index_name {
            Some(index) if is_missing_index(message) => {
                store.tables.forget(&table_name);
                ErrorKind::NoIndex { table: table_name.clone(), index: index.clone() }.into()
            }
            _ => store.call_error(&table_name, failure),
        }
    })?;
    store.meter.count_response(Call::Query, response.consumed_capacity.as_slice());
    let index = index_name.as_ref().and_then(|name| table.spec.index(name)).map(|index| &index.key);
    let next = response.last_evaluated_key.map(|last| position(&table, index, &last)).transpose()?;
    let read = usize::try_from(response.scanned_count).unwrap_or(0);
    let mut page = page(store, &table, response.items.unwrap_or_default(), read, next)?;
    if let Some(filter) = local_filter {
        page.items.retain(|item| filter.is_satisfied_by(item));
    }
    Ok(page)
}

pub(crate) async fn scan(store: &Dynamodb, scan: Scan) -> Result<Page, Error> {
    let table = store.table(&scan.table).await?;
    limits::check_scan(&scan)?;
    let (segment, segments) = scan.segment;
    let parallel = segments > 1;
    if scan.after.as_ref().is_some_and(|position| position.index_key.is_some()) {
        return Err(Error::invalid("the position is of another index than the query"));
    }
    let after = scan.after.map(|position| convert::to_key(&table.spec.key, &position.key));
    let response = store
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
    let response = response.map_err(|failure| store.call_error(&scan.table, failure))?;
    store.meter.count_response(Call::Scan, response.consumed_capacity.as_slice());
    let next = response.last_evaluated_key.map(|last| position(&table, None, &last)).transpose()?;
    let read = usize::try_from(response.scanned_count).unwrap_or(0);
    page(store, &table, response.items.unwrap_or_default(), read, next)
}

/// Whether the server reports that an index is missing or still backfilling.
fn is_missing_index(message: &str) -> bool {
    message.contains("does not have the specified index") || message.contains("backfilling")
}

/// A page without expired items.
fn page(
    store: &Dynamodb,
    table: &Table,
    items: Vec<Attributes>,
    read: usize,
    next: Option<PagePosition>,
) -> Result<Page, Error> {
    let now = store.options.clock.seconds();
    let mut items: Vec<Item> = items.into_iter().map(convert::to_item).collect::<Result<_, Error>>()?;
    let given = items.len();
    items.retain(|item| !table.spec.is_expired(item, now));
    Ok(Page { scanned_count: read - (given - items.len()).min(read), items, next })
}

fn position(table: &Table, index: Option<&KeySchema>, last: &Attributes) -> Result<PagePosition, Error> {
    let index_key = index.map(|schema| convert::key_of(schema, last)).transpose()?;
    Ok(PagePosition { key: convert::key_of(&table.spec.key, last)?, index_key })
}
