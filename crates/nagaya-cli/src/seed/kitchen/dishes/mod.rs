//! What people cook at home: families of dishes that are made in the same way of different things.

mod fish;
mod meat;
mod noodles;
mod rice;
mod sides;
mod soups;
mod sweets;

use serde_json::{Map, Value as Json, json};

/// Dishes that are made in the same way.
pub(super) struct Family {
    /// The category of the book that they are in.
    pub(super) category: &'static str,
    tags: &'static str,
    pub(super) minutes: u32,
    /// What there is to say about them. As in the steps, `{主}` is what a dish is made of first of all, and `{具}` is all
    /// that is its own.
    about: &'static str,
    /// What all of them need, for two.
    basics: &'static str,
    steps: &'static [&'static str],
    /// What each is called, and what it is made of besides, for two: first what it is named after, behind `；` what only
    /// goes with it.
    dishes: &'static [(&'static str, &'static str)],
}

const ALL: [&[Family]; 7] =
    [meat::MEAT, fish::FISH, sides::SIDES, soups::SOUPS, rice::RICE, noodles::NOODLES, sweets::SWEETS];

/// What the amounts are for.
const SERVINGS: f64 = 2.0;
/// As fast as can be.
const FAST: u32 = 15;

/// Things of these names come out of the water.
const FISH: [&str; 20] = [
    "生鮭",
    "塩鮭",
    "サーモン",
    "さば",
    "さんま",
    "あじ",
    "小あじ",
    "いわし",
    "ぶり",
    "さわら",
    "銀だら",
    "かじき",
    "かれい",
    "金目鯛",
    "鯛",
    "まぐろ",
    "わかさぎ",
    "いか",
    "えび",
    "かき",
];

/// Something to cook.
#[derive(Clone, Copy)]
pub(super) struct Dish {
    pub(super) family: &'static Family,
    pub(super) title: &'static str,
    own: &'static str,
}

impl Dish {
    /// Those that everybody makes first, one of each family, and all others.
    pub(super) fn all() -> [Vec<Self>; 2] {
        let of = |family: &'static Family| family.dishes.iter().map(move |(title, own)| Dish { family, title, own });
        let families = ALL.into_iter().flatten();
        [
            families.clone().flat_map(|family| of(family).take(1)).collect(),
            families.flat_map(|family| of(family).skip(1)).collect(),
        ]
    }

    /// What it is named after, and has to be bought for it, for so many.
    pub(super) fn own(&self, servings: u32) -> Vec<Ingredient> {
        ingredients(self.first(), servings)
    }

    /// All that it is made of, for so many.
    pub(super) fn ingredients(&self, servings: u32) -> Vec<Ingredient> {
        let parts = self.own.split('；').chain([self.family.basics]);
        parts.flat_map(|part| ingredients(part, servings)).collect()
    }

    pub(super) fn about(&self) -> String {
        self.said(self.family.about)
    }

    pub(super) fn steps(&self) -> Vec<String> {
        self.family.steps.iter().map(|step| self.said(step)).collect()
    }

    /// What it is filed under: how it is made, of what, and whether it is fast.
    pub(super) fn tags(&self) -> Vec<&'static str> {
        let mut tags: Vec<_> = self.family.tags.split(' ').collect();
        let kinds = self.names().map(kind).filter(|kind| ["鶏肉", "豚肉", "牛肉", "魚"].contains(kind));
        tags.extend(kinds.chain((self.family.minutes <= FAST).then_some("時短")));
        let mut once = Vec::new();
        tags.retain(|tag| {
            !once.contains(tag) && {
                once.push(*tag);
                true
            }
        });
        tags
    }

    /// Whether it is of a category, or filed under a word.
    pub(super) fn is(&self, word: &str) -> bool {
        self.family.category == word || self.tags().contains(&word)
    }

    fn first(&self) -> &'static str {
        self.own.split('；').next().unwrap_or_default()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.first().split('、').map(|text| text.split(' ').next().unwrap_or_default())
    }

    fn said(&self, text: &str) -> String {
        let names: Vec<_> = self.names().collect();
        let all = match names.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{}と{last}", first.join("、")),
            _ => names.concat(),
        };
        text.replace("{主}", names.first().copied().unwrap_or_default()).replace("{具}", &all)
    }
}

/// Something that a dish is made of.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ingredient {
    pub(super) name: String,
    pub(super) amount: Option<f64>,
    pub(super) unit: String,
}

impl Ingredient {
    /// Reads `玉ねぎ 1個`, `酒 大さじ2` or `塩 少々`.
    fn read(text: &str, times: f64) -> Self {
        let (name, much) = text.split_once(' ').unwrap_or((text, ""));
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let number: String = much.chars().filter(|letter| is_number(*letter)).collect();
        let unit = much.chars().filter(|letter| !is_number(*letter)).collect();
        let amount = number.parse::<f64>().ok().map(|amount| (amount * times * 100.0).round() / 100.0);
        Ingredient { name: name.to_owned(), amount, unit }
    }

    pub(super) fn json(&self) -> Json {
        let mut fields = Map::from_iter([("name".to_owned(), json!(self.name)), ("unit".to_owned(), json!(self.unit))]);
        fields.extend(self.amount.map(|amount| ("amount".to_owned(), number(amount))));
        fields.into()
    }
}

fn ingredients(text: &str, servings: u32) -> Vec<Ingredient> {
    text.split('、').map(|each| Ingredient::read(each, f64::from(servings) / SERVINGS)).collect()
}

/// A whole number is written as one.
pub(super) fn number(amount: f64) -> Json {
    if amount.fract() == 0.0 { json!(amount as i64) } else { json!(amount) }
}

/// What kind of food it is.
pub(super) fn kind(name: &str) -> &'static str {
    let begins = |any: &[&str]| any.iter().any(|word| name.starts_with(word));
    let ends = |any: &[&str]| any.iter().any(|word| name.ends_with(word));
    match name {
        "牛乳" | "卵" | "ゆで卵" | "バター" | "ヨーグルト" => "卵・乳製品",
        "たら" | "あさり" | "しらす" | "ちりめんじゃこ" => "魚",
        _ if begins(&["鶏"]) => "鶏肉",
        _ if begins(&["豚"]) => "豚肉",
        _ if begins(&["牛"]) => "牛肉",
        _ if begins(&FISH) => "魚",
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
            let said = [steps.concat(), dish.about()].concat();
            assert!(!said.contains(['{', '}']), "{}: {said}", dish.title);
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
    fn amounts_are_for_those_who_eat() {
        let read = |text: &str, servings| Ingredient::read(text, f64::from(servings) / SERVINGS);
        let told = |each: Ingredient| (each.name, each.amount, each.unit);
        assert_eq!(told(read("酒 大さじ1.5", 4)), ("酒".to_owned(), Some(3.0), "大さじ".to_owned()));
        assert_eq!(told(read("玉ねぎ 0.5個", 3)), ("玉ねぎ".to_owned(), Some(0.75), "個".to_owned()));
        assert_eq!(told(read("塩 少々", 4)), ("塩".to_owned(), None, "少々".to_owned()));
        assert_eq!((number(3.0), number(0.75)), (json!(3), json!(0.75)));
    }
}
