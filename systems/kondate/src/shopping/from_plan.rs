//! Adds the ingredients of a plan to the shopping list, without those in the fridge or on the list.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Problem, request_body};
use nagaya_tenancy::{Error, List, Record, RecordOwner, Retry, Tenant};
use serde_json::{Map, Value as Json};

use super::{
    ITEM, list,
    needs::{Amount, Needs, ShoppingLine, Stock},
};
use crate::{
    plans::{CURRENT_SLOT, NEXT_SLOT, PLAN_ENTITY},
    product::{MAX_CHANGES, list_all, object_from_fields},
};

pub(super) const SUMMARY: &str = "Adds the ingredients of a plan to the list: equal ones summed up, without what is in the \
                                  fridge or on the list; items on the list for the other plan do not count. Items of the plan that are \
                                  cooked, or without a recipe of one's own, are left out.";

request_body! {
    /// The body that names the plan.
    pub(super) struct FromPlan of PLAN_ENTITY {
        slot: String = "slot",
    }
}

/// The id of a plan, which it keeps when it is promoted.
const PLAN_ID_FIELD: &str = "menuId";
/// The name of the record that concurrent runs conflict on: without it, two runs would add everything twice.
const LOCK_RECORD: &str = "shopping-from-plan";

/// Adds what a plan needs to the list, and answers with the added items.
///
/// An item of a plan without a recipe, or with a deleted one, has no known ingredients.
pub(super) async fn from_plan(call: Arc<Call>) -> Result<Answer, Problem> {
    let FromPlan { slot } = call.parse_body()?;
    let tenant = call.tenant()?;
    let (plan, other) = read_plans(&tenant, &slot).await?;
    let needs = read_needs(&tenant, &plan).await?;

    let mut added = Vec::new();
    let mut retry = Retry::default();
    loop {
        let lock = tenant.side_record(ITEM, RecordOwner::Tenant, LOCK_RECORD).await?;
        let missing = needs.missing(&read_stock(&tenant, other.as_ref()).await?);
        if missing.is_empty() {
            return Ok(list(StatusCode::CREATED, added));
        }
        let set = missing
            .iter()
            .take(MAX_CHANGES)
            .fold(tenant.change_set(), |set, line| set.create(ITEM, fields(line, &plan)));
        match set.side_record(ITEM, RecordOwner::Tenant, LOCK_RECORD, Some(Map::new()), lock.as_ref()).commit().await {
            // A concurrent run was faster: read again what is missing.
            Err(error) if error.is_conflict() => retry.attempt().await?,
            Err(error) => return Err(error.into()),
            Ok(records) => {
                added.extend(records.into_iter().flatten());
                if missing.len() <= MAX_CHANGES {
                    return Ok(list(StatusCode::CREATED, added));
                }
            }
        }
    }
}

/// The plan in a slot, and the one in the other.
async fn read_plans(tenant: &Tenant, slot: &str) -> Result<(Record, Option<Record>), Problem> {
    let other = if slot == CURRENT_SLOT { NEXT_SLOT } else { CURRENT_SLOT };
    let mut found = tenant.get_many(&[(PLAN_ENTITY, &[slot]), (PLAN_ENTITY, &[other])]).await?.into_iter();
    let (plan, other) = (found.next().flatten(), found.next().flatten());
    Ok((plan.ok_or_else(Problem::not_found)?, other))
}

/// The ingredients of the recipes of a plan that are not cooked yet, for the servings of the plan.
async fn read_needs(tenant: &Tenant, plan: &Record) -> Result<Needs, Error> {
    let items = plan.json("items").unwrap_or_default();
    let items = items.as_array().into_iter().flatten().filter(|item| item["cooked"] != true);
    let items: Vec<_> = items.filter_map(|item| Some((item["recipeId"].as_str()?, item))).collect();
    let mut ids: Vec<[&str; 1]> = items.iter().map(|(id, _)| [*id]).collect();
    ids.sort_unstable();
    ids.dedup();
    let wanted: Vec<(&str, &[&str])> = ids.iter().map(|id| ("recipe", id.as_slice())).collect();
    let found = tenant.get_many(&wanted).await?;
    let mut recipes: BTreeMap<&str, Record> = BTreeMap::new();
    recipes.extend(ids.iter().zip(found).filter_map(|([id], recipe)| Some((*id, recipe?))));

    let mut needs = Needs::default();
    for (id, item) in items {
        let Some(recipe) = recipes.get(id) else { continue };
        let servings = |value: Option<Json>| value.and_then(|servings| servings.as_f64());
        let wanted = servings(item.get("servings").cloned()).zip(servings(recipe.json("servings")));
        let times = wanted.map_or(1.0, |(planned, made_for)| planned / made_for);
        let ingredients = recipe.json("ingredients").unwrap_or_default();
        for ingredient in ingredients.as_array().into_iter().flatten() {
            let name = ingredient["name"].as_str().unwrap_or_default();
            let amount = Amount::new(ingredient["amount"].as_f64(), ingredient["unit"].as_str());
            needs.add(id, name, &amount, times);
        }
    }
    Ok(needs)
}

/// The items in the fridge and on the list, except those on the list for the other plan.
async fn read_stock(tenant: &Tenant, other: Option<&Record>) -> Result<Stock, Error> {
    let other = other.and_then(|plan| plan.text(PLAN_ID_FIELD));
    let is_for_other = |item: &Record| other.is_some() && item.text(PLAN_ID_FIELD) == other;
    let mut stock = Stock::default();
    for access in ["fridge_items", "shopping_items_open"] {
        for item in list_all(tenant, &List::by(access)).await?.iter().filter(|item| !is_for_other(item)) {
            let amount = item.json("amount").and_then(|amount| amount.as_f64());
            stock.add(item.text("name").unwrap_or_default(), &Amount::new(amount, item.text("unit")));
        }
    }
    Ok(stock)
}

fn fields(line: &ShoppingLine, plan: &Record) -> Map<String, Json> {
    let fields = [
        ("name", Some(line.name.as_str().into())),
        ("amount", line.amount.map(Json::from)),
        ("unit", line.unit.as_deref().map(Json::from)),
        ("recipeId", line.recipe.as_deref().map(Json::from)),
        (PLAN_ID_FIELD, plan.json(PLAN_ID_FIELD)),
    ];
    object_from_fields(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))))
}
