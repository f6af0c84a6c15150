//! Copying an item of the catalog into one's own book.

use std::sync::Arc;

use nagaya_server::{Answer, Call, Problem};
use serde_json::json;

use super::{
    Kind, copied_fields,
    items::usable_item,
    price::{LAST_PRICE_FIELD, price_of},
    publish::id_in_path,
};
use crate::product::object_from_fields;

/// The field of an own item with the id of the catalog item that it was copied from.
pub(super) const COPIED_FROM_FIELD: &str = "copiedFrom";

/// Copies an item of the catalog: 201 with the user's own item, which has an id of its own.
pub(super) async fn copy(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    let (names, id, tenant) = (kind.names(), id_in_path(kind, &call), call.tenant()?);
    // The caller may read all of it.
    let copy = usable_item(&call, kind, id).await?.ok_or_else(Problem::not_found)?;
    // It is not the caller's own.
    if copy.text("creatorId") == Some(&*tenant.principal().tenant) {
        return Err(Problem::conflict("own_item", "It is your own item: it is in your book already."));
    }

    let fields = copied_fields(call.design(), names.own, names.catalog);
    let mut fields = object_from_fields(fields.filter_map(|field| Some((field.name.clone(), copy.json(&field.name)?))));
    fields.insert("origin".to_owned(), "catalog".into());
    fields.insert(COPIED_FROM_FIELD.to_owned(), id.into());
    // Links to the copy show what the item costs.
    fields.extend(price_of(&copy).map(|price| (LAST_PRICE_FIELD.to_owned(), json!(price))));
    let set = call.idempotent(tenant.change_set().create(names.own, fields), ("copy", names.own, id))?;
    let own = set.commit().await?.into_iter().next().flatten().ok_or_else(Problem::not_found)?;
    let location = call.location(&format!("{}/{}", names.path, own.id().concat()));
    Ok(Answer::created(own, &location))
}
