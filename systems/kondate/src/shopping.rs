//! The shopping list: marks bought items, many at once, puts them into the fridge, and adds what a plan needs.

mod from_plan;
mod needs;

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use nagaya_design::{Design, FieldError, Verb};
use nagaya_server::{Answer, Call, Content, CustomRoute, Problem, RequestBody as _, request_body};
use nagaya_tenancy::{ChangeSet, Page, Record};
use serde_json::json;

use crate::{
    fridge::FRIDGE_ITEM_ENTITY,
    product::{MAX_CHANGES, items_schema, object_fields, object_from_fields, retry_lost_races, unless_lost_race},
    turns::Turns,
};

const ITEM: &str = "shopping_item";
/// The field of a bought item with the id of what it has become in the fridge.
const FRIDGE_ITEM_FIELD: &str = "fridgeItemId";
const COMPLETE: &str = "Marks items as bought, all of them or none. With `toFridge`, also puts them into the fridge, at most 45 at once: \
                        `fridgeItemId` then names what each has become.";
/// Items that are put into the fridge at once: each is two changes.
const MAX_TO_FRIDGE: usize = MAX_CHANGES / 2;

request_body! {
    /// The body that names bought items.
    struct BoughtItems of ITEM {
        item_ids: Vec<String> = "itemIds" as "itemId" max MAX_CHANGES,
        to_fridge: Option<bool> = "toFridge" as "completed",
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
            .answers(201, Some(from_plan::answer_schema())),
    ]
}

/// Marks items as bought, and puts them into the fridge if that is asked for: all of them, or none if one does not exist. What is
/// bought already, or in the fridge, stays as it is.
async fn complete(call: Arc<Call>) -> Result<Answer, Problem> {
    let BoughtItems { item_ids, to_fridge } = call.parse_body()?;
    let to_fridge = to_fridge == Some(true);
    // Each item once, with its position in the body.
    let is_first = |(at, id): &(usize, &String)| !item_ids[..*at].contains(id);
    let ids: Vec<_> = item_ids.iter().enumerate().filter(is_first).map(|(at, id)| (at, id.as_str())).collect();
    if to_fridge && ids.len() > MAX_TO_FRIDGE {
        let message = format!("has {} items, allowed with `toFridge` are 1 to {MAX_TO_FRIDGE}", ids.len());
        Problem::check_fields(vec![FieldError { path: "itemIds".to_owned(), message }])?;
    }
    let tenant = call.tenant()?;
    let keys: Vec<[&str; 1]> = ids.iter().map(|(_, id)| [*id]).collect();
    let keys: Vec<(&str, &[&str])> = keys.iter().map(|key| (ITEM, key.as_slice())).collect();

    let completed = retry_lost_races(|| async {
        let found = tenant.get_many(&keys).await?;
        check_found(&ids, &found)?;
        let found: Vec<_> = found.into_iter().flatten().collect();
        let is_done = |item: &Record| is_completed(item) && (!to_fridge || item.get(FRIDGE_ITEM_FIELD).is_some());
        let open = || found.iter().filter(|item| !is_done(item));
        // The items first: their results are in the answer.
        let fridge_ids: Vec<_> = open().map(|_| to_fridge.then(|| call.ids().ulid(call.now_millis()))).collect();
        let set = open()
            .zip(&fridge_ids)
            .fold(tenant.change_set(), |set, (item, fridge_id)| complete_item(set, item, fridge_id.as_deref()));
        let set = open().zip(&fridge_ids).fold(set, |set, (item, fridge_id)| match fridge_id {
            Some(id) => put_into_fridge(set, item, id),
            None => set,
        });
        let Some(completed) = unless_lost_race(set.commit().await)? else { return Ok(None) };
        let mut completed = completed.into_iter().flatten();
        let now = |item: Record| if is_done(&item) { Some(item) } else { completed.next() };
        Ok(Some(found.into_iter().filter_map(now).collect()))
    });
    Ok(list(StatusCode::OK, completed.await?))
}

fn is_completed(item: &Record) -> bool {
    item.json("completed") == Some(true.into())
}

fn complete_item(set: ChangeSet, item: &Record, fridge_id: Option<&str>) -> ChangeSet {
    let mut patch = object_fields(json!({ "completed": true }));
    patch.extend(fridge_id.map(|id| (FRIDGE_ITEM_FIELD.to_owned(), id.into())));
    set.update(ITEM, &[&item.id().concat()], patch, item)
}

/// Creates what an item becomes in the fridge.
fn put_into_fridge(set: ChangeSet, item: &Record, id: &str) -> ChangeSet {
    let kept = ["name", "amount", "unit", "category", "note"];
    let kept = kept.into_iter().filter_map(|field| Some((field.to_owned(), item.json(field)?)));
    set.create(FRIDGE_ITEM_ENTITY, object_from_fields(kept.chain([("itemId".to_owned(), id.into())])))
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
