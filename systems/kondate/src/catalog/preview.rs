//! Paid content: the creator, buyers and subscribers read it in full, everybody else reads a preview.

use std::sync::Arc;

use nagaya_server::{Call, Document, Problem};
use nagaya_tenancy::Record;
use serde_json::{Map, Value as Json, json};

use super::{Kind, price::price_of};
use crate::payments::{find_paid_targets, is_subscriber};

/// Tells a preview from the whole item.
const PREVIEW_FIELD: &str = "preview";

/// An item that costs something in the catalog, or cost something when it was withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PricedItem {
    pub(crate) kind: Kind,
    pub(crate) id: String,
    pub(crate) creator: String,
}

impl PricedItem {
    /// The priced item that a record of the catalog is; `None` if it is free, or no complete copy.
    pub(crate) fn of_copy(record: &Record) -> Option<Self> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.names().catalog == record.entity())?;
        let text = |field: &str| record.text(field).unwrap_or_default().to_owned();
        has_price(record).then(|| PricedItem { kind, id: text(kind.names().id), creator: text("creatorId") })
    }
}

/// Whether a copy in the catalog costs something.
pub(crate) fn has_price(copy: &Record) -> bool {
    price_of(copy).is_some()
}

/// Makes previews of the priced items that the caller may not read in full.
pub(crate) async fn restrict(call: &Call, records: &mut [Record]) -> Result<(), Problem> {
    let priced = records.iter().map(PricedItem::of_copy).collect::<Vec<_>>();
    let withheld = withheld_items(call, priced.iter().flatten().cloned().collect()).await?;
    for (record, item) in records.iter_mut().zip(priced) {
        if let Some(item) = item.filter(|item| withheld.contains(item)) {
            let (shown, added) = (shown_fields(item.kind), preview_fields(item.kind, record));
            record.restrict(&shown, added);
        }
    }
    Ok(())
}

/// Those of the items that the caller may not read in full. It costs the same number of reads for one item as for a page.
pub(crate) async fn withheld_items(call: &Call, mut items: Vec<PricedItem>) -> Result<Vec<PricedItem>, Problem> {
    let Some(caller) = &call.caller.tenant else { return Ok(items) };
    // The creator reads everything.
    items.retain(|item| item.creator != **caller);
    if items.is_empty() {
        return Ok(items);
    }
    // So do subscribers.
    let tenant = call.tenant()?;
    if is_subscriber(call, &tenant).await? {
        return Ok(Vec::new());
    }
    // A buyer reads what is paid.
    let targets: Vec<_> = items.iter().map(|item| (item.kind.names().link_name, item.id.as_str())).collect();
    let mut paid = find_paid_targets(&tenant, &targets).await?.into_iter();
    items.retain(|_| paid.next() != Some(true));
    Ok(items)
}

/// What a preview says instead of what it leaves out, of the whole item.
pub(crate) fn preview_fields(kind: Kind, item: &Record) -> Map<String, Json> {
    let mut fields = Map::new();
    fields.insert(PREVIEW_FIELD.to_owned(), true.into());
    fields.extend(kind.names().counted.iter().map(|(field, count)| {
        let length = item.json(field).and_then(|list| list.as_array().map(Vec::len));
        ((*count).to_owned(), length.unwrap_or_default().into())
    }));
    fields
}

/// The stored fields of a preview.
pub(crate) fn shown_fields(kind: Kind) -> Arc<[String]> {
    kind.names().shown.iter().map(|field| (*field).to_owned()).collect()
}

/// The JSON Schemas of the fields that only a preview has.
pub(crate) fn preview_schemas(kind: Kind) -> Map<String, Json> {
    let mut schemas = Map::new();
    let what = "Only in a preview of a paid item: the creator, buyers and subscribers read the whole item.";
    schemas.insert(PREVIEW_FIELD.to_owned(), json!({ "const": true, "type": "boolean", "description": what }));
    schemas.extend(kind.names().counted.iter().map(|(field, count)| {
        let what = format!("Only in a preview, which has no `{field}`: their number.");
        ((*count).to_owned(), json!({ "type": "integer", "minimum": 0, "description": what }))
    }));
    schemas
}

/// Adds the fields of previews to the OpenAPI document.
pub(crate) fn customize_openapi(document: &mut Document) {
    for kind in Kind::ALL {
        let copy = kind.names().catalog_schema;
        if let Some(Json::Object(properties)) = document.json()["components"]["schemas"][copy].get_mut("properties") {
            properties.append(&mut preview_schemas(kind));
        }
    }
}
