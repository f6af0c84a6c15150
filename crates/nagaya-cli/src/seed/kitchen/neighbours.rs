//! What households have to do with each other: they save what others have published, buy it, and send links.

use nagaya_tenancy::Tenant;
use serde_json::json;

use super::{
    RECIPES, Thing, Together, book,
    book::{Book, Offer},
    desk::{Cook, FEE, PERIOD},
    evening, happenings, id, instant, later,
};
use crate::seed::{
    item::DAY,
    story::{Happenings, Story, Whose},
};

/// Whose books somebody looks into, at most.
const KNOWN: usize = 5;

/// What a household does with what others have. It comes when all have published what they do.
pub(crate) struct Neighbours;

impl Story for Neighbours {
    fn entities(&self) -> &'static [&'static str] {
        &["saved_recipe", "saved_set", "purchase", "share"]
    }

    fn usual(&self) -> usize {
        RECIPES
    }

    fn mark(&self, whose: &Whose<'_>) -> (&'static str, Vec<String>) {
        ("recipe", vec![book::recipe_id(whose, 0)])
    }

    fn tell<'s>(&'s self, tenant: &'s Tenant, whose: Whose<'s>) -> Happenings<'s> {
        let cook = Cook::of(&whose);
        let mut all = periods(&whose, &cook);
        let others = (1..whose.tenants.len()).take(KNOWN).map(|n| (whose.at + n) % whose.tenants.len());
        for other in others.map(|at| Whose { at, ..whose }) {
            all.extend(seen(&whose, &cook, &other));
        }
        all.extend(shares(&whose, &cook));
        happenings(tenant, whose, all)
    }
}

/// What somebody saves of another's, and buys before.
fn seen(whose: &Whose<'_>, cook: &Cook, other: &Whose<'_>) -> Vec<Together> {
    let book = Book::of(*other);
    let recipes =
        book.recipes.iter().map(|each| (["saved_recipe", "recipeId", "RECIPE"], &each.id, each.dish.title, each.offer));
    let menus = book.menus.iter().map(|each| (["saved_set", "setId", "SET"], &each.id, each.title, each.offer));
    let offers = recipes.chain(menus).filter_map(|(kind, id, title, offer)| Some((kind, id, title, offer?)));
    let mut all = Vec::new();
    let mut before = "";
    for (n, ([saved, name, target], thing, title, Offer { moment, price })) in offers.enumerate() {
        let mut luck = whose.luck(&format!("{saved} {}", other.tenant()), n);
        // Everybody finds something.
        let first = std::mem::replace(&mut before, saved) != saved;
        if !first && !luck.happens(55) {
            continue;
        }
        let at = if (whose.until - moment) < 2 * DAY { moment + 1_000 } else { later(moment, whose.until, &mut luck) };
        if price > 0 {
            let said = json!({
                "purchasedAt": instant(at),
                "purchaseId": id(at, luck.bits()),
                "targetType": target,
                "targetId": thing,
                "title": title,
                "amount": price,
                "paymentMethodId": cook.card,
            });
            all.push(Thing::new("purchase", at, &mut luck, said).alone());
        }
        let said = json!({
            name: thing,
            "creatorId": other.tenant(),
            "catalogCreatedAt": instant(moment),
            "title": title,
        });
        all.push(Thing::new(saved, at, &mut luck, said).alone());
    }
    all
}

/// What was paid for the subscription so far.
fn periods(whose: &Whose<'_>, cook: &Cook) -> Vec<Together> {
    let mut luck = whose.luck("purchase", 0);
    let starts = (0..).map(|n| cook.since + n * PERIOD * DAY).take_while(|start| *start < whose.until);
    let paid = starts.map(|start| {
        let said = json!({
            "purchasedAt": instant(start),
            "purchaseId": id(start, luck.bits()),
            "targetType": "SUBSCRIPTION",
            "title": "プレミアムプラン 30日",
            "amount": FEE,
            "paymentMethodId": cook.card,
        });
        Thing::new("purchase", start, &mut luck, said).alone()
    });
    paid.collect()
}

/// The links that somebody has sent: to two recipes and a menu.
fn shares(whose: &Whose<'_>, cook: &Cook) -> Vec<Together> {
    let book = Book::of(*whose);
    // What comes from somewhere else has a link already.
    let recipes = book.recipes.iter().filter(|recipe| !recipe.imported).take(2).map(|recipe| ("RECIPE", &recipe.id));
    let menus = book.menus.iter().take(1).map(|menu| ("SET", &menu.id));
    let links = recipes.chain(menus).enumerate().map(|(n, (target, thing))| {
        let mut luck = whose.luck("share", n);
        let moment = evening(whose.until - luck.between(1, 25) * DAY, &mut luck);
        let said = json!({ "targetType": target, "targetId": thing, "authorName": cook.name });
        Thing::new("share", moment, &mut luck, said).alone()
    });
    links.collect()
}
