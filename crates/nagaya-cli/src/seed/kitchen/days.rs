//! The menu of this week and of the next one, and what has been cooked so far.

use serde_json::{Value as Json, json};

use super::{
    EVENING, HOUR, NOON, SECOND, Thing, Together,
    book::{BACK, Book},
    date,
    desk::Cook,
    evening, id, instant,
};
use crate::seed::{item::DAY, luck::Luck, story::Whose};

/// Weeks of which every day is written down, besides this one.
const WEEKS: i64 = 2;

const MEMOS: [&str; 12] = [
    "おいしくできた。",
    "少し味が濃かった。次はしょうゆを減らす。",
    "子どもがおかわりした。",
    "時間が足りなくて、煮込みが浅かった。",
    "翌日のほうが味がしみていた。",
    "野菜を倍にしても大丈夫だった。",
    "買い忘れたものを家にあるもので代用。",
    "焼きすぎ注意。",
    "家族に好評。また作る。",
    "盛りつけを変えたら喜ばれた。",
    "残りはお弁当へ。",
    "辛さはこのくらいがちょうどよい。",
];

/// The plans and the logs of a household.
pub(super) struct Days {
    /// The items of this week's plan and of next week's.
    pub(super) current: Vec<Meal>,
    pub(super) next: Vec<Meal>,
    plans: Vec<Together>,
    /// What was cooked, the last first.
    cooked: Vec<Meal>,
    people: u32,
}

/// Something on a day.
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

pub(super) fn days(whose: &Whose<'_>, book: &Book, cook: &Cook) -> Days {
    let mut luck = whose.luck("days", 0);
    // 1970 began on a Thursday.
    let monday = whose.until - (whose.until.div_euclid(DAY) + 3).rem_euclid(7) * DAY;
    let current = of_week(book, 0, monday, &mut luck);
    let next = of_week(book, 1, monday + 7 * DAY, &mut luck);
    let cooked = cooked(whose, book, monday, &mut luck);
    let plans = vec![
        plan(whose, book, cook, ("CURRENT", &current, monday - DAY)),
        plan(whose, book, cook, ("NEXT", &next, whose.until - DAY)),
    ];
    Days { current, next, plans, cooked, people: cook.people }
}

/// A plan that was made on the evening of a day.
fn plan(whose: &Whose<'_>, book: &Book, cook: &Cook, (slot, meals, day): (&str, &[Meal], i64)) -> Together {
    let mut luck = whose.luck(slot, 0);
    let menu = meals.iter().find_map(|meal| meal.set_id.as_ref());
    let menu = book.menus.iter().find(|known| Some(&known.id) == menu);
    let applied = evening(day, &mut luck);
    // It changes with everything that is cooked.
    let last = meals.iter().filter(|meal| meal.day < whose.until).map(|meal| meal.day + EVENING * HOUR).max();
    let items = meals.iter().map(|meal| {
        let mut item = meal.said(cook.people);
        item["cooked"] = (meal.day < whose.until).into();
        item
    });
    let said = json!({
        "slot": slot,
        "setId": menu.map(|menu| &menu.id),
        "setTitle": menu.map(|menu| menu.title),
        "appliedAt": instant(applied),
        "items": items.collect::<Vec<_>>(),
    });
    Thing::new("plan", last.unwrap_or(applied), &mut luck, said).alone()
}

/// What has been cooked, the last first.
///
/// What was cooked of this week's plan is not there yet: it becomes logs when the next plan takes its place.
fn cooked(whose: &Whose<'_>, book: &Book, monday: i64, luck: &mut Luck) -> Vec<Meal> {
    let mut cooked: Vec<Meal> = Vec::new();
    for day in (0..7).map(|n| monday + n * DAY).filter(|day| *day < whose.until) {
        let word = luck.word(&["麺", "ご飯もの", "お弁当"]);
        cooked.extend(meal(book, word, (day, NOON), &[], luck));
    }
    for (menu, back) in (2..).zip(1..=WEEKS) {
        cooked.extend(of_week(book, menu, monday - 7 * back * DAY, luck));
    }
    for day in (7 * WEEKS + 1..=BACK).map(|back| monday - back * DAY) {
        if !luck.happens(35) {
            continue;
        }
        let main = meal(book, "主菜", (day, EVENING), &[], luck);
        let beside = luck.happens(60).then(|| {
            let chosen: Vec<_> = main.iter().map(|meal| meal.recipe).collect();
            meal(book, luck.word(&["副菜", "汁物", "ご飯もの"]), (day, EVENING), &chosen, luck)
        });
        cooked.extend(main.into_iter().chain(beside.flatten()));
    }
    cooked.sort_by_key(|meal| std::cmp::Reverse(meal.day));
    cooked
}

/// A week by a menu, from Monday to Friday, and two days without one.
fn of_week(book: &Book, menu: usize, monday: i64, luck: &mut Luck) -> Vec<Meal> {
    // Where there are few, one is used again.
    let menu = book.menus.get(menu).or(book.menus.first());
    let recipes = menu.map_or(&[][..], |menu| &menu.recipes);
    let mut week: Vec<Meal> = recipes
        .iter()
        .enumerate()
        .map(|(n, recipe)| {
            let day = i64::try_from(n * 5 / recipes.len().max(1)).unwrap_or(0);
            let mut meal = Meal::of(book, *recipe, (monday + day * DAY, EVENING));
            meal.set_id = menu.map(|menu| menu.id.clone());
            meal
        })
        .collect();
    for (day, word) in [(5, "麺"), (5, "鍋"), (6, "ご飯もの"), (6, "汁物")] {
        let when = (monday + day * DAY, EVENING);
        week.extend(meal(book, word, when, recipes, luck).or_else(|| meal(book, word, when, &[], luck)));
    }
    week
}

/// A meal of a kind, of something that is not chosen yet.
fn meal(book: &Book, word: &str, (day, hour): (i64, i64), chosen: &[usize], luck: &mut Luck) -> Option<Meal> {
    Some(Meal::of(book, book.choose(word, day, chosen, luck)?, (day, hour)))
}

impl Meal {
    fn of(book: &Book, recipe: usize, (day, hour): (i64, i64)) -> Self {
        let found = &book.recipes[recipe];
        Meal { day, recipe, recipe_id: found.id.clone(), title: found.dish.title, set_id: None, hour }
    }

    fn said(&self, people: u32) -> Json {
        json!({ "recipeId": self.recipe_id, "title": self.title, "date": date(self.day), "servings": people })
    }
}

impl Days {
    pub(super) fn written(self, whose: &Whose<'_>) -> Vec<Together> {
        let logs = self.cooked.iter().enumerate().map(|(n, meal)| {
            let mut luck = whose.luck("cooklog", n);
            let moment = meal.day + meal.hour * HOUR + luck.between(0, 5_400) * SECOND;
            let mut said = meal.said(self.people);
            said["logId"] = json!(id(moment, luck.bits()));
            said["setId"] = json!(meal.set_id);
            said["rating"] = json!(luck.happens(80).then(|| luck.pick(&[3, 4, 4, 5, 5]).copied()));
            said["memo"] = json!(luck.happens(45).then(|| luck.word(&MEMOS)));
            Thing::new("cooklog", moment, &mut luck, said).alone()
        });
        let logs: Vec<_> = logs.collect();
        self.plans.into_iter().chain(logs).collect()
    }
}
