//! What is in the fridge, what was thrown out of it, and what is to be bought.

use serde_json::json;

use super::{
    HOUR, Thing, Together,
    book::Book,
    date,
    days::{Days, Meal},
    desk::Cook,
    dishes::{Ingredient, kind, number},
    evening, id, instant,
};
use crate::seed::{item::DAY, luck::Luck, story::Whose};

/// What there is in a fridge: name, amount, unit, where it lies, and for how many days it keeps.
const FOODS: [(&str, f64, &str, &str, i64); 40] = [
    ("牛乳", 1.0, "本", "卵・乳製品", 7),
    ("卵", 10.0, "個", "卵・乳製品", 14),
    ("バター", 150.0, "g", "卵・乳製品", 60),
    ("ヨーグルト", 400.0, "g", "卵・乳製品", 10),
    ("ピザ用チーズ", 150.0, "g", "卵・乳製品", 20),
    ("絹ごし豆腐", 2.0, "丁", "豆腐・大豆", 5),
    ("油揚げ", 3.0, "枚", "豆腐・大豆", 6),
    ("納豆", 3.0, "パック", "豆腐・大豆", 8),
    ("鶏もも肉", 300.0, "g", "肉", 3),
    ("豚こま切れ肉", 250.0, "g", "肉", 3),
    ("合いびき肉", 200.0, "g", "冷凍", 21),
    ("ベーコン", 4.0, "枚", "肉", 14),
    ("ハム", 6.0, "枚", "肉", 12),
    ("塩鮭", 2.0, "切れ", "魚", 4),
    ("しらす", 50.0, "g", "魚", 4),
    ("ちくわ", 4.0, "本", "魚", 8),
    ("えび", 12.0, "尾", "冷凍", 45),
    ("うどん", 3.0, "玉", "冷凍", 60),
    ("ほうれん草", 1.0, "束", "野菜", 4),
    ("小松菜", 1.0, "束", "野菜", 4),
    ("キャベツ", 0.5, "個", "野菜", 12),
    ("白菜", 0.25, "個", "野菜", 10),
    ("大根", 0.5, "本", "野菜", 10),
    ("にんじん", 3.0, "本", "野菜", 14),
    ("玉ねぎ", 4.0, "個", "野菜", 25),
    ("じゃがいも", 5.0, "個", "野菜", 25),
    ("長ねぎ", 2.0, "本", "野菜", 9),
    ("ピーマン", 4.0, "個", "野菜", 8),
    ("きゅうり", 3.0, "本", "野菜", 5),
    ("トマト", 3.0, "個", "野菜", 6),
    ("しめじ", 1.0, "パック", "野菜", 5),
    ("もやし", 1.0, "袋", "野菜", 2),
    ("しょうが", 1.0, "かけ", "野菜", 18),
    ("青じそ", 10.0, "枚", "野菜", 6),
    ("味噌", 500.0, "g", "調味料", 120),
    ("マヨネーズ", 1.0, "本", "調味料", 90),
    ("白菜キムチ", 200.0, "g", "漬物", 20),
    ("梅干し", 8.0, "個", "漬物", 150),
    ("りんご", 2.0, "個", "果物", 20),
    ("みかん", 6.0, "個", "果物", 12),
];
/// How many of them are there, besides a few, and how many were thrown out.
const FULL: usize = 28;
const THROWN_OUT: usize = 5;

/// What is bought whatever is cooked.
const ALWAYS: [(&str, f64, &str); 4] =
    [("食パン", 1.0, "袋"), ("コーヒー豆", 200.0, "g"), ("ラップ", 1.0, "本"), ("ティッシュ", 5.0, "箱")];
/// How much there is on the list for a plan: to be bought, and bought.
const WANTED: (usize, usize) = (14, 10);

const NOTES: [&str; 4] = ["安ければ多めに", "国産のもの", "なければ似たもので", "特売の日に"];

pub(super) fn larder(whose: &Whose<'_>, book: &Book, cook: &Cook, days: &Days) -> Vec<Together> {
    let mut luck = whose.luck("larder", 0);
    let mut foods = FOODS;
    luck.shuffle(&mut foods);
    let full = FULL + luck.below(6);
    let (inside, outside) = foods.split_at(full);
    let mut all = Vec::new();
    for (n, (name, amount, unit, place, keeps)) in inside.iter().enumerate() {
        let mut luck = whose.luck("fridge_item", n);
        // Some has been there for too long.
        let moment = evening(whose.until - luck.between(1, (*keeps + 1).min(12)) * DAY, &mut luck);
        let said = json!({
            "itemId": id(moment, luck.bits()),
            "name": name,
            "amount": number(*amount),
            "unit": unit,
            "category": place,
            "bestBefore": date(moment + keeps * DAY),
        });
        all.push(Thing::new("fridge_item", moment, &mut luck, said).alone());
    }
    for (n, (name, amount, unit, place, keeps)) in outside.iter().take(THROWN_OUT).enumerate() {
        let mut luck = whose.luck("fridge_deleted_item", n);
        let thrown = evening(whose.until - luck.between(1, 12) * DAY, &mut luck);
        let moment = evening(thrown - (*keeps).min(40) * DAY, &mut luck);
        let said = json!({
            "deletedAt": instant(thrown),
            "itemId": id(moment, luck.bits()),
            "name": name,
            "amount": number(*amount),
            "unit": unit,
            "category": place,
            "bestBefore": date(moment + keeps * DAY),
            "createdAt": instant(moment),
            "updatedAt": instant(moment),
        });
        all.push(Thing::new("fridge_deleted_item", thrown, &mut luck, said).alone());
    }

    let here = |name: &str| inside.iter().any(|(food, ..)| *food == name);
    let wanted = needs(book, &days.next, cook).into_iter().filter(|(need, _)| !here(&need.name)).take(WANTED.0);
    let always = ALWAYS.map(|(name, amount, unit)| {
        (Ingredient { name: name.to_owned(), amount: Some(amount), unit: unit.to_owned() }, None)
    });
    let bought = needs(book, &days.current, cook).into_iter().take(WANTED.1);
    let list = wanted.chain(always).map(|need| (need, false)).chain(bought.map(|need| (need, true)));
    all.extend(list.enumerate().map(|(n, (need, bought))| shopping(whose, n, need, bought)));
    all
}

/// What is needed for meals and is not in every kitchen, each once, with the recipe that needs it first.
fn needs(book: &Book, meals: &[Meal], cook: &Cook) -> Vec<(Ingredient, Option<String>)> {
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

/// The n-th thing on the list.
fn shopping(whose: &Whose<'_>, n: usize, (need, recipe): (Ingredient, Option<String>), bought: bool) -> Together {
    let mut luck: Luck = whose.luck("shopping_item", n);
    let moment = evening(whose.until - luck.between(2, 4) * DAY, &mut luck);
    let said = json!({
        "itemId": id(moment, luck.bits()),
        "name": need.name,
        "amount": need.amount.map(|amount| number((amount * 100.0).round() / 100.0)),
        "unit": need.unit,
        "category": match kind(&need.name) {
            _ if recipe.is_none() => "その他",
            "鶏肉" | "豚肉" | "牛肉" => "肉",
            kind => kind,
        },
        "note": luck.happens(15).then(|| luck.word(&NOTES)),
        "recipeId": recipe,
        "completed": bought,
        "createdAt": instant(moment),
    });
    // It is bought on the day after, before noon in Japan.
    let last = if bought { moment - moment.rem_euclid(DAY) + DAY + 2 * HOUR } else { moment };
    Thing::new("shopping_item", last, &mut luck, said).alone()
}
