//! The fridge, what was deleted from it, and the shopping list.

use nagaya_seed::{DAY_MILLIS, SeedContext};
use serde_json::json;

use super::{
    HOUR_MILLIS, SeedItem, WriteGroup,
    account::SeedUser,
    book::RecipeBook,
    date,
    dishes::{Ingredient, food_category, number_json},
    evening, id, instant,
    plans::{Meal, Plans},
    texts::{FOOD, FridgeFood},
};

/// How many foods a fridge holds at least, and how many were deleted from it.
const MIN_FOOD_COUNT: usize = 28;
const DELETED_FOOD_COUNT: usize = 5;

/// How many items of the shopping list are open, and how many are bought.
const SHOPPING_ITEMS: (usize, usize) = (14, 10);

pub(super) fn build_food(
    context: &SeedContext<'_>,
    book: &RecipeBook,
    user: &SeedUser,
    plans: &Plans,
) -> Vec<WriteGroup> {
    let mut rng = context.rng_for_item("larder", 0);
    let mut foods = FOOD.fridge.clone();
    rng.shuffle(&mut foods);
    let full = MIN_FOOD_COUNT + rng.below(6);
    let (inside, outside) = foods.split_at(full);
    let mut all = Vec::new();
    for (n, FridgeFood { name, amount, unit, category, days }) in inside.iter().enumerate() {
        let mut rng = context.rng_for_item("fridge_item", n);
        // Some is past its date.
        let moment = evening(context.until - rng.between(1, (*days + 1).min(12)) * DAY_MILLIS, &mut rng);
        let fields = json!({
            "itemId": id(moment, rng.bits()),
            "name": name,
            "amount": number_json(*amount),
            "unit": unit,
            "category": category,
            "bestBefore": date(moment + days * DAY_MILLIS),
        });
        all.push(SeedItem::new("fridge_item", moment, &mut rng, fields).alone());
    }
    for (n, FridgeFood { name, amount, unit, category, days }) in outside.iter().take(DELETED_FOOD_COUNT).enumerate() {
        let mut rng = context.rng_for_item("fridge_deleted_item", n);
        let deleted = evening(context.until - rng.between(1, 12) * DAY_MILLIS, &mut rng);
        let moment = evening(deleted - (*days).min(40) * DAY_MILLIS, &mut rng);
        let fields = json!({
            "deletedAt": instant(deleted),
            "itemId": id(moment, rng.bits()),
            "name": name,
            "amount": number_json(*amount),
            "unit": unit,
            "category": category,
            "bestBefore": date(moment + days * DAY_MILLIS),
            "createdAt": instant(moment),
            "updatedAt": instant(moment),
        });
        all.push(SeedItem::new("fridge_deleted_item", deleted, &mut rng, fields).alone());
    }

    let here = |name: &str| inside.iter().any(|food| food.name == name);
    let wanted = ingredient_needs(book, &plans.next, user)
        .into_iter()
        .filter(|(need, _)| !here(&need.name))
        .take(SHOPPING_ITEMS.0);
    let always = FOOD.always.iter().map(|need| (need.clone(), None));
    let bought = ingredient_needs(book, &plans.current, user).into_iter().take(SHOPPING_ITEMS.1);
    let list = wanted.chain(always).map(|need| (need, false)).chain(bought.map(|need| (need, true)));
    all.extend(list.enumerate().map(|(n, (need, bought))| build_shopping_item(context, n, need, bought)));
    all
}

/// The ingredients of meals that not every kitchen has, each once, with the first recipe that needs it.
fn ingredient_needs(book: &RecipeBook, meals: &[Meal], user: &SeedUser) -> Vec<(Ingredient, Option<String>)> {
    let mut needs: Vec<(Ingredient, Option<String>)> = Vec::new();
    for recipe in meals.iter().map(|meal| &book.recipes[meal.recipe]) {
        for more in recipe.dish.main_ingredients(user.household_size) {
            match needs.iter_mut().find(|(need, _)| need.name == more.name && need.unit == more.unit) {
                Some((need, _)) => need.amount = need.amount.zip(more.amount).map(|(one, other)| one + other),
                None => needs.push((more, Some(recipe.id.clone()))),
            }
        }
    }
    needs
}

/// The n-th item of the shopping list.
fn build_shopping_item(
    context: &SeedContext<'_>,
    n: usize,
    (need, recipe): (Ingredient, Option<String>),
    bought: bool,
) -> WriteGroup {
    let mut rng = context.rng_for_item("shopping_item", n);
    let moment = evening(context.until - rng.between(2, 4) * DAY_MILLIS, &mut rng);
    let fields = json!({
        "itemId": id(moment, rng.bits()),
        "name": need.name,
        "amount": need.amount.map(|amount| number_json((amount * 100.0).round() / 100.0)),
        "unit": need.unit,
        "category": match food_category(&need.name) {
            _ if recipe.is_none() => "その他",
            "鶏肉" | "豚肉" | "牛肉" => "肉",
            kind => kind,
        },
        "note": rng.chance(15).then(|| rng.pick_word(&FOOD.notes)),
        "recipeId": recipe,
        "completed": bought,
        "createdAt": instant(moment),
    });
    // Bought on the day after, before noon in Japan.
    let last = if bought { moment - moment.rem_euclid(DAY_MILLIS) + DAY_MILLIS + 2 * HOUR_MILLIS } else { moment };
    SeedItem::new("shopping_item", last, &mut rng, fields).alone()
}
