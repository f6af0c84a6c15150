//! Batch writes, for seeding and migration.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{PutRequest, ReturnConsumedCapacity, WriteRequest};
use nagaya_store::{Error, ErrorKind, Item, Key, limits};

use super::{
    Dynamodb, convert,
    meter::Call,
    retry::{self, Backoff},
};

/// The most items of a batch.
const MAX_BATCH: usize = 25;

pub(crate) async fn put_all(store: &Dynamodb, table: &str, items: Vec<Item>) -> Result<(), Error> {
    let table = store.table(table).await?;
    // A batch accepts each key once. Of two items with the same key the later one is written.
    let mut last: HashMap<Key, usize> = HashMap::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        last.insert(limits::check_item(&table.spec, item)?, at);
    }
    let mut requests = Vec::with_capacity(last.len());
    for (at, item) in items.into_iter().enumerate() {
        let key = table.spec.key.key_of(&item);
        if key.is_some_and(|key| last.get(&key) == Some(&at)) {
            let put = PutRequest::builder().set_item(Some(convert::to_attributes(item))).build();
            requests.push(WriteRequest::builder().put_request(put.map_err(Error::engine)?).build());
        }
    }
    // Unprocessed items are sent with the next batch, so that batches stay full.
    let mut backoff = Backoff::new(&store.options);
    let mut idle = 0;
    while !requests.is_empty() {
        let batch = requests.split_off(requests.len().saturating_sub(MAX_BATCH));
        let sent = batch.len();
        let call = store
            .client
            .batch_write_item()
            .request_items(&table.name, batch)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send();
        let (response, ambiguous) = retry::send_noting_ambiguity(call).await;
        let response = response.map_err(|failure| store.write_error(&table.spec.name, failure, ambiguous))?;
        store.meter.count_response(Call::BatchWrite, response.consumed_capacity());
        let left: Vec<_> = response.unprocessed_items.unwrap_or_default().into_values().flatten().collect();
        if left.is_empty() {
            backoff.reset(&store.options);
            idle = 0;
            continue;
        }
        store.meter.count(|metrics| metrics.unprocessed += left.len() as u64);
        idle = if left.len() < sent { 0 } else { idle + 1 };
        if idle >= store.options.max_attempts {
            return Err(ErrorKind::Busy.into());
        }
        requests.extend(left);
        backoff.wait().await;
    }
    Ok(())
}
