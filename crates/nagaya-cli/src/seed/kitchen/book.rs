//! The book of a household: categories, recipes, menus, and what of it is in the catalog.

use serde_json::{Value as Json, json};

use super::{
    EVENING, HOUR, RECIPES, SECOND, Thing, Together,
    desk::Cook,
    dishes::{Dish, Ingredient},
    evening, id, instant, later,
    menus::MENUS,
    start,
};
use crate::seed::{item::DAY, luck::Luck, story::Whose};

/// Which recipes and which menus of a book are in the catalog: one of so many.
const PUBLISHED: (usize, usize) = (20, 6);
/// What those cost that are not free, in yen.
const PRICES: [u32; 3] = [200, 300, 480];
/// Recipes that have been in the book for longer than anything else tells of.
const OLD: usize = 20;
/// How far back everything else goes, in days.
pub(super) const BACK: i64 = 185;
/// Menus that people have used for some weeks.
pub(super) const USED: usize = 4;

const BOOK: [&str; 9] = ["主菜", "副菜", "汁物", "ご飯もの", "麺", "鍋", "お弁当", "お菓子", "献立"];
const CATALOG: [&str; 4] = ["作ってみたい", "週末に", "季節のもの", "おもてなし"];

const MEMOS: [&str; 10] = [
    "砂糖は少し減らしてもよい。",
    "母のレシピ。分量は目分量だったので量り直した。",
    "多めに作って翌日のお弁当に。",
    "子どもには唐辛子を抜く。",
    "前の晩に下ごしらえしておくと楽。",
    "次は火を弱めにして、もう少し長く。",
    "冷凍できる。三週間くらいまで。",
    "薬味を添えると味がしまる。",
    "フライパンは大きいほうで。",
    "旬の時期に作ると格別。",
];

/// A recipe of the book.
pub(super) struct Recipe {
    pub(super) id: String,
    pub(super) dish: Dish,
    pub(super) servings: u32,
    pub(super) offer: Option<Offer>,
    moment: i64,
    luck: Luck,
    /// Whether it comes from somewhere else.
    pub(super) imported: bool,
}

/// A menu of the book.
pub(super) struct Menu {
    pub(super) id: String,
    pub(super) title: &'static str,
    /// The recipes, by their place in the book.
    pub(super) recipes: Vec<usize>,
    pub(super) offer: Option<Offer>,
    about: &'static str,
    tags: &'static str,
    moment: i64,
    luck: Luck,
}

/// Something in the catalog.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) moment: i64,
    pub(super) price: u32,
}

pub(super) struct Book {
    pub(super) recipes: Vec<Recipe>,
    pub(super) menus: Vec<Menu>,
    /// The category of each chapter.
    chapters: Vec<Together>,
    ids: Vec<(&'static str, String)>,
}

/// The id of the n-th recipe of a household.
pub(super) fn recipe_id(whose: &Whose<'_>, n: usize) -> String {
    made(whose, n).0
}

/// The id and the moment of the n-th recipe, and what luck is left for the rest of it.
fn made(whose: &Whose<'_>, n: usize) -> (String, i64, Luck) {
    let mut luck = whose.luck("recipe", n);
    let old = n < OLD || luck.happens(70);
    let days = if old { luck.between(BACK + 5, 540) } else { luck.between(2, BACK) };
    let moment = evening(whose.until - days * DAY, &mut luck);
    (id(moment, luck.bits()), moment, luck)
}

impl Book {
    pub(super) fn of(whose: Whose<'_>) -> Self {
        let mut luck = whose.luck("book", 0);
        let [mut first, mut others] = Dish::all();
        luck.shuffle(&mut first);
        luck.shuffle(&mut others);
        let dishes = first.into_iter().chain(others).take(whose.items.min(RECIPES)).enumerate();
        let recipes = dishes.map(|(n, dish)| Recipe::of(&whose, n, dish)).collect();
        let mut book = Book { recipes, menus: Vec::new(), chapters: Vec::new(), ids: Vec::new() };
        // Everybody has the same menus for weekdays, and some of the others.
        let mut menus: Vec<usize> = (0..MENUS.len()).collect();
        luck.shuffle(&mut menus[USED..]);
        for (n, which) in menus.into_iter().take(whose.items).enumerate() {
            let menu = book.menu(&whose, n, which);
            book.menus.push(menu);
        }
        book.divide(&whose);
        book
    }

    /// A recipe that was there at some time, and not chosen yet: one of a kind if there is one.
    pub(super) fn choose(&self, word: &str, before: i64, chosen: &[usize], luck: &mut Luck) -> Option<usize> {
        let there = |n: &usize| self.recipes[*n].moment < before && !chosen.contains(n);
        let any: Vec<usize> = (0..self.recipes.len()).filter(there).collect();
        let fit: Vec<usize> = any.iter().copied().filter(|n| self.recipes[*n].dish.is(word)).collect();
        luck.pick(if fit.is_empty() { &any } else { &fit }).copied()
    }

    fn menu(&self, whose: &Whose<'_>, n: usize, which: usize) -> Menu {
        let mut luck = whose.luck("set", n);
        let days = if n < USED { luck.between(30, BACK) } else { luck.between(3, BACK) };
        let moment = evening(whose.until - days * DAY, &mut luck);
        let id = id(moment, luck.bits());
        // Before anything that depends on the recipes there are: others have to come to the same.
        let offer = (n % PUBLISHED.1 == 5).then(|| {
            let price = if n % 12 == 11 { PRICES[2] } else { 0 };
            Offer { moment: later(moment, whose.until, &mut luck), price }
        });
        let (title, tags, about, words) = MENUS[which];
        let mut recipes = Vec::new();
        for word in words.split(' ') {
            recipes.extend(self.choose(word, moment, &recipes, &mut luck));
        }
        Menu { id, title, recipes, offer, about, tags, moment, luck }
    }

    /// Makes the chapters: they are older than all recipes.
    fn divide(&mut self, whose: &Whose<'_>) {
        let scopes = BOOK.iter().map(|name| ("book", name)).chain(CATALOG.iter().map(|name| ("catalog", name)));
        for (n, (scope, name)) in scopes.enumerate().take(whose.items) {
            let mut luck = whose.luck("category", n);
            let minutes = i64::try_from(n).unwrap_or(0);
            let moment = start(whose.until - 560 * DAY) + EVENING * HOUR + minutes * 60 * SECOND;
            let id = id(moment, luck.bits());
            let position = if scope == "book" { n } else { n - BOOK.len() };
            let said = json!({ "scope": scope, "categoryId": id, "name": name, "position": position });
            self.chapters.push(Thing::new("category", moment, &mut luck, said).alone());
            self.ids.push((name, id));
        }
    }

    fn chapter(&self, name: &str) -> Option<&str> {
        self.ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.as_str())
    }

    /// All of it, what is published together with its copies.
    pub(super) fn written(mut self, cook: &Cook) -> Vec<Together> {
        let mut all = std::mem::take(&mut self.chapters);
        for recipe in &self.recipes {
            let said = recipe.said(self.chapter(recipe.dish.family.category));
            let copied =
                ["title", "description", "steps", "tags", "sourceUrl", "servings", "cookMinutes", "ingredients"];
            let kind = ["recipe", "catalog_recipe", "creator_recipe", "recipeId"];
            all.push(published(kind, said, (recipe.moment, recipe.offer), &copied, cook, recipe.luck.clone()));
        }
        for menu in &self.menus {
            let said = menu.said(self.chapter("献立"), &self.recipes, cook);
            let kind = ["set", "catalog_set", "creator_set", "setId"];
            let copied = ["title", "description", "tags", "items"];
            all.push(published(kind, said, (menu.moment, menu.offer), &copied, cook, menu.luck.clone()));
        }
        all
    }
}

impl Recipe {
    fn of(whose: &Whose<'_>, n: usize, dish: Dish) -> Self {
        let (id, moment, mut luck) = made(whose, n);
        let servings = *luck.pick(&[2, 2, 3, 4, 4]).unwrap_or(&2);
        let offer = (n % PUBLISHED.0 == 1).then(|| {
            let price = if n % (3 * PUBLISHED.0) == PUBLISHED.0 + 1 { *luck.pick(&PRICES).unwrap_or(&0) } else { 0 };
            Offer { moment: later(moment, whose.until, &mut luck), price }
        });
        // Nobody publishes what is somebody else's.
        let imported = offer.is_none() && luck.happens(12);
        Recipe { id, dish, servings, offer, moment, luck, imported }
    }

    fn said(&self, chapter: Option<&str>) -> Json {
        let mut luck = self.luck.clone();
        json!({
            "recipeId": self.id,
            "title": self.dish.title,
            "description": self.dish.about(),
            "steps": self.dish.steps(),
            "tags": self.dish.tags(),
            "categoryId": chapter,
            "origin": if self.imported { "imported" } else { "original" },
            "sourceUrl": self.imported.then(|| format!("https://recipes.example.jp/{}", luck.between(1_000, 9_999))),
            "servings": self.servings,
            "cookMinutes": self.dish.family.minutes,
            "memo": luck.happens(30).then(|| luck.word(&MEMOS)),
            "ingredients": self.dish.ingredients(self.servings).iter().map(Ingredient::json).collect::<Vec<_>>(),
        })
    }
}

impl Menu {
    fn said(&self, chapter: Option<&str>, recipes: &[Recipe], cook: &Cook) -> Json {
        let items = self
            .recipes
            .iter()
            .filter_map(|n| recipes.get(*n))
            .map(|recipe| json!({ "recipeId": recipe.id, "title": recipe.dish.title, "servings": cook.people }));
        json!({
            "setId": self.id,
            "title": self.title,
            "description": self.about,
            "tags": self.tags.split(' ').collect::<Vec<_>>(),
            "categoryId": chapter,
            "items": items.collect::<Vec<_>>(),
        })
    }
}

/// Something of the book; with its copies in the catalog, if it is to be there.
fn published(
    [own, catalog, creator, id]: [&'static str; 4],
    mut said: Json,
    (moment, offer): (i64, Option<Offer>),
    copied: &[&str],
    cook: &Cook,
    mut luck: Luck,
) -> Together {
    let Some(offer) = offer else { return Thing::new(own, moment, &mut luck, said).alone() };
    let at = instant(offer.moment);
    said["publishedAt"] = json!(at);
    let copy = |fields: &[&str]| {
        let mut copy = json!({ id: said[id], "creatorName": cook.name, "price": offer.price, "createdAt": at });
        fields.iter().for_each(|field| copy[*field] = said[*field].clone());
        copy
    };
    let (complete, short) = (copy(copied), copy(&["title", "tags"]));
    let name = format!("published-{own}-{}", said[id].as_str().unwrap_or_default());
    let claim = [("creator", json!(cook.id)), ("millis", json!(offer.moment))];
    let claim = claim.map(|(field, value)| (field.to_owned(), value)).into_iter().collect();
    let things = vec![
        Thing::new(own, moment, &mut luck, said),
        Thing::new(catalog, offer.moment, &mut luck, complete),
        Thing::new(creator, offer.moment, &mut luck, short),
    ];
    Together { things, claim: Some((catalog, name, claim)) }
}
