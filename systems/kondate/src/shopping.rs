//! The shopping list: marks bought items, many at once, and adds what a plan needs.

mod from_plan;
mod needs;

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, Content, CustomRoute, Problem, RequestBody as _, request_body};
use nagaya_tenancy::{Page, Record};
use serde_json::{Value as Json, json};

use crate::{
    product::{MAX_CHANGES, items_schema, object_fields, retry_lost_races, unless_lost_race},
    turns::Turns,
};

const ITEM: &str = "shopping_item";
const COMPLETE: &str = "Marks items as bought, all of them or none.";

request_body! {
    /// The body that names bought items.
    struct BoughtItems of ITEM {
        item_ids: Vec<String> = "itemIds" as "itemId" max MAX_CHANGES,
    }
}

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    let turns = Arc::new(Turns::default());
    let from_plan = move |call| {
        let turns = Arc::clone(&turns);
        async move { from_plan::from_plan(call, &turns).await }
    };
    vec![
        CustomRoute::new(Method::POST, "/shopping-items/complete", COMPLETE, complete)
            .requires_permission(ITEM, Verb::Update)
            .body(BoughtItems::schema(design))
            .answers(200, Some(items_schema("ShoppingItem"))),
        CustomRoute::new(Method::POST, "/shopping-items/from-plan", from_plan::SUMMARY, from_plan)
            .requires_permission(ITEM, Verb::Create)
            .body(from_plan::FromPlan::schema(design))
            .answers(201, Some(items_schema("ShoppingItem"))),
    ]
}

/// Marks items as bought: all of them, or none if one does not exist. Items that are marked already stay as they are.
async fn complete(call: Arc<Call>) -> Result<Answer, Problem> {
    let BoughtItems { item_ids } = call.parse_body()?;
    // Each item once, with its position in the body.
    let is_first = |(at, id): &(usize, &String)| !item_ids[..*at].contains(id);
    let ids: Vec<_> = item_ids.iter().enumerate().filter(is_first).map(|(at, id)| (at, id.as_str())).collect();
    let tenant = call.tenant()?;
    let keys: Vec<[&str; 1]> = ids.iter().map(|(_, id)| [*id]).collect();
    let keys: Vec<(&str, &[&str])> = keys.iter().map(|key| (ITEM, key.as_slice())).collect();

    let completed = retry_lost_races(|| async {
        let found = tenant.get_many(&keys).await?;
        check_found(&ids, &found)?;
        let found: Vec<_> = found.into_iter().flatten().collect();
        let open = found.iter().filter(|record| record.json("completed") != Some(true.into()));
        let set = open.fold(tenant.change_set(), |set, record| {
            set.update(ITEM, &[&record.id().concat()], object_fields(json!({ "completed": true })), record)
        });
        let Some(completed) = unless_lost_race(set.commit().await)? else { return Ok(None) };
        let mut completed = completed.into_iter().flatten();
        let now = |record: Record| match record.json("completed") {
            Some(Json::Bool(true)) => Some(record),
            _ => completed.next(),
        };
        Ok(Some(found.into_iter().filter_map(now).collect()))
    });
    Ok(list(StatusCode::OK, completed.await?))
}

/// Refuses items that do not exist; the problem lists them.
fn check_found(ids: &[(usize, &str)], found: &[Option<Record>]) -> Result<(), Problem> {
    let missing: Vec<_> = ids.iter().zip(found).filter(|(_, record)| record.is_none()).map(|((at, _), _)| at).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let why = "There is no such item on the list.";
    Err(missing
        .into_iter()
        .fold(Problem::not_found(), |problem, at| problem.with_field(&format!("itemIds[{at}]"), why)))
}

/// An answer with these records.
fn list(status: StatusCode, records: Vec<Record>) -> Answer {
    Answer::new(status, Content::Page(Page { records, next: None, count: None }))
}
