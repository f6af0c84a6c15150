//! The plans of this week and of the next one, and the cooking log.

use nagaya_seed::{DAY_MILLIS, Rng, SeedContext};
use serde_json::{Value as Json, json};

use super::{
    EVENING_UTC_HOUR, HOUR_MILLIS, NOON_UTC_HOUR, SECOND_MILLIS, SeedItem, WriteGroup,
    account::SeedUser,
    book::{HISTORY_DAYS, RecipeBook},
    date, evening, id, instant,
    texts::TEXTS,
};

/// Weeks of which every day is logged, besides this one.
const LOGGED_WEEK_COUNT: i64 = 2;

/// The plans and the log of a user.
pub(super) struct Plans {
    /// The items of this week's plan and of next week's.
    pub(super) current: Vec<Meal>,
    pub(super) next: Vec<Meal>,
    plans: Vec<WriteGroup>,
    /// What was cooked, the latest first.
    cooked: Vec<Meal>,
    people: u32,
}

/// A meal of a day.
#[derive(Clone)]
pub(super) struct Meal {
    day: i64,
    /// The recipe, by its place in the book.
    pub(super) recipe: usize,
    recipe_id: String,
    title: &'static str,
    set_id: Option<String>,
    /// At noon, or in the evening.
    hour: i64,
}

pub(super) fn build_plans(context: &SeedContext<'_>, book: &RecipeBook, user: &SeedUser) -> Plans {
    let mut rng = context.rng_for_item("days", 0);
    // 1970 began on a Thursday.
    let monday = context.until - (context.until.div_euclid(DAY_MILLIS) + 3).rem_euclid(7) * DAY_MILLIS;
    let current = meals_of_week(book, 0, monday, &mut rng);
    let next = meals_of_week(book, 1, monday + 7 * DAY_MILLIS, &mut rng);
    let cooked = build_cooked_meals(context, book, monday, &mut rng);
    let plans = vec![
        build_plan(context, book, user, ("CURRENT", &current, monday - DAY_MILLIS)),
        build_plan(context, book, user, ("NEXT", &next, context.until - DAY_MILLIS)),
    ];
    Plans { current, next, plans, cooked, people: user.household_size }
}

/// A plan that was made on the evening of a day.
fn build_plan(
    context: &SeedContext<'_>,
    book: &RecipeBook,
    user: &SeedUser,
    (slot, meals, day): (&str, &[Meal], i64),
) -> WriteGroup {
    let mut rng = context.rng_for_item(slot, 0);
    let menu = meals.iter().find_map(|meal| meal.set_id.as_ref());
    let menu = book.menus.iter().find(|known| Some(&known.id) == menu);
    let applied = evening(day, &mut rng);
    // It changes with everything that is cooked.
    let last = meals
        .iter()
        .filter(|meal| meal.day < context.until)
        .map(|meal| meal.day + EVENING_UTC_HOUR * HOUR_MILLIS)
        .max();
    let items = meals.iter().map(|meal| {
        let mut item = meal.fields(user.household_size);
        item["cooked"] = (meal.day < context.until).into();
        item
    });
    let fields = json!({
        "slot": slot,
        "setId": menu.map(|menu| &menu.id),
        "setTitle": menu.map(|menu| menu.title),
        "appliedAt": instant(applied),
        "items": items.collect::<Vec<_>>(),
    });
    SeedItem::new("plan", last.unwrap_or(applied), &mut rng, fields).alone()
}

/// What has been cooked, the latest first.
///
/// What was cooked of this week's plan is not there yet: it becomes logs when the next plan takes its place.
fn build_cooked_meals(context: &SeedContext<'_>, book: &RecipeBook, monday: i64, rng: &mut Rng) -> Vec<Meal> {
    let mut cooked: Vec<Meal> = Vec::new();
    for day in (0..7).map(|n| monday + n * DAY_MILLIS).filter(|day| *day < context.until) {
        let word = rng.pick_word(&["麺", "ご飯もの", "お弁当"]);
        cooked.extend(choose_meal(book, word, (day, NOON_UTC_HOUR), &[], rng));
    }
    for (menu, back) in (2..).zip(1..=LOGGED_WEEK_COUNT) {
        cooked.extend(meals_of_week(book, menu, monday - 7 * back * DAY_MILLIS, rng));
    }
    for day in (7 * LOGGED_WEEK_COUNT + 1..=HISTORY_DAYS).map(|back| monday - back * DAY_MILLIS) {
        if !rng.chance(35) {
            continue;
        }
        let main = choose_meal(book, "主菜", (day, EVENING_UTC_HOUR), &[], rng);
        let beside = rng.chance(60).then(|| {
            let chosen: Vec<_> = main.iter().map(|meal| meal.recipe).collect();
            choose_meal(book, rng.pick_word(&["副菜", "汁物", "ご飯もの"]), (day, EVENING_UTC_HOUR), &chosen, rng)
        });
        cooked.extend(main.into_iter().chain(beside.flatten()));
    }
    cooked.sort_by_key(|meal| std::cmp::Reverse(meal.day));
    cooked
}

/// A week by a menu, from Monday to Friday, and two days without one.
fn meals_of_week(book: &RecipeBook, menu: usize, monday: i64, rng: &mut Rng) -> Vec<Meal> {
    // With few menus, the first one is used again.
    let menu = book.menus.get(menu).or(book.menus.first());
    let recipes = menu.map_or(&[][..], |menu| &menu.recipes);
    let mut week: Vec<Meal> = recipes
        .iter()
        .enumerate()
        .map(|(n, recipe)| {
            let day = i64::try_from(n * 5 / recipes.len().max(1)).unwrap_or(0);
            let mut meal = Meal::from_recipe(book, *recipe, (monday + day * DAY_MILLIS, EVENING_UTC_HOUR));
            meal.set_id = menu.map(|menu| menu.id.clone());
            meal
        })
        .collect();
    for (day, word) in [(5, "麺"), (5, "鍋"), (6, "ご飯もの"), (6, "汁物")] {
        let when = (monday + day * DAY_MILLIS, EVENING_UTC_HOUR);
        week.extend(choose_meal(book, word, when, recipes, rng).or_else(|| choose_meal(book, word, when, &[], rng)));
    }
    week
}

/// A meal of this kind with a recipe that is not chosen yet.
fn choose_meal(
    book: &RecipeBook,
    word: &str,
    (day, hour): (i64, i64),
    chosen: &[usize],
    rng: &mut Rng,
) -> Option<Meal> {
    Some(Meal::from_recipe(book, book.choose(word, day, chosen, rng)?, (day, hour)))
}

impl Meal {
    fn from_recipe(book: &RecipeBook, recipe: usize, (day, hour): (i64, i64)) -> Self {
        let found = &book.recipes[recipe];
        Meal { day, recipe, recipe_id: found.id.clone(), title: found.dish.title, set_id: None, hour }
    }

    fn fields(&self, people: u32) -> Json {
        json!({ "recipeId": self.recipe_id, "title": self.title, "date": date(self.day), "servings": people })
    }
}

impl Plans {
    pub(super) fn into_write_groups(self, context: &SeedContext<'_>) -> Vec<WriteGroup> {
        let logs = self.cooked.iter().enumerate().map(|(n, meal)| {
            let mut rng = context.rng_for_item("cooklog", n);
            let moment = meal.day + meal.hour * HOUR_MILLIS + rng.between(0, 5_400) * SECOND_MILLIS;
            let mut fields = meal.fields(self.people);
            fields["logId"] = json!(id(moment, rng.bits()));
            fields["setId"] = json!(meal.set_id);
            fields["rating"] = json!(rng.chance(80).then(|| rng.pick(&[3, 4, 4, 5, 5]).copied()));
            fields["memo"] = json!(rng.chance(45).then(|| rng.pick_word(&TEXTS.log_memos)));
            SeedItem::new("cooklog", moment, &mut rng, fields).alone()
        });
        let logs: Vec<_> = logs.collect();
        self.plans.into_iter().chain(logs).collect()
    }
}
