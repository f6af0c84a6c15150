//! Publishing and withdrawing: the own item and its copies are always written together.

use std::sync::Arc;

use axum::http::StatusCode;
use nagaya_design::{Design, Field};
use nagaya_server::{Answer, Call, Content, Problem, Shape};
use nagaya_tenancy::{Error, Keeper, Note, Record, Retry, Set, Tenant};
use serde_json::{Map, Value as Json, json};

use super::{Kind, author, shown};
use crate::product::{fields, is_lost_race};

/// What whoever publishes says about it.
pub(super) fn price(kind: Kind) -> Shape {
    Shape { entity: kind.names().catalog, fields: &[("price", "price")], required: &[] }
}

/// The JSON Schema of that. There is no default: what a price that is left out means depends on what is there.
pub(super) fn schema(kind: Kind, design: &Design) -> Json {
    let mut schema = price(kind).schema(design);
    if let Some(price) = schema["properties"]["price"].as_object_mut() {
        price.remove("default");
        let means =
            "Left out, the price of what is in the catalog stays; what is not there yet, or was withdrawn, is free.";
        price.insert("description".to_owned(), means.into());
    }
    schema
}

/// Publishes something of the caller's, or what has changed in it since.
pub(super) async fn publish(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    price(kind).check(call.design(), &call.body)?;
    let tenant = call.tenant()?;
    let (names, id) = (kind.names(), of(kind, &call));
    let name = claim_name(kind, id);
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        // It is the caller's own, and the one that the caller knows.
        let own = tenant.get(names.own, &[id]).await?;
        call.knows(&own)?;
        // Who publishes has a name.
        let author = author(&tenant).await?;
        // Nobody else has ever published something by this id.
        let claim = tenant.note(names.catalog, Keeper::House, &name).await?;
        if claim.as_ref().is_some_and(|claim| claim.text("creator") != Some(&*tenant.principal().tenant)) {
            return Err(id_taken(kind));
        }

        let (at, millis) = match own.text("publishedAt") {
            Some(at) => (at.to_owned(), call.now()),
            None => moment(&call, kind, claim.as_ref())?,
        };
        let mut set = tenant.set().update(names.own, &[id], fields(json!({ "publishedAt": at })), &own);
        for copy in copies(&tenant, kind, &at, id).await? {
            set = copied(&call, set, kind, &own, &author, &copy);
        }
        if claim.is_none() || own.text("publishedAt").is_none() {
            let said = fields(json!({ "creator": &*tenant.principal().tenant, "millis": millis }));
            set = set.note(names.catalog, Keeper::House, &name, Some(said), claim.as_ref());
        }
        match set.commit().await {
            Ok(results) => {
                // The own item comes first, then the complete copy.
                let copy = results.into_iter().nth(1).flatten().ok_or_else(Problem::not_found)?;
                return Ok(Answer::record(copy));
            }
            Err(error) if is_lost_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes something of the caller's out of the catalog.
pub(super) async fn withdraw(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let (names, id) = (kind.names(), of(kind, &call));
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let own = tenant.get(names.own, &[id]).await?;
        call.knows(&own)?;
        if own.text("publishedAt").is_none() {
            let detail = format!("The {} is not in the catalog.", names.own);
            return Err(Problem::new(StatusCode::CONFLICT, "not_published", detail));
        }

        let set = tenant.set().update(names.own, &[id], fields(json!({ "publishedAt": null })), &own);
        match without_copies(&tenant, set, kind, &own, id).await?.commit().await {
            Ok(_) => return Ok(Answer::new(StatusCode::NO_CONTENT, Content::None)),
            Err(error) if is_lost_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Deletes something of the caller's, with its copies: what is published while it is deleted is seen by its version.
pub(super) async fn delete(kind: Kind, call: Arc<Call>) -> Result<Answer, Problem> {
    let tenant = call.tenant()?;
    let (names, id) = (kind.names(), of(kind, &call));
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let own = tenant.get(names.own, &[id]).await?;
        call.knows(&own)?;

        let set = tenant.set().delete(names.own, &[id], &own);
        match without_copies(&tenant, set, kind, &own, id).await?.commit().await {
            Ok(_) => return Ok(Answer::new(StatusCode::NO_CONTENT, Content::None)),
            Err(error) if is_lost_race(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn of(kind: Kind, call: &Call) -> &str {
    call.parameter(kind.names().id).unwrap_or_default()
}

/// The note that says who has published something by an id, and when last. It stays for good: an id in the catalog is one
/// creator's, whoever makes a recipe of the same id, and no two publications have the same moment, which is what
/// those who saved one know it by.
fn claim_name(kind: Kind, id: &str) -> String {
    format!("published-{}-{id}", kind.names().own)
}

/// Now, or a second after it was last published: moments are known to the second.
fn moment(call: &Call, kind: Kind, claim: Option<&Note>) -> Result<(String, i64), Problem> {
    let last = claim.and_then(|claim| claim.number("millis")).and_then(|last| i64::try_from(last).ok());
    let millis = last.map_or(call.now(), |last| call.now().max(last.saturating_add(1_000)));
    let field = call.design().entity(kind.names().catalog).and_then(|entity| entity.field("createdAt"));
    let instant = field.and_then(|field| field.instant(millis));
    let at = instant.as_ref().and_then(Json::as_str).ok_or_else(Problem::internal)?;
    Ok((at.to_owned(), millis))
}

/// A copy of an own item.
struct Copy<'c> {
    entity: &'static str,
    /// Its id: when it was published and the own id, and on a page of all creators its creator before.
    id: Vec<&'c str>,
    there: bool,
}

/// The two copies of an own item that was published then, whether they are there or not.
async fn copies<'c>(tenant: &'c Tenant, kind: Kind, at: &'c str, id: &'c str) -> Result<[Copy<'c>; 2], Error> {
    let names = kind.names();
    let (complete, short) = (vec![at, id], vec![&*tenant.principal().tenant, at, id]);
    let found = tenant.get_many(&[(names.catalog, &complete), (names.creator, &short)]).await?;
    let there = |nth: usize| found.get(nth).is_some_and(Option::is_some);
    Ok([
        Copy { entity: names.catalog, id: complete, there: there(0) },
        Copy { entity: names.creator, id: short, there: there(1) },
    ])
}

/// Adds to a set what makes a copy like the own item.
fn copied(call: &Call, set: Set, kind: Kind, own: &Record, author: &str, copy: &Copy<'_>) -> Set {
    let names = kind.names();
    // What the own item does not have any more goes from the copy as well.
    let given = |field: &Field| match own.json(&field.name) {
        Some(value) => Some((field.name.clone(), value)),
        None => field.optional.then(|| (field.name.clone(), Json::Null)),
    };
    let mut given: Map<_, _> = shown(call.design(), names.own, copy.entity).filter_map(given).collect();
    given.insert("creatorName".to_owned(), author.into());
    given.extend(call.body.get("price").map(|price| ("price".to_owned(), price.clone())));
    if copy.there {
        // Whatever its version is: it may just be counted.
        return set.update(copy.entity, &copy.id, given, None);
    }
    if let [.., at, id] = copy.id.as_slice() {
        given.insert("createdAt".to_owned(), (*at).into());
        given.insert(names.id.to_owned(), (*id).into());
    }
    set.create(copy.entity, given)
}

/// Adds to a set what takes the copies of an own item away.
async fn without_copies(tenant: &Tenant, set: Set, kind: Kind, own: &Record, id: &str) -> Result<Set, Error> {
    let Some(at) = own.text("publishedAt") else { return Ok(set) };
    let there = copies(tenant, kind, at, id).await?.into_iter().filter(|copy| copy.there);
    Ok(there.fold(set, |set, copy| set.delete(copy.entity, &copy.id, None)))
}

fn id_taken(kind: Kind) -> Problem {
    let own = kind.names().own;
    let detail =
        format!("A {own} of somebody else has this id in the catalog: make a copy of yours, and publish that.");
    Problem::new(StatusCode::CONFLICT, "id_taken", detail)
}
