//! Publishing and withdrawing: an item and its copies are always written in one transaction.

use std::sync::Arc;

use nagaya_design::{Design, Field};
use nagaya_server::{Answer, Call, Problem, RequestBody as _, request_body};
use nagaya_tenancy::{ChangeSet, Error, Record, RecordOwner, SideRecord, Tenant};
use serde_json::{Value as Json, json};

use super::{
    Kind, author, copied_fields,
    copy::COPIED_FROM_FIELD,
    price::{LAST_PRICE_FIELD, PRICE_FIELD, positive, price_of},
};
use crate::product::{object_fields, object_from_fields, retry_lost_races, unless_lost_race};

request_body! {
    /// The body that publishes something. Recipes and sets have the same prices.
    struct Offer of "catalog_recipe" {
        price: Option<f64> = "price",
    }
}

/// The JSON Schema of the body. It has no default: what a missing price means depends on the catalog.
pub(super) fn schema(design: &Design) -> Json {
    let mut schema = Offer::schema(design);
    if let Some(price) = schema["properties"]["price"].as_object_mut() {
        price.remove("default");
        let means =
            "Left out, the price of what is in the catalog stays; what is not there yet, or was withdrawn, is free.";
        price.insert("description".to_owned(), means.into());
    }
    schema
}

/// Publishes an item of the caller, or its changes.
pub(super) async fn publish(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    call.parse_body::<Offer>()?;
    let tenant = call.tenant()?;
    let (names, id) = (kind.names(), id_in_path(kind, &call));
    let name = claim_record_name(kind, id);
    let published = retry_lost_races(|| async {
        // It is the caller's own, in the version that the caller knows.
        let own = tenant.get(names.own, &[id]).await?;
        call.check_if_match(&own)?;
        // It is no copy of what another user has published.
        if own.get(COPIED_FROM_FIELD).is_some() {
            let detail = format!("The {} was copied from the catalog: only its creator publishes it.", names.own);
            return Err(Problem::conflict("copied", detail));
        }
        // The caller has a profile with a name.
        let author = author(&tenant).await?;
        // No other user has ever published an item with this id.
        let claim = tenant.side_record(names.catalog, RecordOwner::System, &name).await?;
        if claim.as_ref().is_some_and(|claim| claim.text("creator") != Some(&*tenant.principal().tenant)) {
            return Err(id_taken(kind));
        }

        let (at, millis) = match own.text("publishedAt") {
            Some(at) => (at.to_owned(), call.now_millis()),
            None => publication_time(&call, kind, claim.as_ref())?,
        };
        let mut patch = object_fields(json!({ "publishedAt": at }));
        // Left out, the price of what is in the catalog stays.
        if call.body.contains_key(PRICE_FIELD) || own.text("publishedAt").is_none() {
            patch.insert(LAST_PRICE_FIELD.to_owned(), json!(positive(call.body.get(PRICE_FIELD))));
        }
        let mut set = tenant.change_set().update(names.own, &[id], patch, &own);
        for copy in read_copies(&tenant, kind, &at, id).await? {
            set = add_copy(&call, set, kind, &own, &author, &copy);
        }
        if claim.is_none() || own.text("publishedAt").is_none() {
            let said = object_fields(json!({ "creator": &*tenant.principal().tenant, "millis": millis }));
            set = set.side_record(names.catalog, RecordOwner::System, &name, Some(said), claim.as_ref());
        }
        unless_lost_race(set.commit().await)
    });
    // The own item comes first, then the complete copy.
    let copy = published.await?.into_iter().nth(1).flatten();
    copy.map(Answer::record).ok_or_else(Problem::not_found)
}

/// Removes an item of the caller from the catalog.
pub(super) async fn withdraw(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    without_copies(kind, &call, |set, own, id, copies| {
        if own.text("publishedAt").is_none() {
            let detail = format!("The {} is not in the catalog.", own.entity());
            return Err(Problem::conflict("not_published", detail));
        }
        let mut patch = object_fields(json!({ "publishedAt": null }));
        // Links to the item show what it cost. Items that were published before there was a last price do not have one.
        if let Some(copy) = copies.iter().find_map(|copy| copy.stored.as_ref()) {
            patch.insert(LAST_PRICE_FIELD.to_owned(), json!(price_of(copy)));
        }
        Ok(set.update(own.entity(), &[id], patch, own))
    })
    .await
}

/// Deletes an item of the caller with its copies. A concurrent publication is detected by the version.
pub(super) async fn delete(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    without_copies(kind, &call, |set, own, id, _| Ok(set.delete(own.entity(), &[id], own))).await
}

/// Changes an item of the caller, in the version that the caller knows, and deletes its copies.
async fn without_copies(
    kind: Kind,
    call: &Call,
    change: impl Fn(ChangeSet, &Record, &str, &[CatalogCopy<'_>]) -> Result<ChangeSet, Problem>,
) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let id = id_in_path(kind, call);
    let changed = retry_lost_races(|| async {
        let own = tenant.get(kind.names().own, &[id]).await?;
        call.check_if_match(&own)?;
        let copies = match own.text("publishedAt") {
            Some(at) => read_copies(&tenant, kind, at, id).await?.into(),
            None => Vec::new(),
        };
        let set = change(tenant.change_set(), &own, id, &copies)?;
        let there = copies.iter().filter(|copy| copy.stored.is_some());
        unless_lost_race(there.fold(set, |set, copy| set.delete(copy.entity, &copy.id, None)).commit().await)
    });
    changed.await.map(|_| Answer::no_content())
}

pub(super) fn id_in_path(kind: Kind, call: &Call) -> &str {
    let [id] = call.path_parameters([kind.names().id]);
    id
}

/// The name of the record with the creator and the last publication of an id. It is never deleted: an id in the catalog
/// belongs to one creator, and no two publications of it have the same time, because saved items refer to the time.
fn claim_record_name(kind: Kind, id: &str) -> String {
    format!("published-{}-{id}", kind.names().own)
}

/// The time of publication: now, or a second after the last publication, because times have a resolution of a second.
fn publication_time(call: &Call, kind: Kind, claim: Option<&SideRecord>) -> Result<(String, i64), Problem> {
    let last = claim.and_then(|claim| claim.number("millis")).and_then(|last| i64::try_from(last).ok());
    let millis = last.map_or(call.now_millis(), |last| call.now_millis().max(last.saturating_add(1_000)));
    let instant = call.timestamp(kind.names().catalog, "createdAt", millis);
    let at = instant.as_str().ok_or_else(Problem::internal)?;
    Ok((at.to_owned(), millis))
}

/// A copy of an own item.
struct CatalogCopy<'c> {
    entity: &'static str,
    /// Its id: the time of publication and the own id; on the creator's page with the creator in front.
    id: Vec<&'c str>,
    /// `None`: it does not exist.
    stored: Option<Record>,
}

/// The two copies of an own item that was published at this time.
async fn read_copies<'c>(
    tenant: &'c Tenant,
    kind: Kind,
    at: &'c str,
    id: &'c str,
) -> Result<[CatalogCopy<'c>; 2], Error> {
    let names = kind.names();
    let (complete, short) = (vec![at, id], vec![&*tenant.principal().tenant, at, id]);
    let found = tenant.get_many(&[(names.catalog, &complete), (names.creator, &short)]).await?;
    let mut found = found.into_iter();
    Ok([(names.catalog, complete), (names.creator, short)].map(|(entity, id)| {
        let stored = found.next().flatten();
        CatalogCopy { entity, id, stored }
    }))
}

/// Adds a copy of the own item to a change set.
fn add_copy(call: &Call, set: ChangeSet, kind: Kind, own: &Record, author: &str, copy: &CatalogCopy<'_>) -> ChangeSet {
    let names = kind.names();
    // A field that the own item no longer has is removed from the copy.
    let given = |field: &Field| match own.json(&field.name) {
        Some(value) => Some((field.name.clone(), value)),
        None => field.optional.then(|| (field.name.clone(), Json::Null)),
    };
    let mut given = object_from_fields(copied_fields(call.design(), names.own, copy.entity).filter_map(given));
    given.insert("creatorName".to_owned(), author.into());
    given.extend(call.body.get(PRICE_FIELD).map(|price| (PRICE_FIELD.to_owned(), price.clone())));
    if copy.stored.is_some() {
        // In any version: a saved count may change it concurrently.
        return set.update(copy.entity, &copy.id, given, None);
    }
    if let [.., at, id] = copy.id.as_slice() {
        given.insert("createdAt".to_owned(), (*at).into());
        given.insert(names.id.to_owned(), (*id).into());
    }
    set.create(copy.entity, given)
}

fn id_taken(kind: Kind) -> Problem {
    let own = kind.names().own;
    let detail = format!("A {own} of another user has this id in the catalog: copy yours, and publish the copy.");
    Problem::conflict("id_taken", detail)
}
