//! The recipe book of a user: categories, recipes, menus, and which of them are published.

use nagaya_seed::{DAY_MILLIS, Rng, SeedContext};
use nagaya_tenancy::RecordOwner;
use serde_json::{Value as Json, json};

use super::{
    EVENING_UTC_HOUR, HOUR_MILLIS, MAX_RECIPES, SECOND_MILLIS, SeedItem, SeedRecord, WriteGroup,
    account::SeedUser,
    dishes::{Dish, Ingredient},
    evening, id, instant, random_later_evening, start_of_day,
    texts::{MENUS, MenuText, TEXTS},
};
use crate::{catalog::price::LAST_PRICE_FIELD, product::object_fields};

/// One of how many recipes and of how many menus is published.
const PUBLISHED_ONE_IN: (usize, usize) = (20, 6);
/// Prices of published recipes that are not free, in yen.
const PRICES_YEN: [u32; 3] = [200, 300, 480];
/// How many recipes are older than the rest of the data.
const OLD_RECIPE_COUNT: usize = 20;
/// How far back the rest of the data goes, in days.
pub(super) const HISTORY_DAYS: i64 = 185;
/// Menus that have been used for some weeks.
pub(super) const USED_MENU_COUNT: usize = 4;

/// A recipe of the book.
pub(super) struct Recipe {
    pub(super) id: String,
    pub(super) dish: Dish,
    pub(super) servings: u32,
    pub(super) offer: Option<Offer>,
    moment: i64,
    rng: Rng,
    /// Whether it comes from another site.
    pub(super) imported: bool,
}

/// A menu of the book.
pub(super) struct Menu {
    pub(super) id: String,
    pub(super) title: &'static str,
    /// The recipes, by their place in the book.
    pub(super) recipes: Vec<usize>,
    pub(super) offer: Option<Offer>,
    description: &'static str,
    tags: &'static str,
    moment: i64,
    rng: Rng,
}

/// A publication in the catalog.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) moment: i64,
    pub(super) price: u32,
}

pub(super) struct RecipeBook {
    pub(super) recipes: Vec<Recipe>,
    pub(super) menus: Vec<Menu>,
    categories: Vec<WriteGroup>,
    /// The names of the categories and their ids.
    category_ids: Vec<(&'static str, String)>,
}

/// The id of the n-th recipe of a user.
pub(super) fn recipe_id(context: &SeedContext<'_>, n: usize) -> String {
    id_time_and_rng(context, n).0
}

/// The id and the time of the n-th recipe, and the generator for the rest of it.
fn id_time_and_rng(context: &SeedContext<'_>, n: usize) -> (String, i64, Rng) {
    let mut rng = context.rng_for_item("recipe", n);
    let old = n < OLD_RECIPE_COUNT || rng.chance(70);
    let days = if old { rng.between(HISTORY_DAYS + 5, 540) } else { rng.between(2, HISTORY_DAYS) };
    let moment = evening(context.until - days * DAY_MILLIS, &mut rng);
    (id(moment, rng.bits()), moment, rng)
}

impl RecipeBook {
    pub(super) fn build(context: SeedContext<'_>) -> Self {
        let mut rng = context.rng_for_item("book", 0);
        let [mut first, mut others] = Dish::all();
        rng.shuffle(&mut first);
        rng.shuffle(&mut others);
        let dishes = first.into_iter().chain(others).take(context.items.min(MAX_RECIPES)).enumerate();
        let recipes = dishes.map(|(n, dish)| Recipe::from_dish(&context, n, dish)).collect();
        let mut book = RecipeBook { recipes, menus: Vec::new(), categories: Vec::new(), category_ids: Vec::new() };
        // Every user has the same menus for weekdays, and some of the others.
        let mut menus: Vec<usize> = (0..MENUS.len()).collect();
        rng.shuffle(&mut menus[USED_MENU_COUNT..]);
        for (n, which) in menus.into_iter().take(context.items).enumerate() {
            let menu = book.build_menu(&context, n, which);
            book.menus.push(menu);
        }
        book.add_categories(&context);
        book
    }

    /// A recipe that existed at some time and is not chosen yet, of this kind if there is one.
    pub(super) fn choose(&self, word: &str, before: i64, chosen: &[usize], rng: &mut Rng) -> Option<usize> {
        let there = |n: &usize| self.recipes[*n].moment < before && !chosen.contains(n);
        let any: Vec<usize> = (0..self.recipes.len()).filter(there).collect();
        let fit: Vec<usize> = any.iter().copied().filter(|n| self.recipes[*n].dish.has_category_or_tag(word)).collect();
        rng.pick(if fit.is_empty() { &any } else { &fit }).copied()
    }

    fn build_menu(&self, context: &SeedContext<'_>, n: usize, which: usize) -> Menu {
        let mut rng = context.rng_for_item("set", n);
        let days = if n < USED_MENU_COUNT { rng.between(30, HISTORY_DAYS) } else { rng.between(3, HISTORY_DAYS) };
        let moment = evening(context.until - days * DAY_MILLIS, &mut rng);
        let id = id(moment, rng.bits());
        // Before anything that depends on the recipes: the same values are derived for other users.
        let offer = (n % PUBLISHED_ONE_IN.1 == 5).then(|| {
            let price = if n % 12 == 11 { PRICES_YEN[2] } else { 0 };
            Offer { moment: random_later_evening(moment, context.until, &mut rng), price }
        });
        let MenuText { title, tags, description, recipes: words } = MENUS[which];
        let mut recipes = Vec::new();
        for word in words.split(' ') {
            recipes.extend(self.choose(word, moment, &recipes, &mut rng));
        }
        Menu { id, title, recipes, offer, description, tags, moment, rng }
    }

    /// Adds the categories, which are older than all recipes.
    fn add_categories(&mut self, context: &SeedContext<'_>) {
        let scopes = TEXTS.book_categories.iter().map(|name| ("book", name));
        let scopes = scopes.chain(TEXTS.catalog_categories.iter().map(|name| ("catalog", name)));
        for (n, (scope, name)) in scopes.enumerate().take(context.items) {
            let mut rng = context.rng_for_item("category", n);
            let minutes = i64::try_from(n).unwrap_or(0);
            let moment = start_of_day(context.until - 560 * DAY_MILLIS)
                + EVENING_UTC_HOUR * HOUR_MILLIS
                + minutes * 60 * SECOND_MILLIS;
            let id = id(moment, rng.bits());
            let position = if scope == "book" { n } else { n - TEXTS.book_categories.len() };
            let fields = json!({ "scope": scope, "categoryId": id, "name": name, "position": position });
            self.categories.push(SeedItem::new("category", moment, &mut rng, fields).alone());
            self.category_ids.push((name, id));
        }
    }

    fn category_id(&self, name: &str) -> Option<&str> {
        self.category_ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.as_str())
    }

    /// All items; what is published goes with its copies in the catalog.
    pub(super) fn into_write_groups(mut self, user: &SeedUser) -> Vec<WriteGroup> {
        let mut all = std::mem::take(&mut self.categories);
        for recipe in &self.recipes {
            let fields = recipe.fields(self.category_id(recipe.dish.family.category));
            let copied =
                ["title", "description", "steps", "tags", "sourceUrl", "servings", "cookMinutes", "ingredients"];
            let kind = ["recipe", "catalog_recipe", "creator_recipe", "recipeId"];
            all.push(published(kind, fields, (recipe.moment, recipe.offer), &copied, user, recipe.rng.clone()));
        }
        for menu in &self.menus {
            let fields = menu.fields(self.category_id("献立"), &self.recipes, user);
            let kind = ["set", "catalog_set", "creator_set", "setId"];
            let copied = ["title", "description", "tags", "items"];
            all.push(published(kind, fields, (menu.moment, menu.offer), &copied, user, menu.rng.clone()));
        }
        all
    }
}

impl Recipe {
    fn from_dish(context: &SeedContext<'_>, n: usize, dish: Dish) -> Self {
        let (id, moment, mut rng) = id_time_and_rng(context, n);
        let servings = *rng.pick(&[2, 2, 3, 4, 4]).unwrap_or(&2);
        let offer = (n % PUBLISHED_ONE_IN.0 == 1).then(|| {
            let price = if n % (3 * PUBLISHED_ONE_IN.0) == PUBLISHED_ONE_IN.0 + 1 {
                *rng.pick(&PRICES_YEN).unwrap_or(&0)
            } else {
                0
            };
            Offer { moment: random_later_evening(moment, context.until, &mut rng), price }
        });
        // A recipe of another site is not published.
        let imported = offer.is_none() && rng.chance(12);
        Recipe { id, dish, servings, offer, moment, rng, imported }
    }

    fn fields(&self, category: Option<&str>) -> Json {
        let mut rng = self.rng.clone();
        json!({
            "recipeId": self.id,
            "title": self.dish.title,
            "description": self.dish.about(),
            "steps": self.dish.steps(),
            "tags": self.dish.tags(),
            "categoryId": category,
            "origin": if self.imported { "imported" } else { "original" },
            "sourceUrl": self.imported.then(|| format!("https://recipes.example.jp/{}", rng.between(1_000, 9_999))),
            "servings": self.servings,
            "cookMinutes": self.dish.family.minutes,
            "memo": rng.chance(30).then(|| rng.pick_word(&TEXTS.recipe_memos)),
            "ingredients": self.dish.ingredients(self.servings).iter().map(Ingredient::json).collect::<Vec<_>>(),
        })
    }
}

impl Menu {
    fn fields(&self, category: Option<&str>, recipes: &[Recipe], user: &SeedUser) -> Json {
        let items = self.recipes.iter().filter_map(|n| recipes.get(*n)).map(
            |recipe| json!({ "recipeId": recipe.id, "title": recipe.dish.title, "servings": user.household_size }),
        );
        json!({
            "setId": self.id,
            "title": self.title,
            "description": self.description,
            "tags": self.tags.split(' ').collect::<Vec<_>>(),
            "categoryId": category,
            "items": items.collect::<Vec<_>>(),
        })
    }
}

/// An item of the book, with its copies in the catalog if it is published.
fn published(
    [own, catalog, creator, id]: [&'static str; 4],
    mut own_fields: Json,
    (moment, offer): (i64, Option<Offer>),
    copied: &[&str],
    user: &SeedUser,
    mut rng: Rng,
) -> WriteGroup {
    let Some(offer) = offer else { return SeedItem::new(own, moment, &mut rng, own_fields).alone() };
    let at = instant(offer.moment);
    own_fields["publishedAt"] = json!(at);
    if offer.price > 0 {
        own_fields[LAST_PRICE_FIELD] = json!(offer.price);
    }
    let copy = |fields: &[&str]| {
        let mut copy = json!({ id: own_fields[id], "creatorName": user.name, "price": offer.price, "createdAt": at });
        fields.iter().for_each(|field| copy[*field] = own_fields[*field].clone());
        copy
    };
    let (complete, short) = (copy(copied), copy(&["title", "tags"]));
    let name = format!("published-{own}-{}", own_fields[id].as_str().unwrap_or_default());
    let claim = object_fields(json!({ "creator": user.id, "millis": offer.moment }));
    let items = vec![
        SeedItem::new(own, moment, &mut rng, own_fields),
        SeedItem::new(catalog, offer.moment, &mut rng, complete),
        SeedItem::new(creator, offer.moment, &mut rng, short),
    ];
    let record = SeedRecord { entity: catalog, owner: RecordOwner::System, name, fields: claim };
    WriteGroup { items, record: Some(record) }
}
