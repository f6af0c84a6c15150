//! Saving: a short copy among the user's own items. A change subscription counts it later.

use std::sync::Arc;

use nagaya_server::{Answer, Call, Problem};
use nagaya_tenancy::{Expected, Record};
use serde_json::{Map, Value as Json};

use super::{Kind, counts::CatalogEntry, find_copy};
use crate::product::{find, object_from_fields, retry_lost_races, unless_lost_race};

/// Saves an item of the catalog. A saved item stays as it is, unless the item was published again since.
pub(super) async fn save(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let names = kind.names();
    // It is in the catalog.
    let [id] = call.path_parameters([names.id]);
    let copy = find_copy(&call, kind, id).await?.ok_or_else(Problem::not_found)?;

    let fields = saved_fields(&copy);
    let saved = retry_lost_races(|| async {
        let written = match find(&tenant, names.saved, &[id]).await? {
            Some(there) if CatalogEntry::saved(kind, &there) == CatalogEntry::copy(kind, &copy) => Ok(there),
            Some(there) => tenant.update(names.saved, &[id], fields.clone(), &there).await,
            None => {
                let mut fields = fields.clone();
                fields.insert(names.id.to_owned(), id.into());
                tenant.create(names.saved, fields).await
            }
        };
        unless_lost_race(written)
    });
    saved.await.map(Answer::record)
}

/// Removes a saved item; also succeeds if it was not saved.
pub(super) async fn unsave(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    let names = kind.names();
    let [id] = call.path_parameters([names.id]);
    // A text that cannot be an id: 404.
    let field = call.design().entity(names.saved).and_then(|saved| saved.field(names.id));
    if field.is_some_and(|field| !field.accepts(&id.into())) {
        return Err(Problem::not_found());
    }
    match call.tenant()?.delete(names.saved, &[id], Expected::Any).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Answer::no_content()),
    }
}

/// The fields that are saved of a copy.
fn saved_fields(copy: &Record) -> Map<String, Json> {
    let kept =
        [("creatorId", "creatorId"), ("createdAt", "catalogCreatedAt"), ("title", "title"), ("imageUrl", "imageUrl")];
    object_from_fields(kept.map(|(from, to)| (to.to_owned(), copy.json(from).unwrap_or_default())))
}
