//! Prices: what an item costs in the catalog, or cost when it was withdrawn.

use nagaya_tenancy::Record;
use serde_json::Value as Json;

/// The field of a copy with its price.
pub(crate) const PRICE_FIELD: &str = "price";
/// The field of an own item with the price that it has or last had in the catalog. It is absent where the item is or was free.
pub(crate) const LAST_PRICE_FIELD: &str = "lastPrice";

/// What a copy in the catalog costs; `None` if it is free.
pub(crate) fn price_of(copy: &Record) -> Option<u64> {
    positive(copy.json(PRICE_FIELD).as_ref())
}

/// What an own item cost when it was last in the catalog; `None` if it was free or never there.
pub(crate) fn last_price_of(own: &Record) -> Option<u64> {
    positive(own.json(LAST_PRICE_FIELD).as_ref())
}

/// A price of more than nothing. In a request, a whole number can have a fraction of zero.
pub(crate) fn positive(price: Option<&Json>) -> Option<u64> {
    price?.as_f64().map(|price| price as u64).filter(|price| *price > 0)
}
