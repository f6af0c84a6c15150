//! Adds the ingredients of a plan to the shopping list, without those in the fridge, bought or on the list, and says what it left out.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Content, Problem, request_body};
use nagaya_tenancy::{ChangeSet, Error, List, Record, RecordOwner, Retry, SideRecord, Tenant};
use serde_json::{Map, Value as Json, json};
use tokio::task::yield_now;

use super::{
    FRIDGE_ITEM_FIELD, ITEM, is_completed,
    needs::{Amount, LeftOut, Needs, ShoppingLine, Source, Stock},
};
use crate::{
    catalog::{self, CatalogItem, Kind},
    plans::{CURRENT_SLOT, NEXT_SLOT, PLAN_ENTITY, normalize_slot},
    product::{MAX_CHANGES, for_each_record, items_schema, object_fields, object_from_fields},
    turns::Turns,
};

pub(super) const SUMMARY: &str = "Adds the ingredients of a plan to the list: equal ones summed up, without what is in the \
                                  fridge, bought for the plan or on the list; items on the list for the other plan do not count. \
                                  `leftOut` says which dishes and ingredients were left out, and why.";

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

/// A dish that is left out, and why.
struct LeftOutDish {
    dish: Json,
    reason: &'static str,
}

/// The JSON Schema of an answer.
pub(super) fn answer_schema() -> Json {
    let text = || json!({ "type": "string" });
    let reason = |reasons: &[&str]| json!({ "type": "string", "enum": reasons });
    let dish = json!({
        "type": "object",
        "properties": {
            "recipeId": text(), "title": text(), "reason": reason(&["cooked", "no_recipe", "recipe_not_found", "not_bought"]),
        },
        "required": ["title", "reason"],
        "additionalProperties": false,
    });
    let ingredient = json!({
        "type": "object",
        "properties": {
            "name": text(), "amount": { "type": "number" }, "unit": text(), "reason": reason(&["in_fridge", "bought", "on_list"]),
        },
        "required": ["name", "reason"],
        "additionalProperties": false,
    });
    let left_out = json!({
        "type": "object",
        "properties": { "dishes": { "type": "array", "items": dish }, "ingredients": { "type": "array", "items": ingredient } },
        "required": ["dishes", "ingredients"],
        "additionalProperties": false,
    });
    json!({
        "type": "object",
        "properties": { "added": items_schema("ShoppingItem"), "leftOut": left_out },
        "required": ["added", "leftOut"],
        "additionalProperties": false,
    })
}

/// Adds what a plan needs to the list, and answers with the added items and what was left out.
pub(super) async fn from_plan(call: Arc<Call>, turns: &Turns) -> Result<Answer, Problem> {
    let mut body = call.body.clone();
    normalize_slot(&mut body);
    let FromPlan { slot } = call.parse_fields(&body)?;
    let tenant = call.tenant()?;
    let _turn = turns.wait(&call).await?;
    let (plan, other) = read_plans(&tenant, &slot).await?;
    let (needs, dishes) = read_needs(&call, &tenant, &plan).await?;

    let run = call.ids().ulid(call.now_millis());
    let (mut added, mut left_out) = (Vec::new(), Vec::new());
    let mut retry = Retry::default();
    'stock: loop {
        let mut lock = read_lock(&tenant).await?;
        let (missing, in_stock) = needs.compare(&read_stock(&tenant, &needs, &plan, other.as_ref()).await?);
        // What this run has added itself is not left out.
        if added.is_empty() {
            left_out = in_stock;
        }
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
        return Ok(answer(&added, dishes, left_out));
    }
}

fn answer(added: &[Record], dishes: Vec<LeftOutDish>, ingredients: Vec<LeftOut>) -> Answer {
    let dish = |LeftOutDish { dish, reason }| {
        let said =
            ["recipeId", "title"].into_iter().filter_map(|field| Some((field.to_owned(), dish.get(field)?.clone())));
        let said = said.filter(|(_, value)| !value.is_null());
        object_from_fields(said.chain([("reason".to_owned(), reason.into())])).into()
    };
    let ingredient = |LeftOut { name, amount, unit, source }: LeftOut| {
        let fields = [
            ("name", Some(name.into())),
            ("amount", amount.map(as_stored)),
            ("unit", unit.map(Json::from)),
            ("reason", Some(source.reason().into())),
        ];
        object_from_fields(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)))).into()
    };
    let dishes: Vec<Json> = dishes.into_iter().map(dish).collect();
    let ingredients: Vec<Json> = ingredients.into_iter().map(ingredient).collect();
    let data = json!({ "added": added, "leftOut": { "dishes": dishes, "ingredients": ingredients } });
    Answer::new(StatusCode::CREATED, Content::Data(data))
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

/// An amount as an item of the list has it: a whole number without a fraction.
fn as_stored(amount: f64) -> Json {
    let whole = amount as i64;
    if whole as f64 == amount { whole.into() } else { amount.into() }
}

/// The ingredients of the recipes of a plan that are not cooked yet, for the servings of the plan; and the dishes that are left out.
///
/// A recipe is the caller's own, or one of the catalog that the caller may read in full.
async fn read_needs(call: &Call, tenant: &Tenant, plan: &Record) -> Result<(Needs, Vec<LeftOutDish>), Problem> {
    let dishes = plan.json("items").unwrap_or_default();
    let dishes = dishes.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut ids: Vec<&str> =
        dishes.iter().filter(|dish| dish["cooked"] != true).filter_map(|dish| dish["recipeId"].as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut recipes = BTreeMap::new();
    for some in ids.chunks(RECIPES_AT_ONCE) {
        read_recipes(call, tenant, some, &mut recipes).await?;
        yield_now().await;
    }

    let (mut needs, mut left_out) = (Needs::default(), Vec::new());
    for dish in dishes {
        let reason = match dish["recipeId"].as_str() {
            _ if dish["cooked"] == true => "cooked",
            None => "no_recipe",
            Some(id) => match recipes.get(id) {
                Some(Ok(recipe)) => {
                    recipe.add_to(&mut needs, id, dish);
                    continue;
                }
                Some(Err(reason)) => reason,
                None => RECIPE_NOT_FOUND,
            },
        };
        left_out.push(LeftOutDish { dish: dish.clone(), reason });
    }
    Ok((needs, left_out))
}

const RECIPE_NOT_FOUND: &str = "recipe_not_found";

/// What a recipe is made of, and for how many: the rest of it can be long.
struct RecipeParts {
    servings: Option<f64>,
    ingredients: Json,
}

impl RecipeParts {
    fn of(recipe: &Record) -> Self {
        let servings = recipe.json("servings").and_then(|servings| servings.as_f64());
        RecipeParts { servings, ingredients: recipe.json("ingredients").unwrap_or_default() }
    }

    /// Adds what a dish of it needs.
    fn add_to(&self, needs: &mut Needs, id: &str, dish: &Json) {
        let planned = dish.get("servings").and_then(Json::as_f64);
        let times = planned.zip(self.servings).map_or(1.0, |(planned, made_for)| planned / made_for);
        for ingredient in self.ingredients.as_array().into_iter().flatten() {
            let name = ingredient["name"].as_str().unwrap_or_default();
            let amount = Amount::new(ingredient["amount"].as_f64(), ingredient["unit"].as_str());
            needs.add(id, name, &amount, times);
        }
    }
}

/// Reads recipes by their ids: each, or why it cannot be used.
async fn read_recipes(
    call: &Call,
    tenant: &Tenant,
    ids: &[&str],
    recipes: &mut BTreeMap<String, Result<RecipeParts, &'static str>>,
) -> Result<(), Problem> {
    let wanted: Vec<[&str; 1]> = ids.iter().map(|id| [*id]).collect();
    let wanted: Vec<(&str, &[&str])> = wanted.iter().map(|id| ("recipe", id.as_slice())).collect();
    let mut elsewhere = Vec::new();
    for (id, own) in ids.iter().zip(tenant.get_many(&wanted).await?) {
        match own {
            Some(own) => drop(recipes.insert((*id).to_owned(), Ok(RecipeParts::of(&own)))),
            None => elsewhere.push(*id),
        }
    }
    for (id, found) in elsewhere.iter().zip(catalog::find_items(call, Kind::Recipe, &elsewhere).await?) {
        let parts = match found {
            CatalogItem::Whole(recipe) => Ok(RecipeParts::of(&recipe)),
            CatalogItem::Unpaid(_) => Err("not_bought"),
            CatalogItem::Missing => Err(RECIPE_NOT_FOUND),
        };
        recipes.insert((*id).to_owned(), parts);
    }
    Ok(())
}

/// What is needed of the items in the fridge and on the list, without those on the list for the other plan. What is bought counts for
/// the plan that it was listed from, until it is in the fridge and counts there.
async fn read_stock(tenant: &Tenant, needs: &Needs, plan: &Record, other: Option<&Record>) -> Result<Stock, Problem> {
    let [plan, other] = [Some(plan), other].map(|plan| plan.and_then(|plan| plan.text(PLAN_ID_FIELD)));
    let is_for = |item: &Record, plan: Option<&str>| plan.is_some() && item.text(PLAN_ID_FIELD) == plan;
    let source = |item: &Record| {
        if item.entity() != ITEM {
            Some(Source::Fridge)
        } else if is_completed(item) {
            Some(Source::Bought).filter(|_| is_for(item, plan) && item.get(FRIDGE_ITEM_FIELD).is_none())
        } else {
            Some(Source::List).filter(|_| !is_for(item, other))
        }
    };
    let mut stock = needs.stock();
    // The list with its completed items: they are read anyway, and this way they count.
    for (access, name) in [("fridge_items", "fridge"), ("shopping_items", "shopping list")] {
        let all = for_each_record(tenant, List::by(access), MAX_ITEMS, |item| {
            if let Some(source) = source(item) {
                let amount = item.json("amount").and_then(|amount| amount.as_f64());
                stock.add(item.text("name").unwrap_or_default(), &Amount::new(amount, item.text("unit")), source);
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
