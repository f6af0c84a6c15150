//! Adds the ingredients of a plan to the shopping list, without those in the fridge or on the list.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Problem, request_body};
use nagaya_tenancy::{ChangeSet, Error, List, Record, RecordOwner, Retry, SideRecord, Tenant};
use serde_json::{Map, Value as Json, json};
use tokio::task::yield_now;

use super::{
    ITEM, list,
    needs::{Amount, Needs, ShoppingLine, Stock},
};
use crate::{
    plans::{CURRENT_SLOT, NEXT_SLOT, PLAN_ENTITY},
    product::{MAX_CHANGES, for_each_record, object_fields, object_from_fields},
    turns::Turns,
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
/// The field of this record with the id of the run that has written it.
const RUN_FIELD: &str = "run";
/// Items of the fridge that are read, and items of the list, at most. It is ten items a day for more than ten years.
const MAX_ITEMS: usize = 50_000;
/// Recipes that are read at once.
const RECIPES_AT_ONCE: usize = 10;

/// Adds what a plan needs to the list, and answers with the added items.
///
/// An item of a plan without a recipe, or with a deleted one, has no known ingredients.
pub(super) async fn from_plan(call: Arc<Call>, turns: &Turns) -> Result<Answer, Problem> {
    let FromPlan { slot } = call.parse_body()?;
    let tenant = call.tenant()?;
    let _turn = turns.wait(&call).await?;
    let (plan, other) = read_plans(&tenant, &slot).await?;
    let needs = read_needs(&tenant, &plan).await?;

    let run = call.ids().ulid(call.now_millis());
    let mut added = Vec::new();
    let mut retry = Retry::default();
    'stock: loop {
        let mut lock = read_lock(&tenant).await?;
        let missing = needs.missing(&read_stock(&tenant, &needs, other.as_ref()).await?);
        for lines in missing.chunks(MAX_CHANGES) {
            match add(&tenant, lines, &plan, &run, lock.as_ref()).commit().await {
                // A concurrent run was faster: read again what is missing.
                Err(error) if error.is_conflict() => {
                    retry.attempt().await?;
                    continue 'stock;
                }
                Err(error) => return Err(error.into()),
                Ok(records) => added.extend(records.into_iter().flatten()),
            }
            lock = read_lock(&tenant).await?;
            // The same if it came between two change sets of this run.
            if lock.as_ref().and_then(|lock| lock.fields.get(RUN_FIELD)) != Some(&run.as_str().into()) {
                continue 'stock;
            }
        }
        return Ok(list(StatusCode::CREATED, added));
    }
}

async fn read_lock(tenant: &Tenant) -> Result<Option<SideRecord>, Error> {
    tenant.side_record(ITEM, RecordOwner::Tenant, LOCK_RECORD).await
}

/// Adds lines, if no other run has added some since the lock was read.
fn add(tenant: &Tenant, lines: &[ShoppingLine], plan: &Record, run: &str, lock: Option<&SideRecord>) -> ChangeSet {
    let set = lines.iter().fold(tenant.change_set(), |set, line| set.create(ITEM, fields(line, plan)));
    set.side_record(ITEM, RecordOwner::Tenant, LOCK_RECORD, Some(object_fields(json!({ RUN_FIELD: run }))), lock)
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
    // What each is made of, and for how many: the rest of a recipe can be long.
    let mut recipes: BTreeMap<String, (Option<f64>, Json)> = BTreeMap::new();
    for some in wanted.chunks(RECIPES_AT_ONCE) {
        for recipe in tenant.get_many(some).await?.into_iter().flatten() {
            let made_for = recipe.json("servings").and_then(|servings| servings.as_f64());
            recipes.insert(recipe.id().concat(), (made_for, recipe.json("ingredients").unwrap_or_default()));
        }
        yield_now().await;
    }

    let mut needs = Needs::default();
    for (id, item) in items {
        let Some((made_for, ingredients)) = recipes.get(id) else { continue };
        let planned = item.get("servings").and_then(Json::as_f64);
        let times = planned.zip(*made_for).map_or(1.0, |(planned, made_for)| planned / made_for);
        for ingredient in ingredients.as_array().into_iter().flatten() {
            let name = ingredient["name"].as_str().unwrap_or_default();
            let amount = Amount::new(ingredient["amount"].as_f64(), ingredient["unit"].as_str());
            needs.add(id, name, &amount, times);
        }
    }
    Ok(needs)
}

/// What is needed of the items in the fridge and on the list, without those on the list for the other plan.
async fn read_stock(tenant: &Tenant, needs: &Needs, other: Option<&Record>) -> Result<Stock, Problem> {
    let other = other.and_then(|plan| plan.text(PLAN_ID_FIELD));
    let counts = |item: &Record| {
        let is_for_other = other.is_some() && item.text(PLAN_ID_FIELD) == other;
        !is_for_other && item.json("completed") != Some(true.into())
    };
    let mut stock = needs.stock();
    // The list with its completed items: they are read anyway, and this way they count.
    for (access, name) in [("fridge_items", "fridge"), ("shopping_items", "shopping list")] {
        let all = for_each_record(tenant, List::by(access), MAX_ITEMS, |item| {
            if counts(item) {
                let amount = item.json("amount").and_then(|amount| amount.as_f64());
                stock.add(item.text("name").unwrap_or_default(), &Amount::new(amount, item.text("unit")));
            }
        });
        if !all.await? {
            let detail = format!(
                "The {name} has more than {MAX_ITEMS} items, so it is not compared with the plan. Delete old ones; bought ones count."
            );
            return Err(Problem::conflict("too_many_items", detail));
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
