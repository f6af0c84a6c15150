//! The fridge, what was deleted from it, and the shopping list.

use nagaya_seed::{DAY, SeedContext};
use serde_json::json;

use super::{
    HOUR, SeedItem, WriteGroup,
    account::SeedUser,
    book::RecipeBook,
    date,
    dishes::{Ingredient, kind, number},
    evening, id, instant,
    plans::{Meal, Plans},
    texts::{FOOD, FridgeFood},
};

/// How many foods a fridge holds at least, and how many were deleted from it.
const MIN_FOODS: usize = 28;
const DELETED_FOODS: usize = 5;

/// How many items of the shopping list are open, and how many are bought.
const SHOPPING_ITEMS: (usize, usize) = (14, 10);

pub(super) fn food(context: &SeedContext<'_>, book: &RecipeBook, cook: &SeedUser, plans: &Plans) -> Vec<WriteGroup> {
    let mut rng = context.rng("larder", 0);
    let mut foods = FOOD.fridge.clone();
    rng.shuffle(&mut foods);
    let full = MIN_FOODS + rng.below(6);
    let (inside, outside) = foods.split_at(full);
    let mut all = Vec::new();
    for (n, FridgeFood { name, amount, unit, category, days }) in inside.iter().enumerate() {
        let mut rng = context.rng("fridge_item", n);
        // Some is past its date.
        let moment = evening(context.until - rng.between(1, (*days + 1).min(12)) * DAY, &mut rng);
        let fields = json!({
            "itemId": id(moment, rng.bits()),
            "name": name,
            "amount": number(*amount),
            "unit": unit,
            "category": category,
            "bestBefore": date(moment + days * DAY),
        });
        all.push(SeedItem::new("fridge_item", moment, &mut rng, fields).alone());
    }
    for (n, FridgeFood { name, amount, unit, category, days }) in outside.iter().take(DELETED_FOODS).enumerate() {
        let mut rng = context.rng("fridge_deleted_item", n);
        let deleted = evening(context.until - rng.between(1, 12) * DAY, &mut rng);
        let moment = evening(deleted - (*days).min(40) * DAY, &mut rng);
        let fields = json!({
            "deletedAt": instant(deleted),
            "itemId": id(moment, rng.bits()),
            "name": name,
            "amount": number(*amount),
            "unit": unit,
            "category": category,
            "bestBefore": date(moment + days * DAY),
            "createdAt": instant(moment),
            "updatedAt": instant(moment),
        });
        all.push(SeedItem::new("fridge_deleted_item", deleted, &mut rng, fields).alone());
    }

    let here = |name: &str| inside.iter().any(|food| food.name == name);
    let wanted =
        needs(book, &plans.next, cook).into_iter().filter(|(need, _)| !here(&need.name)).take(SHOPPING_ITEMS.0);
    let always = FOOD.always.iter().map(|need| (need.clone(), None));
    let bought = needs(book, &plans.current, cook).into_iter().take(SHOPPING_ITEMS.1);
    let list = wanted.chain(always).map(|need| (need, false)).chain(bought.map(|need| (need, true)));
    all.extend(list.enumerate().map(|(n, (need, bought))| shopping(context, n, need, bought)));
    all
}

/// The ingredients of meals that not every kitchen has, each once, with the first recipe that needs it.
fn needs(book: &RecipeBook, meals: &[Meal], cook: &SeedUser) -> Vec<(Ingredient, Option<String>)> {
    let mut needs: Vec<(Ingredient, Option<String>)> = Vec::new();
    for recipe in meals.iter().map(|meal| &book.recipes[meal.recipe]) {
        for more in recipe.dish.own(cook.people) {
            match needs.iter_mut().find(|(need, _)| need.name == more.name && need.unit == more.unit) {
                Some((need, _)) => need.amount = need.amount.zip(more.amount).map(|(one, other)| one + other),
                None => needs.push((more, Some(recipe.id.clone()))),
            }
        }
    }
    needs
}

/// The n-th item of the shopping list.
fn shopping(
    context: &SeedContext<'_>,
    n: usize,
    (need, recipe): (Ingredient, Option<String>),
    bought: bool,
) -> WriteGroup {
    let mut rng = context.rng("shopping_item", n);
    let moment = evening(context.until - rng.between(2, 4) * DAY, &mut rng);
    let fields = json!({
        "itemId": id(moment, rng.bits()),
        "name": need.name,
        "amount": need.amount.map(|amount| number((amount * 100.0).round() / 100.0)),
        "unit": need.unit,
        "category": match kind(&need.name) {
            _ if recipe.is_none() => "その他",
            "鶏肉" | "豚肉" | "牛肉" => "肉",
            kind => kind,
        },
        "note": rng.chance(15).then(|| rng.word(&FOOD.notes)),
        "recipeId": recipe,
        "completed": bought,
        "createdAt": instant(moment),
    });
    // Bought on the day after, before noon in Japan.
    let last = if bought { moment - moment.rem_euclid(DAY) + DAY + 2 * HOUR } else { moment };
    SeedItem::new("shopping_item", last, &mut rng, fields).alone()
}
