//! The fridge: deleted items are kept for thirty days, and can be restored.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem};
use nagaya_tenancy::{Record, Retry};
use serde_json::{Map, Value as Json, json};

use crate::product::{item_schema, object_from_fields};

pub(crate) const FRIDGE_ITEM_ENTITY: &str = "fridge_item";
const DELETED_ITEM_ENTITY: &str = "fridge_deleted_item";

pub(crate) fn routes() -> Vec<CustomRoute> {
    let if_match = || json!({ "$ref": "#/components/parameters/IfMatch" });
    vec![
        CustomRoute::new(Method::DELETE, "/fridge-items/{itemId}", DELETE_SUMMARY, delete)
            .requires_permission(FRIDGE_ITEM_ENTITY, Verb::Delete)
            .parameter(if_match())
            .answers(204, None),
        CustomRoute::new(Method::POST, "/fridge-deleted-items/{deletedAt}/{itemId}/restore", RESTORE_SUMMARY, restore)
            .requires_permission(DELETED_ITEM_ENTITY, Verb::Delete)
            .parameter(if_match())
            .answers(200, Some(item_schema("FridgeItem"))),
    ]
}

const DELETE_SUMMARY: &str = "Takes something out of the fridge; it can be restored for thirty days.";
const RESTORE_SUMMARY: &str = "Puts a deleted item back into the fridge.";

/// Soft-deletes an item; with `If-Match`, only that version.
async fn delete(call: Arc<Call>) -> Result<Answer, Problem> {
    let [id] = call.path_parameters(["itemId"]);
    let tenant = call.tenant()?;

    let mut attempt = 0;
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let item = tenant.get(FRIDGE_ITEM_ENTITY, &[id]).await?;
        call.check_if_match(&item)?;
        let mut kept = shared_fields(call.design(), &item);
        kept.insert("deletedAt".to_owned(), deletion_time(&call, attempt));
        match tenant
            .change_set()
            .delete(FRIDGE_ITEM_ENTITY, &[id], &item)
            .create(DELETED_ITEM_ENTITY, kept)
            .commit()
            .await
        {
            // It has changed, or an item with the same id was deleted at the same second.
            Err(error) if error.is_conflict() => attempt += 1,
            done => {
                done?;
                return Ok(Answer::no_content());
            }
        }
    }
}

/// The time of a deletion: a second later with each attempt, because the time is part of the key.
fn deletion_time(call: &Call, attempt: usize) -> Json {
    let later = i64::try_from(attempt).unwrap_or(0).saturating_mul(1_000);
    call.timestamp(DELETED_ITEM_ENTITY, "deletedAt", call.now_millis().saturating_add(later))
}

/// Moves a deleted item back, with its id and its creation time. Of concurrent calls one succeeds.
async fn restore(call: Arc<Call>) -> Result<Answer, Problem> {
    let id = call.path_parameters(["deletedAt", "itemId"]);
    let tenant = call.tenant()?;
    // After thirty days the item has expired, and the store does not return it.
    let deleted = tenant.get(DELETED_ITEM_ENTITY, &id).await?;
    call.check_if_match(&deleted)?;

    let mut kept = shared_fields(call.design(), &deleted);
    // Restoring sets a new time of the last change.
    kept.remove("updatedAt");
    let set = tenant.change_set().delete(DELETED_ITEM_ENTITY, &id, &deleted).create(FRIDGE_ITEM_ENTITY, kept);
    let restored = set.commit().await?.into_iter().flatten().next();
    Ok(Answer::record(restored.ok_or_else(Problem::not_found)?))
}

/// The fields that an item and a deleted item share, without the tenant.
fn shared_fields(design: &Design, item: &Record) -> Map<String, Json> {
    let both = design.entity(FRIDGE_ITEM_ENTITY).zip(design.entity(DELETED_ITEM_ENTITY)).into_iter();
    let kept = both.flat_map(|(item, deleted)| {
        let shared = |name: &str| deleted.field(name).is_some() && item.tenant.as_deref() != Some(name);
        item.fields.iter().filter(move |field| shared(&field.name))
    });
    object_from_fields(kept.filter_map(|field| Some((field.name.clone(), item.json(&field.name)?))))
}
