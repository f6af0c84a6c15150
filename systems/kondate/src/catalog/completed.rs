//! What answers say of catalog items besides their stored fields: how often they were saved, whether the caller has saved them, and
//! of saved items, whether they were withdrawn.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nagaya_server::{Call, Document, Problem};
use nagaya_tenancy::Record;
use serde_json::{Value as Json, json};

use super::{Kind, counts::CatalogEntry, items::find_copy};
use crate::product::object_fields;

const SAVED_COUNT_FIELD: &str = "savedCount";
const SAVED_FIELD: &str = "saved";
const WITHDRAWN_FIELD: &str = "withdrawn";
/// Withdrawn items that are looked up at the same time.
const CONCURRENT_READS: usize = 8;

/// Completes the catalog items and the saved items among these records. It costs one read for all catalog items, one for all saved
/// items, and two for each saved item that is no longer where it was saved.
pub(crate) async fn complete(call: &Call, records: &mut [Record]) -> Result<(), Problem> {
    for kind in Kind::ALL {
        complete_catalog_items(call, kind, records).await?;
        complete_saved_items(call, kind, records).await?;
    }
    Ok(())
}

async fn complete_catalog_items(call: &Call, kind: Kind, records: &mut [Record]) -> Result<(), Problem> {
    let names = kind.names();
    let items: Vec<_> = records.iter_mut().filter(|record| record.entity() == names.catalog).collect();
    let entries: Vec<_> = items.iter().filter_map(|item| CatalogEntry::copy(kind, item)).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let counters: Vec<_> = entries.iter().map(CatalogEntry::counter_id).collect();
    let saves: Vec<_> = entries.iter().map(|entry| [entry.id.as_str()]).collect();
    let counters = counters.iter().map(|id| (names.creator, id.as_slice()));
    let saves = saves.iter().map(|id| (names.saved, id.as_slice()));
    let mut found = match call.caller.tenant {
        Some(_) => call.tenant()?.get_many(&counters.chain(saves).collect::<Vec<_>>()).await?,
        // Without a token, nothing is saved.
        None => call.visitor().get_many(&counters.collect::<Vec<_>>()).await?,
    };
    let mut saves = found.split_off(entries.len()).into_iter();
    for ((item, entry), counter) in items.into_iter().zip(&entries).zip(found) {
        let count = counter.and_then(|counter| counter.json(SAVED_COUNT_FIELD)).unwrap_or(json!(0));
        let saved = saves.next().flatten();
        // What was saved before the item was withdrawn and published again is saved too.
        let is_saved =
            saved.and_then(|saved| CatalogEntry::saved(kind, &saved)).is_some_and(|saved| saved.id == entry.id);
        item.add_fields(object_fields(json!({ SAVED_COUNT_FIELD: count, SAVED_FIELD: is_saved })));
    }
    Ok(())
}

async fn complete_saved_items(call: &Call, kind: Kind, records: &mut [Record]) -> Result<(), Problem> {
    let names = kind.names();
    let items: Vec<_> = records.iter_mut().filter(|record| record.entity() == names.saved).collect();
    let entries: Vec<_> = items.iter().filter_map(|item| CatalogEntry::saved(kind, item)).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = entries.iter().map(|entry| [entry.created_at.as_str(), entry.id.as_str()]).collect();
    let keys: Vec<_> = keys.iter().map(|key| (names.catalog, key.as_slice())).collect();
    let found = call.visitor().get_many(&keys).await?;
    // It may have been published again since.
    let checks = entries.iter().zip(found).map(|(entry, copy)| async move {
        Ok::<_, Problem>(copy.is_none() && find_copy(call, kind, &entry.id).await?.is_none())
    });
    let withdrawn: Vec<bool> =
        stream::iter(checks.collect::<Vec<_>>()).buffered(CONCURRENT_READS).try_collect().await?;
    for (item, is_withdrawn) in items.into_iter().zip(withdrawn) {
        item.add_fields(object_fields(json!({ WITHDRAWN_FIELD: is_withdrawn })));
    }
    Ok(())
}

/// Adds these fields to the OpenAPI document.
pub(crate) fn customize_openapi(document: &mut Document) {
    let mut add = |schema: &str, field: &str, values: Json| {
        if let Some(Json::Object(properties)) = document.json()["components"]["schemas"][schema].get_mut("properties") {
            properties.insert(field.to_owned(), values);
        }
    };
    for kind in Kind::ALL {
        let (copy, saved) = (kind.names().catalog_schema, kind.names().saved_schema);
        let count = json!({ "type": "integer", "minimum": 0, "description": "How many users have saved it; it may lag behind." });
        add(copy, SAVED_COUNT_FIELD, count);
        add(copy, SAVED_FIELD, json!({ "type": "boolean", "description": "Whether the caller has saved it." }));
        let withdrawn = json!({ "type": "boolean", "description": "Whether it is no longer in the catalog." });
        add(saved, WITHDRAWN_FIELD, withdrawn);
    }
}
