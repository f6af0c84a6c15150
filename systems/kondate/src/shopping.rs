//! The shopping list: what has been bought is marked, many at once, and what a plan needs is put on it.

mod from_plan;
mod needs;

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use nagaya_design::{Design, Problem as Flaw, Verb};
use nagaya_server::{Answer, Call, Content, OwnRoute, Problem};
use nagaya_tenancy::{Error, ErrorKind, Page, Record, Retry};
use serde_json::{Map, Value as Json, json};

use crate::product::{AT_ONCE, items, is_lost_race};

const ITEM: &str = "shopping_item";

pub(crate) fn routes(design: &Design) -> Vec<OwnRoute> {
    vec![
        OwnRoute::new(
            Method::POST,
            "/shopping-items/complete",
            "Marks items as bought, all of them or none.",
            complete,
        )
        .needs(ITEM, Verb::Update)
        .body(body(design))
        .answers(200, Some(items("ShoppingItem"))),
        OwnRoute::new(Method::POST, "/shopping-items/from-plan", from_plan::SUMMARY, from_plan::from_plan)
            .needs(ITEM, Verb::Create)
            .body(from_plan::BODY.schema(design))
            .answers(201, Some(items("ShoppingItem"))),
    ]
}

/// Marks items as bought: all of them, or none where one is not there. Those that are marked already stay as they are.
async fn complete(call: Arc<Call>) -> Result<Answer, Problem> {
    let ids = item_ids(&call)?;
    let tenant = call.tenant()?;
    let keys: Vec<[&str; 1]> = ids.iter().map(|(_, id)| [*id]).collect();
    let keys: Vec<(&str, &[&str])> = keys.iter().map(|key| (ITEM, key.as_slice())).collect();

    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let found = tenant.get_many(&keys).await?;
        are_there(&ids, &found)?;
        let found: Vec<_> = found.into_iter().flatten().collect();
        let open = found.iter().filter(|record| record.json("completed") != Some(true.into()));
        let set = open.fold(tenant.set(), |set, record| {
            let completed = Map::from_iter([("completed".to_owned(), true.into())]);
            set.update(ITEM, &[record.text("itemId").unwrap_or_default()], completed, record)
        });
        match set.commit().await {
            Err(error) if is_lost_race(&error) => {}
            completed => {
                let mut completed = completed?.into_iter().flatten();
                let now = |record: Record| match record.json("completed") {
                    Some(Json::Bool(true)) => Some(record),
                    _ => completed.next(),
                };
                return Ok(list(StatusCode::OK, found.into_iter().filter_map(now).collect()));
            }
        }
    }
}

/// Refuses items that are not there, and says which.
fn are_there(ids: &[(usize, &str)], found: &[Option<Record>]) -> Result<(), Problem> {
    let missing: Vec<_> = ids.iter().zip(found).filter(|(_, record)| record.is_none()).map(|((at, _), _)| at).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = "There is no such item on the list.";
    Err(missing.into_iter().fold(Problem::not_found(), |problem, at| problem.at(&format!("itemIds[{at}]"), why)))
}

/// The items that the body names, each once, with the place where it does.
fn item_ids(call: &Call) -> Result<Vec<(usize, &str)>, Problem> {
    let known = |name: &&String| name.as_str() != "itemIds";
    let mut flaws: Vec<_> = call.body.keys().filter(known).map(|name| flaw(name.clone(), "is not a field")).collect();
    let ids = match call.body.get("itemIds") {
        Some(Json::Array(ids)) => ids.as_slice(),
        given => {
            flaws.push(flaw("itemIds", if given.is_some() { "is not a list" } else { "is missing" }));
            &[]
        }
    };
    if flaws.is_empty() && !(1..=AT_ONCE).contains(&ids.len()) {
        flaws.push(flaw("itemIds", format!("has {} elements, allowed are 1 to {AT_ONCE}", ids.len())));
    }
    let field = call.design().entity(ITEM).and_then(|entity| entity.field("itemId"));
    for (at, id) in ids.iter().take(AT_ONCE).enumerate() {
        field.into_iter().for_each(|field| field.check(id, &format!("itemIds[{at}]"), &mut flaws));
    }
    refuse(flaws)?;
    let first = |(at, id): &(usize, &Json)| !ids[..*at].contains(id);
    Ok(ids.iter().enumerate().filter(first).filter_map(|(at, id)| Some((at, id.as_str()?))).collect())
}

fn flaw(path: impl Into<String>, message: impl Into<String>) -> Flaw {
    Flaw { path: path.into(), message: message.into() }
}

fn refuse(flaws: Vec<Flaw>) -> Result<(), Problem> {
    if flaws.is_empty() { Ok(()) } else { Err(Error::from(ErrorKind::Invalid(flaws)).into()) }
}

/// An answer with all of these.
fn list(status: StatusCode, records: Vec<Record>) -> Answer {
    Answer::new(status, Content::Page(Page { records, next: None, count: None }))
}

fn body(design: &Design) -> Json {
    let id = design.entity(ITEM).and_then(|entity| entity.field("itemId")).map(nagaya_design::Field::json_schema);
    let ids = json!({ "type": "array", "minItems": 1, "maxItems": AT_ONCE, "items": id });
    json!({
        "type": "object",
        "properties": { "itemIds": ids },
        "required": ["itemIds"],
        "additionalProperties": false,
    })
}
