//! Dishes: families that are cooked in the same way, of different ingredients.

use std::sync::LazyLock;

use serde_json::{Map, Value as Json, json};

/// Dishes that are cooked in the same way.
#[derive(serde::Deserialize)]
pub(super) struct Family {
    pub(super) category: &'static str,
    tags: &'static str,
    pub(super) minutes: u32,
    /// The description. As in the steps, `{主}` is the main ingredient of a dish, and `{具}` all of its own ingredients.
    about: &'static str,
    /// The ingredients that all of them need, for two.
    basics: &'static str,
    steps: Vec<&'static str>,
    /// The title of each dish and its own ingredients, for two: first the main ones, after `；` the side ones.
    dishes: Vec<(&'static str, &'static str)>,
}

static FAMILIES: LazyLock<Vec<Family>> =
    LazyLock::new(|| serde_json::from_str(include_str!("dishes.json")).expect("dishes"));

/// The servings that amounts are for.
const BASE_SERVINGS: f64 = 2.0;
/// The minutes of a quick dish.
const QUICK_MINUTES: u32 = 15;

/// A dish.
#[derive(Clone, Copy)]
pub(super) struct Dish {
    pub(super) family: &'static Family,
    pub(super) title: &'static str,
    own: &'static str,
}

impl Dish {
    /// The first dish of each family, and all others.
    pub(super) fn all() -> [Vec<Self>; 2] {
        let of = |family: &'static Family| family.dishes.iter().map(move |(title, own)| Dish { family, title, own });
        let families = FAMILIES.iter();
        [
            families.clone().flat_map(|family| of(family).take(1)).collect(),
            families.flat_map(|family| of(family).skip(1)).collect(),
        ]
    }

    /// The main ingredients for this number of servings.
    pub(super) fn main_ingredients(&self, servings: u32) -> Vec<Ingredient> {
        ingredients(self.main_ingredient_text(), servings)
    }

    /// All ingredients for this number of servings.
    pub(super) fn ingredients(&self, servings: u32) -> Vec<Ingredient> {
        let parts = self.own.split('；').chain([self.family.basics]);
        parts.flat_map(|part| ingredients(part, servings)).collect()
    }

    pub(super) fn about(&self) -> String {
        self.with_ingredient_names(self.family.about)
    }

    pub(super) fn steps(&self) -> Vec<String> {
        self.family.steps.iter().map(|step| self.with_ingredient_names(step)).collect()
    }

    /// Its tags: how it is cooked, of what, and whether it is quick.
    pub(super) fn tags(&self) -> Vec<&'static str> {
        let mut tags: Vec<_> = self.family.tags.split(' ').collect();
        let kinds = self.names().map(food_category).filter(|kind| ["鶏肉", "豚肉", "牛肉", "魚"].contains(kind));
        tags.extend(kinds.chain((self.family.minutes <= QUICK_MINUTES).then_some("時短")));
        let mut once = Vec::new();
        tags.retain(|tag| {
            !once.contains(tag) && {
                once.push(*tag);
                true
            }
        });
        tags
    }

    /// Whether this is its category or one of its tags.
    pub(super) fn has_category_or_tag(&self, word: &str) -> bool {
        self.family.category == word || self.tags().contains(&word)
    }

    fn main_ingredient_text(&self) -> &'static str {
        self.own.split('；').next().unwrap_or_default()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.main_ingredient_text().split('、').map(|text| text.split(' ').next().unwrap_or_default())
    }

    fn with_ingredient_names(&self, text: &str) -> String {
        let names: Vec<_> = self.names().collect();
        let all = match names.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{}と{last}", first.join("、")),
            _ => names.concat(),
        };
        text.replace("{主}", names.first().copied().unwrap_or_default()).replace("{具}", &all)
    }
}

/// An ingredient.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub(super) struct Ingredient {
    pub(super) name: String,
    pub(super) amount: Option<f64>,
    pub(super) unit: String,
}

impl Ingredient {
    /// Reads `玉ねぎ 1個`, `酒 大さじ2` or `塩 少々`.
    fn parse(text: &str, times: f64) -> Self {
        let (name, much) = text.split_once(' ').unwrap_or((text, ""));
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let number: String = much.chars().filter(|letter| is_number(*letter)).collect();
        let unit = much.chars().filter(|letter| !is_number(*letter)).collect();
        let amount = number.parse::<f64>().ok().map(|amount| (amount * times * 100.0).round() / 100.0);
        Ingredient { name: name.to_owned(), amount, unit }
    }

    pub(super) fn json(&self) -> Json {
        let mut fields = Map::from_iter([("name".to_owned(), json!(self.name)), ("unit".to_owned(), json!(self.unit))]);
        fields.extend(self.amount.map(|amount| ("amount".to_owned(), number_json(amount))));
        fields.into()
    }
}

fn ingredients(text: &str, servings: u32) -> Vec<Ingredient> {
    text.split('、').map(|each| Ingredient::parse(each, f64::from(servings) / BASE_SERVINGS)).collect()
}

/// A whole number is written as one.
pub(super) fn number_json(amount: f64) -> Json {
    if amount.fract() == 0.0 { json!(amount as i64) } else { json!(amount) }
}

/// The kind of a food.
pub(super) fn food_category(name: &str) -> &'static str {
    let begins = |any: &[&str]| any.iter().any(|word| name.starts_with(word));
    let ends = |any: &[&str]| any.iter().any(|word| name.ends_with(word));
    match name {
        "牛乳" | "卵" | "ゆで卵" | "バター" | "ヨーグルト" => "卵・乳製品",
        "たら" | "あさり" | "しらす" | "ちりめんじゃこ" => "魚",
        _ if begins(&["鶏"]) => "鶏肉",
        _ if begins(&["豚"]) => "豚肉",
        _ if begins(&["牛"]) => "牛肉",
        _ if begins(&super::texts::FOOD.fish) => "魚",
        _ if ends(&["チーズ"]) => "卵・乳製品",
        _ if ends(&["豆腐", "油揚げ", "厚揚げ"]) || name == "納豆" => "豆腐・大豆",
        _ => "野菜・その他",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn dishes() -> Vec<Dish> {
        Dish::all().concat()
    }

    #[test]
    fn there_are_many_different_dishes() {
        let titles: BTreeSet<_> = dishes().iter().map(|dish| dish.title).collect();
        assert_eq!(titles.len(), dishes().len());
        assert!(titles.len() > 200, "{}", titles.len());
        let steps: BTreeSet<_> = dishes().iter().map(|dish| (dish.family.about, dish.steps(), dish.own)).collect();
        assert_eq!(steps.len(), dishes().len(), "no two are the same thing by another name");
    }

    #[test]
    fn every_dish_can_be_cooked() {
        for dish in dishes() {
            let steps = dish.steps();
            assert!((3..=6).contains(&steps.len()), "{}", dish.title);
            let text = [steps.concat(), dish.about()].concat();
            assert!(!text.contains(['{', '}']), "{}: {text}", dish.title);
            assert!(steps.iter().all(|step| step.ends_with('。') && step.chars().count() < 100), "{steps:?}");
            let of = dish.ingredients(2);
            assert!(of.len() >= 3, "{}: {of:?}", dish.title);
            for each in &of {
                let vague = ["少々", "適量"].contains(&each.unit.as_str());
                assert!(vague != each.amount.is_some_and(|amount| amount > 0.0), "{}: {each:?}", dish.title);
                assert!(!each.unit.is_empty() && !each.name.is_empty(), "{}: {each:?}", dish.title);
            }
            let names: BTreeSet<_> = of.iter().map(|each| &each.name).collect();
            assert_eq!(names.len(), of.len(), "{}: something is twice in {names:?}", dish.title);
        }
    }

    #[test]
    fn amounts_are_scaled_to_the_servings() {
        let read = |text: &str, servings| Ingredient::parse(text, f64::from(servings) / BASE_SERVINGS);
        let told = |each: Ingredient| (each.name, each.amount, each.unit);
        assert_eq!(told(read("酒 大さじ1.5", 4)), ("酒".to_owned(), Some(3.0), "大さじ".to_owned()));
        assert_eq!(told(read("玉ねぎ 0.5個", 3)), ("玉ねぎ".to_owned(), Some(0.75), "個".to_owned()));
        assert_eq!(told(read("塩 少々", 4)), ("塩".to_owned(), None, "少々".to_owned()));
        assert_eq!((number_json(3.0), number_json(0.75)), (json!(3), json!(0.75)));
    }
}
