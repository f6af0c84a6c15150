//! Finding items of the catalog by their ids, for those who want to use the whole of them.

use axum::http::StatusCode;
use nagaya_server::{Call, Problem};
use nagaya_tenancy::{ErrorKind, List, Record};

use super::{
    Kind,
    preview::{PricedItem, withheld_items},
    price::price_of,
};

/// An item of the catalog, for a caller who wants to use it.
pub(crate) enum CatalogItem {
    /// The caller may read all of it.
    Whole(Record),
    /// The caller has not paid this price.
    Unpaid(u64),
    /// There is none.
    Missing,
}

/// The description of the status in the OpenAPI document.
pub(crate) const PAYMENT_REQUIRED_DESCRIPTION: &str =
    "The item has a price that the caller has not paid. Code: `payment_required`.";

/// The complete copy with this id; `None` also for a text that cannot be an id.
pub(crate) async fn find_copy(call: &Call, kind: Kind, id: &str) -> Result<Option<Record>, Problem> {
    let (names, visitor) = (kind.names(), call.visitor());
    let found = match visitor.list(&List::by(names.by_id).with(names.id, id)).await {
        Err(error) if matches!(error.kind(), ErrorKind::Invalid(_)) => return Ok(None),
        found => found?.records.into_iter().next(),
    };
    let Some(found) = found else { return Ok(None) };
    // It is in the catalog, and not only in an index that lags behind.
    let key = found.id();
    let key: Vec<_> = key.iter().map(String::as_str).collect();
    match visitor.get(names.catalog, &key).await {
        Err(error) if error.is_not_found() => Ok(None),
        copy => Ok(Some(copy?)),
    }
}

/// The items with these ids, for a caller who wants to use them. What is paid is looked up once for all of them.
pub(crate) async fn find_items(call: &Call, kind: Kind, ids: &[&str]) -> Result<Vec<CatalogItem>, Problem> {
    let mut copies = Vec::with_capacity(ids.len());
    for id in ids {
        copies.push(find_copy(call, kind, id).await?);
    }
    let priced: Vec<_> = copies.iter().map(|copy| copy.as_ref().and_then(PricedItem::of_copy)).collect();
    let withheld = withheld_items(call, priced.iter().flatten().cloned().collect()).await?;
    let item = |(copy, priced): (Option<Record>, Option<PricedItem>)| match copy {
        None => CatalogItem::Missing,
        Some(copy) if priced.is_some_and(|item| withheld.contains(&item)) => {
            CatalogItem::Unpaid(price_of(&copy).unwrap_or_default())
        }
        Some(copy) => CatalogItem::Whole(copy),
    };
    Ok(copies.into_iter().zip(priced).map(item).collect())
}

/// The item with this id; a problem if the caller has not paid for it.
pub(crate) async fn usable_item(call: &Call, kind: Kind, id: &str) -> Result<Option<Record>, Problem> {
    match find_items(call, kind, &[id]).await?.into_iter().next() {
        Some(CatalogItem::Whole(copy)) => Ok(Some(copy)),
        Some(CatalogItem::Unpaid(price)) => {
            let detail = format!("It costs {price} yen in the catalog: buy it or subscribe to use it.");
            Err(Problem::new(StatusCode::PAYMENT_REQUIRED, "payment_required", detail))
        }
        Some(CatalogItem::Missing) | None => Ok(None),
    }
}
